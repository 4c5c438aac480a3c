#!/bin/sh
# Every command, given a device without end, a pipe that nobody writes to and a file of 4 GiB, ends
# with one line, in 256 MiB of data and 5 seconds of processor time.
. "$(dirname "$0")/lib.sh"
mkfifo "$T/pipe"
truncate -s 4G "$T/large"
case $RETAIN in */san/* | */tsan/*) sanitized=1 ;; *) sanitized= ;; esac

# bounded NAME COMMAND…: it fails by itself, with a line of its own
bounded() {
    name=$1
    shift
    (
        if [ ! "$sanitized" ]; then ulimit -d 262144 && ulimit -t 5 || exit 9; fi
        timeout 300 "$RETAIN" "$@" >"$T/said" 2>"$T/err" <"${input:-/dev/null}"
    )
    status=$?
    case $status in 1 | 2 | 3 | 4) ok ;; *) no "$name: exit status $status" ;; esac
    holds "$name: says why" "$(tail -n 1 "$T/err")" "^retain: "
    equal "$name: one line" 1 "$(grep -c '^retain: ' "$T/err")"
}

for file in /dev/zero "$T/pipe" "$T/large"; do
    kind=${file##*/}
    for command in "info -m" "info --heads" "plan -m" "generate -p hi -m" "generate -p hi --heads" \
        "generate -n 1 -f" "chat --plain -m" "chat --plain --db" "list --db" "check --db" \
        "import" "tokenize -f" "template" "perplexity -f" "eval" "eval recall -f" "eval talk -f" "quantize --type q4" \
        "heads import" "heads train -o $T/heads -f" \
        "heads calibrate -f" "replay" "bench -m" "models verify"; do
        # shellcheck disable=SC2086 # a command and its options
        case $command in
        "quantize --type q4") bounded "$command $kind" $command "$file" "$T/out.gguf" ;;
        *) bounded "$command $kind" $command "$file" ;;
        esac
    done
    mkdir -p "$XDG_CONFIG_HOME/retain"
    ln -sf "$file" "$XDG_CONFIG_HOME/retain/config"
    bounded "configuration $kind" list
    rm "$XDG_CONFIG_HOME/retain/config"
done
input=/dev/zero
bounded "generate: standard input" generate -n 1 -f -
bounded "chat: standard input" chat --plain --private
bounded "import: standard input" import -
unset input

# What is allowed: a pipe that a program writes to, late and in parts, or not at all.
(sleep 0.2; printf 'Who '; sleep 0.2; printf 'are you?') >"$T/pipe" &
holds "a pipe is read to its end" "$("$RETAIN" tokenize -f "$T/pipe")" "$("$RETAIN" tokenize -p 'Who are you?')"
finish
