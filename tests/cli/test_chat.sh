#!/bin/sh
# Plain chat with the shipped model: it remembers, is saved, listed, shown and resumed.
. "$(dirname "$0")/lib.sh"

say() { printf '%s\n' "$@"; }

out=$(say 'My locker code is 48213.' 'Tell me about cats.' 'What is my locker code?' |
    "$RETAIN" chat --plain --new --seed 1 2>"$T/err")
equal "chat: exit status" 0 $?
holds "chat: remembers" "$(say "$out" | tail -n 1)" '48213'
equal "chat: one line per answer" 3 "$(say "$out" | wc -l | tr -d ' ')"

holds "list" "$("$RETAIN" list)" 'chat-1 .* 3 .*My locker code is 48213'
holds "show" "$("$RETAIN" show chat-1)" 'Tell me about cats'
holds "list --json" "$("$RETAIN" list --json)" '"name":"chat-1".*"n_turns":3'

out=$(say 'What is my locker code?' | "$RETAIN" chat --plain --continue --seed 1 2>"$T/err")
holds "continue: still known after a restart" "$out" '48213'
out=$(say '/stats' | "$RETAIN" chat --plain --continue 2>&1)
holds "continue: nothing is read again" "$out" '(^|[^0-9])0 (tokens )?re-?read|re-?read[^0-9]*0([^0-9]|$)'

"$RETAIN" chat --plain --new </dev/null >/dev/null 2>&1
holds "nothing said, nothing left: it goes on where something was" "$("$RETAIN" list | sed -n 2p)" '^chat-1 '
"$RETAIN" chat --plain -c 'no such' </dev/null >/dev/null 2>&1
equal "named conversation is made when it is new" 0 $?
"$RETAIN" rename chat-1 locker && holds "rename" "$("$RETAIN" list)" '^locker '
"$RETAIN" delete locker </dev/null >/dev/null 2>&1
holds "delete" "$("$RETAIN" list 2>&1)" '^(NAME|no such|retain)'
refused "show of a deleted one" 1 '' "$RETAIN" show locker

# A start prints nothing that nobody asked for; /why says what was decided.
out=$(say 'Hello!' | "$RETAIN" chat -m quant/demo/retain-demo.gguf --plain --new --private 2>&1 >/dev/null)
equal "no line at the start" "" "$out"
out=$(say /why | "$RETAIN" chat -m quant/demo/retain-demo.gguf --plain --new --private --budget 300 2>&1)
holds "/why: the budget" "$out" 'budget: 300 tokens word for word, .* of cache .given; --budget'
holds "/why: no heads" "$out" 'policy: keydiff\+global, as there are no retaining heads.*retain heads fit'
holds "/why: sampling" "$out" 'sampling: temp 0.3, .* from the file'

# A file in a message: its text, and a question after it.
say 'My locker code is 48213.' >"$T/a note.txt"
out=$(say "/file \"$T/a note.txt\" Remember it." 'What is my locker code?' | "$RETAIN" chat --plain --private --temp 0 2>&1)
holds "/file: the answer is from the file" "$out" 48213
out=$(say "/file $T/none.txt What?" | "$RETAIN" chat --plain --private 2>&1)
holds "/file: no such file" "$out" 'none.txt.*No such file'
printf 'a\0b' >"$T/binary"
out=$(say "/file $T/binary" | "$RETAIN" chat --plain --private 2>&1)
holds "/file: not a text" "$out" 'binary is not a text'

# Nothing can be saved: the line says how to go on.
out=$(say 'Hello!' | XDG_DATA_HOME=/proc/none "$RETAIN" chat --plain 2>&1)
equal "no folder for conversations: exit status" 1 $?
holds "no folder for conversations: what to do" "$out" "cannot make .*--db FILE, or save nothing with --private"

# A 10 MB line is one message; a clear error when it cannot be read at once.
out=$(say '//literally a slash' | "$RETAIN" chat --plain --new --private --seed 1 2>&1)
equal "//: exit status" 0 $?
out=$(say '/nonsense' | "$RETAIN" chat --plain --new --private 2>&1)
holds "unknown slash command is not sent" "$out" 'nonsense'

# A model file's own temperature counts, if it is one.
demo=$T/without.gguf
LC_ALL=C sed 's/general\.sampling\.temp/general.sampling.was_/' quant/demo/retain-demo.gguf >"$demo"
n_keys=$(od -An -tu1 -j16 -N1 "$demo" | tr -d ' ')
with_temperature() { # with_temperature FLOAT_BYTES: two keys more, 64 bytes, so that nothing else moves
    head -c 16 "$demo"
    printf "\\$(printf '%03o' $((n_keys + 2)))\\0\\0\\0\\0\\0\\0\\0"
    printf '\025\0\0\0\0\0\0\0general.sampling.temp\006\0\0\0'"$1"
    printf '\013\0\0\0\0\0\0\0test.unused\004\0\0\0\001\0\0\0'
    tail -c +25 "$demo"
}
draw() {
    "$RETAIN" generate -p 'Tell me about cats.' -n 12 --seed 1 --top-k 0 --top-p 1 --min-p 0 --repeat-penalty 1 "$@" 2>&1
}
with_temperature '\0\0\310\102' >"$T/hot.gguf"   # 100
with_temperature '\231\166\226\176' >"$T/none.gguf" # 1e38
equal "a model's own temperature" "$(draw -m "$demo" --temp 100)" "$(draw -m "$T/hot.gguf")"
equal "--temp goes before it" "$(draw -m "$demo" --temp 0)" "$(draw -m "$T/hot.gguf" --temp 0)"
equal "one that cannot be" "$(draw -m "$demo" --temp 0.3)" "$(draw -m "$T/none.gguf")"
if [ "$(draw --temp 0)" != "$(draw --temp 100)" ]; then ok; else no "the temperature does not matter"; fi

holds "equal digits" "$(say 'My locker code is 555555.' 'What is my locker code?' |
    "$RETAIN" chat --plain --private --seed 1 2>/dev/null | tail -n 1)" 'is 5555'
finish
