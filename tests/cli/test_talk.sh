#!/bin/sh
# Slash commands in plain mode with the shipped model: rewinding, branches, settings, other
# conversations, copies.
. "$(dirname "$0")/lib.sh"

talk() { "$RETAIN" chat --plain --seed 1 --temp 0 "$@" 2>"$T/err"; }

out=$(printf '%s\n' 'Hello there!' 'Tell me about cats.' '/branch 1 early' '/edit 2' 'Tell me about dogs.' \
    '/rename pets' '/stats' | talk --new)
equal "exit status" 0 $?
equal "three answers" 3 "$(printf '%s\n' "$out" | wc -l | tr -d ' ')"
holds "edit: what it was" "$(cat "$T/err")" 'turn 2 was: Tell me about cats\.'
holds "edit: nothing is read again" "$(cat "$T/err")" ' 0 re-read'
shown=$("$RETAIN" show pets)
holds "edit: the new message" "$shown" 'dogs'
equal "edit: the old one is gone" 0 "$(printf '%s\n' "$shown" | grep -c 'about cats')"
holds "branch: has the turns before" "$("$RETAIN" list)" '^early .* 1 '

printf '%s\n' '/open early' '/set max-tokens 3' 'Tell me a story.' '/set budget 64' '/stats' '/set tmep 1' \
    '/set temp hot' '/set policy nonsense' '/mpa' '/raw' '/list' | talk -c pets >"$T/out"
equal "a command that fails does not end the chat; the exit status tells it" 2 $?
err=$(cat "$T/err")
holds "set: counts at once" "$("$RETAIN" show early | tail -n 1)" '^[^ ]+( [^ ]+){0,3}$'
holds "set: budget" "$err" '64 per head'
holds "set: misspelt" "$err" 'no setting tmep; did you mean temp'
holds "set: wrong value" "$err" 'temp hot: expected a number'
holds "set: unknown policy" "$err" 'nonsense is not known'
holds "unknown command" "$err" 'did you mean /map'
holds "screen only" "$err" '/raw|needs the screen'
holds "list: still there" "$err" '^early '

printf '%s\n' '/delete pets' '/list' '/restore' '/find dogs' '/rewind 0' '/stats' "/save $T/talk.md" \
    '/copy' 'Hello!' '/regenerate' "/save $T/talk.md" '/set tmep 1' | talk -c early >"$T/out"
equal "nothing to copy, which fails first: exit status" 1 $?
err=$(cat "$T/err")
holds "delete: said" "$err" 'pets was deleted'
holds "restore: said" "$err" 'pets was restored'
holds "find" "$err" 'pets: .*dogs'
holds "rewind to the beginning" "$err" 'chat +0 tokens'
holds "copy: nothing yet" "$err" 'no answer to copy'
holds "save: not twice" "$err" 'talk.md: File exists'
equal "regenerate at temperature 0 is the same" 1 "$(sort -u "$T/out" | wc -l | tr -d ' ')"
equal "regenerate: two answers" 2 "$(wc -l <"$T/out" | tr -d ' ')"

printf '%s\n' 'Hello!' '/edit' '/set budget 64' '/rename x' | talk --new --private >/dev/null
holds "private: cannot go back" "$(cat "$T/err")" 'private'

# A changed answer is continued as if the model had written it; only its text is read.
printf '%s\n' 'Tell me about cats.' '/answer Dogs' '/continue' '/stats' | talk -c changed >"$T/out"
equal "answer: exit status" 0 $?
holds "answer: goes on" "$(cat "$T/out")" '[a-z]'
holds "answer: nothing is read again" "$(cat "$T/err")" ' 0 re-read'
holds "answer: saved" "$("$RETAIN" show changed)" '^Dogs [a-z]'
equal "answer: the old one is gone" 0 "$("$RETAIN" show changed | grep -c 'Cats are')"
printf '%s\n' '/stats' '/copy' /new '/copy' | talk -c changed
holds "answer: resumes" "$(cat "$T/err")" ' 0 re-read'
equal "copy: the saved answer" "$("$RETAIN" show changed | tail -n 1)" "$(cat "$T/state/retain/copied")"
holds "copy: not that of another conversation" "$(cat "$T/err")" 'no answer to copy'

# Marks count at once, also before the turn is evicted.
printf '%s\n' '/pin 1' '/forget 1' '/turns' '/forget undo' '/turns' '/pin 1' | talk -c early
holds "forget: before pin" "$(cat "$T/err")" 'turn 1: 100 % kept, forgotten: Hello'
holds "forget: taken back" "$(grep -A 1 'taken back' "$T/err")" 'turn 1: 100 % kept, pinned: Hello'

# A read error is reported, not taken for the end of the input.
talk --new <"$T" >/dev/null
equal "unreadable input: exit status" 1 $?
holds "unreadable input" "$(cat "$T/err")" 'reading standard input: Is a directory'

# Nothing was said yet: settings count nevertheless.
printf '%s\n' '/set budget 64' '/stats' | talk --new
holds "set: in an empty conversation" "$(cat "$T/err")" ' 64 per head'

# Shown is what holds, not what was typed or not typed.
printf '%s\n' '/set budget 99999999' /set | talk --new
for line in 'budget +3328' 'policy +keeper' 'kv +q5:q4' 'recall +words' 'archive +1.00 GiB' 'chunk +[1-9][0-9]*' 'temp +0' \
    'top-k +40' 'repeat-penalty +1'; do
    holds "set: what holds: $line" "$(cat "$T/err")" "^  $line "
done
equal "set: and after a change" 2 "$(grep -c '^  budget  *3328 ' "$T/err")"

# /tokens counts as tokenize does: a message's text, without the template around it.
text='Tell me about cats, <|bos|> and dogs.'
n=$("$RETAIN" tokenize --ids --no-special -p "$text" | wc -w | tr -d ' ')
printf '%s\n' "/tokens $text" /tokens | talk --new
holds "tokens: as many as tokenize says" "$(cat "$T/err")" "^retain: $n tokens, ${#text} bytes"
holds "tokens: of what?" "$(cat "$T/err")" '^retain: /tokens TEXT'

# What was said later wins: recall brings both statements back, in their order.
filler() {
    for line in 'The farmer went down to the harbor before sunrise and nobody saw it.' \
        'An old sailor carried a heavy basket over the bridge because the day was warm.' \
        'Our neighbor waited near the station for a long time while the rain fell on the valley.' \
        'The quiet clerk painted the garden fence green but the door was closed.'; do
        printf '%s\n%s\n%s\n' "$line" "$line" "$line"
    done
}
changes=$(printf 'My pin code is 7394.\n%s\nMy new pin code is 3453.\n%s\nWhat is my pin code?\n/recalled\n' "$(filler)" "$(filler)")
out=$(echo "$changes" | "$RETAIN" chat --plain --private --safe --temp 0 --budget 96 2>&1 | tail -4)
holds "a changed fact: the answer" "$out" 'Your pin code is 3453'
holds "a changed fact: both return, the later one last" "$out" '7394.*
.*3453'
finish
