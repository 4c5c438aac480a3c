#!/bin/sh
# kill -9 in the middle of an answer: the text that was shown is in the transcript, nothing is
# replayed, and the answer can be continued. After a kill between turns the conversation resumes as
# if nothing had happened.
. "$(dirname "$0")/lib.sh"

chat() { "$RETAIN" chat --plain --seed 1 --temp 0 "$@"; }

# An answer that never ends: the model may not end its turn.
mkfifo "$T/in"
"$RETAIN" chat --plain --new --seed 1 --temp 0 --ignore-end -n 100000 <"$T/in" >"$T/seen" 2>/dev/null &
pid=$!
exec 3>"$T/in"
printf 'Tell me a story about a fox.\n' >&3
enough() { [ "$(wc -c <"$T/seen")" -gt 300 ]; }
wait_for enough || no "the answer did not start"
kill -9 $pid
wait $pid 2>/dev/null
exec 3>&-

"$RETAIN" show chat-1 >"$T/shown"
seen=$(tr '\n' ' ' <"$T/seen" | cut -c1-290)
if tr '\n' ' ' <"$T/shown" | grep -qF -- "$seen"; then ok; else
    no "the transcript does not hold what was seen: $seen"
    head -c 600 "$T/shown"
fi
out=$(printf '/stats\n' | chat --continue 2>&1)
holds "after kill -9: nothing is read again" "$out" '(^|[^0-9])0 (tokens )?re-?read|re-?read[^0-9]*0([^0-9]|$)'
before=$("$RETAIN" show chat-1 | wc -c)
out=$(printf '/continue\n' | chat --continue --ignore-end -n 20 2>&1) # the kill may have come after an end token
if [ "$("$RETAIN" show chat-1 | wc -c)" -gt "$before" ]; then ok; else no "/continue adds nothing: $out"; fi
out=$(printf 'How are you?\n' | chat --continue 2>/dev/null)
if [ -n "$out" ]; then ok; else no "no answer after a killed one"; fi

# Kills at other moments (KILLS=200 for the long run), compaction after every turn: the database
# always opens, every checksum is right, nothing is replayed and the conversation resumes.
i=0
while [ $i -lt "${KILLS:-20}" ]; do
    printf 'My dog is called Biscuit.\nTell me a story about a cow.\nTell me a joke.\n' |
        "$RETAIN" chat --plain --continue --seed 1 --temp 0 --budget 64 --rewind 1 >/dev/null 2>&1 &
    pid=$!
    sleep "0.0$((i * 37 % 90 + 10))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    printf '/stats\n' | chat --continue >"$T/out" 2>&1 || { no "kill $i: does not open"; cat "$T/out"; }
    "$RETAIN" check 2>"$T/err" || no "kill $i: $(cat "$T/err")"
    holds "kill $i: nothing is read again" "$(cat "$T/out")" '(^|[^0-9])0 (tokens )?re-?read|re-?read[^0-9]*0([^0-9]|$)'
    i=$((i + 1))
done
ok
finish
