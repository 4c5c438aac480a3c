#!/bin/sh
# A conversation and its models: resumed without options, with other models and back; where settings
# come from. With random models in the shape of real ones.
. "$(dirname "$0")/lib.sh"
PULL=${PULL:-build/tests}
mkdir "$T/m"
for kind in chatml llama3 gemma; do "$PULL/make_model" $kind "$T/m/$kind.gguf"; done

# chat INPUT OPTION…: plain lines in, what it says in $out (answers and notices)
chat() {
    input=$1
    shift
    out=$(printf '%b\n' "$input" | "$RETAIN" chat --plain "$@" -n 30 2>&1)
    status=$?
}
stat_of() { printf '%s\n' "$out" | grep "^$1 " | tail -n 1; }
setting() { printf '%s\n' "$out" | sed -n "s/^  $1  *\([^ ]*\).*/\1/p" | tail -n 1; }

# ---- its own model, budget and policy
chat 'My name is Anna.\n/stats' -m "$T/m/chatml.gguf" -c anna --budget 128 --policy keydiff+global:reserve=64 --temp 0.3
first=$(stat_of chat)
holds "a new conversation" "$out" 'model   chatml .*policy keydiff'
for again in --continue '-c anna'; do
    # shellcheck disable=SC2086
    chat '/stats\n/set budget\n/set policy\n/set temp' $again
    holds "$again: the model" "$(stat_of model)" '^model   chatml '
    equal "$again: the tokens" "$first" "$(stat_of chat)"
    equal "$again: the budget" 128 "$(setting budget)"
    equal "$again: the policy" keydiff+global:reserve=64 "$(setting policy)"
    equal "$again: the temperature" 0.3 "$(setting temp)"
done
holds "list names the model" "$("$RETAIN" list)" '^anna .* chatml '
holds "list --json, too" "$("$RETAIN" list --json)" '"model":"chatml"'
chat '/set temp 0.7\nWhat is my name?' --continue
chat '/set temp' --continue
equal "what /set said is kept" 0.7 "$(setting temp)"

# ---- another model
chat 'Hello' -c anna -m "$T/m/llama3.gguf"
equal "another model asks: exit status" 2 $status
holds "another model asks" "$out" 'anna was made with chatml; llama3 reads ([0-9]+) of its \1 tokens again; --yes agrees'
holds "and changes nothing" "$("$RETAIN" list)" '^anna .* chatml '
chat 'Hello\n/stats' -c anna -m "$T/m/llama3.gguf" --yes
equal "another model reads the text" 0 $status
holds "it is the other model" "$(stat_of model)" '^model   Random Llama 3|^model   llama3'
chat "/stats\n/model $T/m/gemma.gguf\nHello\n/stats\n/model $T/m/chatml.gguf\nHello\n/stats" --continue
holds "to two others and back" "$out" 'llama3'
holds "to two others and back: 3" "$(stat_of model)" 'chatml .*policy keydiff'
equal "no error on the way" '' "$(printf '%s\n' "$out" | grep -i 'cannot\|does not\|no conversation')"
holds "all turns are there" "$(stat_of chat)" ' 5 turns'

# What a model had read is taken back: only the rest is read, with the same result.
chat "Hello\n/model $T/m/gemma.gguf\nHello\n/model $T/m/chatml.gguf\n/stats" -c back -m "$T/m/chatml.gguf"
holds "back: it has this model now" "$("$RETAIN" list)" '^back .* chatml '
holds "back: its cache was kept" "$(stat_of chat)" ' 2 turns  0 re-read'
kept=$(printf '%s\n' "$out" | sed -n 's/^cache   kept \([0-9,]*\) of .*/\1/p')
if [ "${kept:-0}" != 0 ]; then ok; else no "back: nothing is in the cache: $out"; fi
chat "/branch 2 twig\n/open twig\n/model $T/m/gemma.gguf\nHello\n/open back\n/model $T/m/gemma.gguf\n/stats\n/model $T/m/chatml.gguf" -c back
holds "back: a branch takes nothing of it that a model had read" "$(stat_of chat)" ' 2 turns  0 re-read'
"$RETAIN" export back --with-cache "$T/back.db" >"$T/out" && "$RETAIN" import "$T/back.db" again >"$T/out"
"$RETAIN" delete again --cache-only 2>"$T/out"
chat 'What is my name?' -c again --temp 0
holds "back: the copy is read from the beginning" "$out" 'replaying'
answer=$(printf '%s\n' "$out" | tail -n 1)
chat 'What is my name?' -c back --temp 0
equal "back: the same answer as after reading everything" "$answer" "$(printf '%s\n' "$out" | tail -n 1)"
chat "/model $T/m/gemma.gguf\n/rewind 1\n/model $T/m/chatml.gguf\nWho?\n/stats" -c back
holds "a text that was changed meanwhile is read again" "$(stat_of chat)" ' 2 turns  [1-9][0-9]* re-read'
equal "no list shows what is kept" 2 "$("$RETAIN" list | grep -c 'back\|again\|read by')"
check "the database is whole" "$RETAIN" check
chat '/stats' --continue
holds "and the last model opens it" "$(stat_of model)" '^model   chatml '
equal "with its text" 5 "$("$RETAIN" show anna --json | grep -c '"role":"user"')"

# ---- another system text: what both models had read with the old one is read again
chat "Hello\n/system\n/system Speak like a king.\n/stats" -c king -m "$T/m/chatml.gguf"
holds "system: none" "$out" 'no system text; /system TEXT sets one'
again=$(printf '%s\n' "$out" | sed -n 's/.* replays \([0-9]*\) tokens.*/\1/p')
holds "system: set" "$out" '^retain: system text: Speak like a king\.$'
holds "system: the cost was said before" "$(stat_of chat)" "^chat    $again tokens  1 turn  $((again - 1)) re-read"
chat '/system\n/stats' -c king
holds "system: saved" "$out" 'system text: Speak like a king\.'
holds "system: and its cache" "$(stat_of chat)" ' 0 re-read'
chat "/model $T/m/gemma.gguf\n/system Be brief.\n/model $T/m/chatml.gguf\n/stats\n/system none\n/system" -c king
holds "system: the other model's reading is not taken back" "$(stat_of chat)" ' [1-9][0-9]* re-read'
holds "system: removed" "$(printf '%s\n' "$out" | tail -n 1)" 'no system text'
chat "/system Be brief.\n/set budget 300\n/system" -m "$T/m/chatml.gguf"
holds "system: before the first message" "$(printf '%s\n' "$out" | tail -n 1)" 'system text: Be brief\.'

# ---- what a model had by itself stays its own: also when the conversation was opened again
chat 'Hello' -c own -m "$T/m/chatml.gguf"
chat 'Hello' -c own
chat '/stats' -c own -m demo --yes
holds "own: the demo's budget" "$(stat_of cache)" ' 3328 per head'
chat '/model chatml\n/stats' -c own
holds "own: the way back reads nothing" "$(stat_of chat)" ' 2 turns  0 re-read'
holds "own: its budget" "$(stat_of cache)" ' 6912 per head'

# ---- from the demo, whose policy needs heads
chat "My name is Anna.\n/model $T/m/chatml.gguf\n/stats\n/model demo\n/stats" -c demo
holds "from the demo to a model" "$out" 'model   chatml .*policy keydiff'
holds "and back" "$(stat_of model)" 'retain demo .*policy keeper'

# ---- the file is gone
mv "$T/m/chatml.gguf" "$T/m/moved.gguf"
chat '/stats' -c anna
equal "no model: exit status" 1 $status
equal "no model: one line" 1 "$(printf '%s\n' "$out" | wc -l | tr -d ' ')"
holds "no model: its name, path, digest and the command" "$out" "anna was made with chatml, last at $T/m/chatml.gguf \(digest [0-9a-f]{12}\).*retain -c 'anna' -m FILE"
chat '/stats' -c anna -m "$T/m/moved.gguf"
holds "the moved file is the same model" "$(stat_of chat)" ' 5 turns  0 re-read'
chat '/stats' -c anna
holds "and is found from now on" "$(stat_of chat)" ' 5 turns  0 re-read'
finish
