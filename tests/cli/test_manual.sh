#!/bin/sh
# The manual page, completion, configuration and every row of the tables of commands and options.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")/../.." && pwd)

# ---- the page in docs/ is the one the program writes
"$RETAIN" manual >"$T/retain.1"
if cmp -s "$T/retain.1" "$here/docs/retain.1"; then ok; else no "docs/retain.1 is old: make docs/retain.1"; fi
if command -v man >/dev/null; then
    equal "the page is without faults" "" "$(LC_ALL=C.UTF-8 man -l --warnings=w "$T/retain.1" 2>&1 >/dev/null)"
else
    skip "man is missing"
fi

# ---- every command has help, is in the page, and takes its options
commands=$("$RETAIN" complete "" | cut -f 1)
if [ "$(echo "$commands" | wc -l)" -gt 20 ]; then ok; else no "few commands: $commands"; fi
for c in $commands; do
    "$RETAIN" "$c" --help >"$T/help" 2>&1 || no "$c --help fails"
    grep -q "^usage: retain $c" "$T/help" || no "$c --help does not say how it is used"
    grep -q "^\\\\fB$c\\\\fR" "$T/retain.1" || no "$c is not in the manual page"
    for option in $("$RETAIN" complete "$c" -- | cut -f 1); do
        grep -qF -- "$(echo "$option" | sed 's/-/\\-/g')\\fR" "$T/retain.1" || no "$option is not in the manual page"
        out=$("$RETAIN" "$c" "$option" --help 2>&1) # a flag: help follows; else the value is missing
        status=$?
        case $status in
        0) [ "$c" = chat ] || grep -qF -- "$option" "$T/help" || no "$c $option is not in the help" ;;
        2) holds "$c $option without a value" "$out" "needs a value: $option" ;;
        *) no "$c $option: status $status: $out" ;;
        esac
    done
done
ok

# ---- help for a person who chats is short; names of commands that are not in it stand below it
short() { # LINES WHAT
    if [ "$(wc -l <"$T/help")" -le "$1" ] && [ "$(wc -L <"$T/help")" -le 80 ]; then ok; else no "$2 is too large: $(cat "$T/help")"; fi
}
"$RETAIN" --help >"$T/help"
short 24 "retain --help"
equal "commands with a line" 16 "$(sed '/^For measuring/,$d' "$T/help" | grep -c '^  [a-z]')"
for c in $commands; do
    grep -qE "(^| )$c( |\$)" "$T/help" || no "retain --help has no $c"
done
"$RETAIN" chat --help >"$T/help"
short 80 "chat --help"
if [ "$(grep -c '^ *-' "$T/help")" -le 40 ]; then ok; else no "chat --help has more than 40 options"; fi

# ---- settings of the screen are in the configuration; as options they work for one version, with a notice
for name in $(sed -n '/^\.SH CONFIGURATION/,/^\.SH P/s/^\\fB\([^ ]*\)\\fR .*/\1/p' "$T/retain.1" | tr -d '\\'); do
    grep -qE -- "--$name( |\$)" "$T/help" && no "chat --help has --$name"
    equal "chat does not complete --$name" "" "$("$RETAIN" complete chat "--$name" | grep "^--$name	")"
    echo "$name" >>"$T/display"
done
equal "settings of the screen" 10 "$(sort -u "$T/display" | wc -l)"
equal "a notice for --contrast" "retain: --contrast is set in ~/.config/retain/config now" \
    "$(echo /stats | "$RETAIN" chat --plain --private --contrast 2>&1 >/dev/null | grep contrast)"
holds "replay takes --background" "$("$RETAIN" complete replay --ba)" '^--background'

# ---- exit statuses: each that the page lists happens
status() { "$RETAIN" "$@" >"$T/out" 2>&1 </dev/null; echo $?; }
interrupted() {
    "$RETAIN" generate -p 'Tell me a story.' --ignore-end --max-tokens 20000 >"$T/endless" 2>&1 &
    pid=$!
    wait_for test -s "$T/endless"
    kill -INT $pid
    wait $pid
    echo $?
}
echo nonsense >"$T/bad.gguf"
page_statuses=$(sed -n '/^\.SH EXIT STATUS/,/^\.SH EXAMPLES/s/^\\fB\([0-9]*\)\\fR$/\1/p' "$T/retain.1")
equal "the statuses of the page" "0 1 2 3 4 130" "$(echo $page_statuses)"
for want in $page_statuses; do
    case $want in
    0) got=$(status list) ;;
    1) got=$(status show nobody) ;;
    2) got=$(status lsit) ;;
    3) got=$(status info -m "$T/bad.gguf") ;;
    4) got=$(status plan --memory 1K) ;;
    130) got=$(interrupted) ;;
    *) got="no test" ;;
    esac
    equal "exit status $want" "$want" "$got"
done
equal "no such option" 2 "$(status list --colour)"

# ---- completion
holds "commands" "$("$RETAIN" complete pl)" '^plan	'
holds "options" "$("$RETAIN" complete chat --po)" '^--policy	'
holds "choices" "$("$RETAIN" complete chat --verify f)" '^full'
holds "policies" "$("$RETAIN" complete chat --policy lo)" '^locret	'
"$RETAIN" complete chat -m >/dev/null
holds "models, and files by the shell" "$("$RETAIN" complete chat -m "" || echo files)" '^demo'
"$RETAIN" complete chat --heads "" >"$T/out" && no "files are completed by the shell"
equal "nothing is offered for a file" "" "$(cat "$T/out")"
equal "nothing was made" "" "$(ls "$XDG_DATA_HOME/retain" 2>/dev/null | grep -v '^retain.db$')"
printf 'Hello.\n' | "$RETAIN" chat --plain -c my-talk >/dev/null 2>&1
holds "conversations" "$("$RETAIN" complete show my)" '^my-talk'
holds "conversations after -c" "$("$RETAIN" complete chat -c my)" '^my-talk'
out=$(PATH=$(dirname "$RETAIN"):$PATH bash -c '. "$1"; COMP_WORDS=(retain show my); COMP_CWORD=2; _retain; echo "${COMPREPLY[@]}"' \
    - "$here/docs/completion/retain.bash" 2>&1)
equal "in bash" my-talk "$out"
# The shell sees a name as one word, whatever characters it has.
name='my;touch made $(touch made) * '"'"'"'
printf 'Hello.\n' | "$RETAIN" chat --plain -c "$name" >/dev/null 2>&1
out=$(cd "$T" && PATH=$(dirname "$RETAIN"):$PATH bash -c '. "$1"; COMP_WORDS=(retain show "my;"); COMP_CWORD=2; _retain
    eval "printf %s%s\\\\n ${COMPREPLY[0]}"' - "$here/docs/completion/retain.bash" 2>&1)
equal "in bash, quoted" "$name" "$out"
if [ -e "$T/made" ]; then no "a conversation's name was run"; else ok; fi

# ---- the configuration file
mkdir -p "$XDG_CONFIG_HOME/retain"
config=$XDG_CONFIG_HOME/retain/config
printf 'temp = 0.25\nsystem = "Be # brief"\nbudget = 128\n' >"$config"
"$RETAIN" --print-config >"$T/printed"
for line in 'temp = 0.25' 'system = "Be # brief"' 'budget = 128' '# plain = no' '# memory = '; do
    grep -qxF "$line" "$T/printed" || no "--print-config lacks: $line"
done
mv "$T/printed" "$config"
"$RETAIN" --print-config >"$T/again"
if cmp -s "$config" "$T/again"; then ok; else no "what is printed is not read back"; diff "$config" "$T/again"; fi
"$RETAIN" --print-config --temp 1 >"$T/again"
if grep -qx 'temp = 1' "$T/again"; then ok; else no "the command line does not count"; fi
printf 'temp = 0.25\npolcy = sink\n' >"$config"
equal "a bad line" 2 "$(status list)"
holds "is named" "$(cat "$T/out")" "config:2: unknown key 'polcy'; did you mean policy\?.*--safe"
equal "--safe starts" 0 "$(status list --safe)"
equal "--safe may come first" 0 "$(status --safe list)"
holds "--safe has no settings" "$("$RETAIN" --safe --print-config)" '^# temp = $'
"$RETAIN" info --safe >"$T/out"
holds "paths" "$(cat "$T/out")" "^config +$config\$"
holds "paths" "$(cat "$T/out")" "^database +$XDG_DATA_HOME/retain/retain.db\$"
rm "$config"
finish
