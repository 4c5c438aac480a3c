#!/bin/sh
# soak.sh RETAIN SECONDS: one chat that goes on and on, with evictions, going back and recall, while other
# commands read the same database. At the end every checksum is right, nothing failed, and the chat's
# memory, descriptors and threads are those after its first 2,000 lines (a third of the time at the earliest, half of
# it at the latest); the file is no larger than its parts may be. Memory is measured when the chat waits for a line:
# while it goes back, it reads the saved cache through buffers.
set -u
retain=$1 seconds=$2
folder=$(mktemp -d) || exit 1
trap 'exec 7>&-; kill "$chat" 2>/dev/null; rm -rf "$folder"' EXIT
export XDG_DATA_HOME=$folder/data XDG_STATE_HOME=$folder/state XDG_CONFIG_HOME=$folder/config XDG_CACHE_HOME=$folder/cache
mkfifo "$folder/in"
"$retain" chat --plain -c soak --budget 64 --seed 1 -n 12 --rewind 16M --archive 16M <"$folder/in" >"$folder/said" 2>"$folder/notes" &
chat=$!
exec 7>"$folder/in"
status() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$chat/status"; }
descriptors() { ls "/proc/$chat/fd" | wc -l; }
fail() { echo "FAIL: $*"; tail -n 5 "$folder/notes"; exit 1; }
report() { echo "$turns lines, $commands other commands: $(status VmRSS) KiB resident ($(status RssAnon) of its own), at most $(status VmHWM)"; }

begun=$(date +%s) turns=0 rounds=0 first= commands=0
while [ $(($(date +%s) - begun)) -lt "$seconds" ]; do
    for line in 'My locker code is 48213.' 'Tell me about cats.' 'What is my locker code?' '/regenerate' 'How are you?' \
        'My locker code is 48213.' 'Tell me about dogs.' 'What is my locker code?' '/regenerate' 'What is two plus two?' \
        'My boat is called Vega.' 'Tell me about cats.' 'What is my boat called?' '/regenerate' 'Thank you.' \
        'My boat is called Rigel.' 'Tell me a joke.' 'What is my boat called?' '/regenerate' 'How are you?'; do
        echo "$line" >&7 || fail "the chat ended after $turns turns"
        turns=$((turns + 1))
    done
    # Waits until the chat has read them: a pipe would take thousands.
    echo '/tokens done' >&7
    rounds=$((rounds + 1))
    while [ "$(grep -cx 'retain: 2 tokens, 4 bytes' "$folder/notes")" -lt $rounds ]; do
        kill -0 $chat 2>/dev/null || fail "the chat ended after $turns turns"
        sleep 0.02
    done
    passed=$(($(date +%s) - begun))
    if [ -z "$first" ] && { { [ $turns -ge 2000 ] && [ $passed -ge $((seconds / 3)) ]; } || [ $passed -ge $((seconds / 2)) ]; }; then
        first=$(status VmRSS) fds=$(descriptors) threads=$(status Threads)
        report
    fi
    for command in list 'show soak' 'search locker' 'export soak --json' check; do
        # shellcheck disable=SC2086
        "$retain" $command >"$folder/out" 2>&1 || fail "retain $command: $(tail -n 1 "$folder/out")"
        commands=$((commands + 1))
    done
    [ $((rounds % 25)) -eq 0 ] && report
done
report
last=$(status VmRSS)
[ "$(descriptors)" -eq "$fds" ] || fail "descriptors: $fds, then $(descriptors)"
[ "$(status Threads)" -eq "$threads" ] || fail "threads: $threads, then $(status Threads)"
[ $((last - first)) -le 1024 ] || fail "resident memory: $first KiB, then $last KiB"
exec 7>&-
wait $chat || fail "the chat's exit status is $?"
"$retain" check >"$folder/out" 2>&1 || fail "check: $(cat "$folder/out")"
# What may be gone back to, as much again that is not compacted yet, the archive, free pages and the text.
size=$(du -k "$XDG_DATA_HOME/retain/retain.db" | cut -f1)
[ "$size" -le $((2 * 16384 + 16384 + 16384 + 16384)) ] || fail "the database has $size KiB"
echo "soak: $turns lines, $commands other commands, $first KiB resident, later $last KiB; the database has $size KiB"
