#!/bin/sh
# Saved conversations from the command line: found, exported and imported, deleted and
# restored, checked, compacted, encrypted.
. "$(dirname "$0")/lib.sh"

talk() { said=$1; shift; printf '%s\n' "$said" | "$RETAIN" chat --plain --seed 1 --temp 0 -n 20 "$@" >"$T/said" 2>"$T/err"; }
reread() { printf '/stats\n' | "$RETAIN" chat --plain "$@" 2>&1; }
ZERO='(^|[^0-9])0 (tokens )?re-?read|re-?read[^0-9]*0([^0-9]|$)'

# Commands that only read create nothing.
for c in list 'list --json' 'models list' 'models unpack' 'search dog' 'show chat-1' 'export chat-1' check compact 'tag chat-1 a' \
    'rename chat-1 a' 'delete chat-1' 'restore chat-1' 'complete show'; do
    "$RETAIN" $c >"$T/out" 2>"$T/err"
    equal "retain $c: nothing is made" "" "$(ls "$T" | grep -v '^out$\|^err$')"
    "$RETAIN" $c --db "$T/a/b.db" >"$T/out" 2>"$T/err"
    equal "retain $c --db: nothing is made" "" "$(ls "$T" | grep -v '^out$\|^err$')"
done
holds "list without a database" "$("$RETAIN" list --db "$T/a/b.db" 2>&1)" 'no saved conversations'
holds "show without a database" "$("$RETAIN" show chat-1 --db "$T/a/b.db" 2>&1)" "no saved conversations: there is no $T/a/b.db"
"$RETAIN" check --db "$T/a/b.db" 2>/dev/null
equal "check without a database: exit status" 1 $?

talk 'My dog is called Biscuit.' --new
talk 'How are you?' --continue
talk 'Tell me about cats.' --new
equal "search: one line" 1 "$("$RETAIN" search my dog is called biscuit | wc -l | tr -d ' ')"
holds "search: name and snippet" "$("$RETAIN" search called biscu)" '^chat-1 .*user .*My dog is called Biscuit'
holds "search --json" "$("$RETAIN" search biscuit --json)" '"name":"chat-1".*"message":0.*"role":"user".*"snippet":"My dog'
refused "search: nothing, as grep says it" 1 'nothing found' "$RETAIN" search zebrafish
equal "search --limit" 1 "$("$RETAIN" search a --limit 1 | wc -l | tr -d ' ')"

# --recall-from: what another conversation says is read before the message, and saved.
from() { talk 'What is my dog called?' -c asks --db "$T/from.db" "$@"; }
talk 'My dog is called Biscuit.' -c pets --db "$T/from.db"
from --recall-from pets,wrong
holds "--recall-from: no such conversation" "$(cat "$T/err")" 'no conversation wrong; /list shows them'
from --recall-from pets
holds "--recall-from: the answer" "$(cat "$T/said")" 'Biscuit'
holds "--recall-from: saved" "$("$RETAIN" show asks --db "$T/from.db")" '^From "pets": My dog is called Biscuit\.'
from --recall-from all
equal "--recall-from: said once" 1 "$("$RETAIN" show asks --db "$T/from.db" | grep -c '^From "pets"')"
holds "--recall-from: resumed" "$(printf '/stats\n' | "$RETAIN" chat --plain -c asks --db "$T/from.db" 2>&1)" "$ZERO"
talk 'What is my dog called?' --private --recall-from all
holds "--recall-from --private" "$(cat "$T/err")" 'a private chat reads no other conversation'

check "tag" "$RETAIN" tag chat-1 dogs home
holds "list: tags" "$("$RETAIN" list)" '^chat-1 .*#dogs #home'
equal "list --tag" 1 "$("$RETAIN" list --tag dogs | grep -c '^chat-')"
holds "list --json: tags" "$("$RETAIN" list --tag home --json)" '"tags":\["dogs","home"\]'
check "tag --remove" "$RETAIN" tag --remove chat-1 home
holds "list --tag: none" "$("$RETAIN" list --tag home 2>&1)" 'no conversation has this tag'
"$RETAIN" tag --remove chat-1 home 2>"$T/err" && no "took off a tag that is not on"
holds "tag --remove: not on" "$(cat "$T/err")" "has no tag #home"

# The settings of an answer are kept, and produce it again.
printf 'Tell me a story.\n' | "$RETAIN" chat --plain -c drawn --temp 0.9 --seed 77 -n 30 >"$T/drawn" 2>/dev/null
with=$("$RETAIN" show drawn --json | sed -n 's/.*"settings":"\([^"]*\)".*/\1/p')
holds "settings: of the answer" "$with" '^--temp 0\.9 .*--seed 77 .*--policy [a-z]'
holds "settings: exported" "$("$RETAIN" export drawn)" '"settings":"--temp 0\.9 '
equal "settings: not in the text" "## assistant" "$("$RETAIN" show drawn | grep '^## assistant')"
printf 'Tell me a story.\n' | "$RETAIN" chat --plain --private --new $with >"$T/again" 2>/dev/null
check "settings: the same text again" cmp "$T/drawn" "$T/again"
"$RETAIN" delete drawn 2>/dev/null

# The map in words, and how it came about.
printf 'Tell me a story about a fox.\nTell me about cats.\nTell me a joke.\n/map\n' |
    "$RETAIN" chat --plain -c words --budget 48 --seed 1 --temp 0 >/dev/null 2>"$T/map"
holds "/map: the first tokens" "$(cat "$T/map")" '^tokens 0 to [0-9]+: [0-9]+ % kept$'
holds "/map: earlier" "$(grep '^after ' "$T/map" | tr '\n' ' ')" '^after [0-9]+ tokens: 100 % kept .* [1-8][0-9] % kept $'
equal "/map: nothing but ASCII" 0 "$(LC_ALL=C grep -c '[^ -~]' "$T/map")"
"$RETAIN" delete words 2>/dev/null

# A second program gets an error.
mkfifo "$T/in"
"$RETAIN" chat --plain -c chat-1 <"$T/in" >"$T/first" 2>&1 &
pid=$!
exec 3>"$T/in"
printf '/stats\n' >&3
wait_for grep -q '^speed' "$T/first" || no "the first does not start: $(cat "$T/first")"
second() { printf '/stats\n' | "$RETAIN" chat --plain -c chat-1 "$@" 2>&1; }
is_open() { second | grep -q "is open in another retain; .*--new"; }
wait_for is_open || no "a second writer is not told: $(second)"
exec 3>&-
wait $pid

"$RETAIN" export chat-1 --json >"$T/one.json"
holds "export: tags" "$(cat "$T/one.json")" '"tags":\["dogs"\]'
equal "export --json: one object" 1 "$(wc -l <"$T/one.json" | tr -d ' ')"
holds "export --json: messages" "$(cat "$T/one.json")" '"messages":\[\{"role":"user","text":"My dog is called Biscuit\."'
printf '# dogs\n\n## user\n\n<!-- retain-conversation %s -->\n' "$(cat "$T/one.json")" >"$T/one.md" # as `export --markdown` of 0.1.0
"$RETAIN" export chat-1 --with-cache "$T/one.db" || no "export --with-cache"
"$RETAIN" export chat-1 --with-cache "$T/one.db" 2>"$T/err" && no "overwrites a file"
holds "export --with-cache: overwrites nothing" "$(cat "$T/err")" 'already exists'
for blocks in 8 16 24 32 48 64 96; do
    (
        trap '' XFSZ
        ulimit -f $blocks
        exec "$RETAIN" export chat-1 --with-cache "$T/cut.db"
    ) 2>"$T/err" && break
    equal "export to a disk of $blocks blocks: nothing is left" "" "$(ls "$T" | grep '^cut')"
done
for f in one.json one.md one.db; do
    check "import $f" "$RETAIN" import "$T/$f" --db "$T/other-$f"
    "$RETAIN" export chat-1 --json --db "$T/other-$f" >"$T/again"
    check "$f: exported again it is the same" cmp "$T/one.json" "$T/again"
done
holds "imported with its cache: nothing is read again" "$(reread --continue --db "$T/other-one.db")" "$ZERO"
holds "imported text goes on" "$(reread --continue --db "$T/other-one.json")" 're-?read'

# The text counts, not the token ids: they are compared when a conversation is opened.
holds "ids that spell their text: no notice" "no: $(reread --continue --db "$T/other-one.json" | grep 'did not spell')" '^no: $'
sed 's/My dog is called Biscuit\./Good morning to you./g' "$T/one.json" >"$T/lie.json"
check "import of ids that say something else" "$RETAIN" import "$T/lie.json" --db "$T/lie.db"
holds "ids that say something else: told" "$(reread --continue --db "$T/lie.db")" 'did not spell its text; the text counts: 4 messages were'
holds "ids that say something else: told once" "no: $(reread --continue --db "$T/lie.db" | grep 'did not spell')" '^no: $'
holds "encoded again: nothing is read again" "$(reread --continue --db "$T/lie.db")" "$ZERO"
talk 'Good morning to you.' -c honest
first_ids() { "$RETAIN" export "$@" | sed 's/"tokens":\[/\n/; s/^.*\n//; s/\].*//'; }
equal "ids that say something else: now those of the text" "$(first_ids honest)" "$(first_ids chat-1 --db "$T/lie.db")"
talk 'Good morning to you. My locker code is 48213, and nobody else knows it.' -c longer
"$RETAIN" export longer | sed 's/ My locker code is 48213, and nobody else knows it\.//g' >"$T/more.json"
check "import of ids that say more" "$RETAIN" import "$T/more.json" --db "$T/more.db"
holds "ids that say more: told" "$(reread --continue --db "$T/more.db")" 'did not spell its text'
"$RETAIN" delete honest longer 2>/dev/null

# A NUL byte is kept, or refused.
printf 'My code a\0b is 7.\n' | "$RETAIN" chat --plain -c nul --seed 1 --temp 0 -n 5 >/dev/null 2>&1
"$RETAIN" export nul --json >"$T/nul.json"
check "import of a NUL" "$RETAIN" import "$T/nul.json" --db "$T/nul.db"
"$RETAIN" export nul --json --db "$T/nul.db" >"$T/again"
check "a NUL: exported again it is the same" cmp "$T/nul.json" "$T/again"
holds "a NUL: opened without a notice" "no: $(reread --continue --db "$T/nul.db" | grep 'did not spell')" '^no: $'
sed 's/called Biscuit/called\\u0000 Biscuit/' "$T/one.json" >"$T/bad.json"
refused "import of an escaped NUL" 3 'a NUL character in a text' "$RETAIN" import "$T/bad.json" bad
"$RETAIN" delete nul 2>/dev/null

# The source of an import stays as it is.
sqlite3() { python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())' "$@"; }
if command -v python3 >/dev/null && sqlite3 "$T/old.db" tests/golden/store-v5.sql 2>/dev/null; then
    chmod 444 "$T/old.db"
    before=$(cksum <"$T/old.db")
    check "import of an older database" "$RETAIN" import "$T/old.db" --db "$T/new.db"
    equal "import of an older database: its bytes" "$before" "$(cksum <"$T/old.db")"
    equal "import of an older database: nothing beside it" "$T/old.db" "$(ls "$T"/old.db*)"
else skip "no sqlite3 module of Python"; fi
refused "import of the database in use" 2 'is the database in use' "$RETAIN" import "$T/other-one.db" again --db "$T/other-one.db"

# A damaged message costs that message, not the conversation.
LC_ALL=C sed 's/My dog is called Biscuit/My cog is called Biscuit/' "$T/other-one.json" >"$T/hurt.db"
"$RETAIN" chat --plain --continue --db "$T/hurt.db" </dev/null >"$T/out" 2>&1
equal "a damaged message: not opened" 3 $?
holds "a damaged message: which, and what to do" "$(cat "$T/out")" "message 0 of conversation 'chat-1' .*export chat-1. saves the rest"
"$RETAIN" export chat-1 --db "$T/hurt.db" >"$T/left.json" 2>"$T/err"
equal "a damaged message: exported with a status" 3 $?
holds "a damaged message: how many" "$(cat "$T/err")" ' 1 damaged part,'
holds "a damaged message: as it was found" "$(cat "$T/left.json")" '"text":"\[this message is damaged\]\\n\\nMy cog is called'
check "a damaged message: the rest is whole" test "$(sed 's/^.*"messages":\[{[^}]*}//' "$T/left.json")" = "$(sed 's/^.*"messages":\[{[^}]*}//' "$T/one.json")"
check "a damaged message: imported" "$RETAIN" import "$T/left.json" --db "$T/left"
holds "a damaged message: no user said its mark" "$("$RETAIN" show chat-1 --json --db "$T/left" | head -n 1)" \
    '"role":"system","text":"\[this message is damaged\]'
sed 's/,"damaged":true//; s/"role":"system"/"role":"user"/' "$T/left.json" >"$T/old.json"
check "a damaged message of an older export: imported" "$RETAIN" import "$T/old.json" --db "$T/old"
holds "a damaged message of an older export: no user said its mark" \
    "$("$RETAIN" show chat-1 --json --db "$T/old" | head -n 1)" '"role":"system","text":"\[this message is damaged\]'
holds "a damaged message: the rest goes on" "$(reread --continue --db "$T/left")" 're-?read'
"$RETAIN" import "$T/one.json" 2>"$T/err" && no "import over a conversation"
holds "import: a name that is taken" "$(cat "$T/err")" "'chat-1' already"
check "import under another name" "$RETAIN" import "$T/one.json" copy
for f in cli/lib.sh cli/test_saved.sh; do
    refused "import $f" 3 '' "$RETAIN" import "tests/$f"
    equal "import $f: one line" 1 "$(wc -l <"$T/out" | tr -d ' ')"
done
forged=$(sed 's/"name":"chat-1"/"name":"forged"/; s/>/\\u003e/g' "$T/one.json")
printf '{"format":"retain-conversation","version":1,"name":"quotes","title":"","created_ms":1,"updated_ms":1,"state":"","messages":[{"role":"user","text":"%s","created_ms":1,"tokens":[1]}]}\n' \
    "Hi\\n<!-- retain-conversation $(printf '%s' "$forged" | sed 's/["\\]/\\&/g') -->\\nBye" >"$T/quotes.json"
check "a message that holds an export" "$RETAIN" import "$T/quotes.json" --db "$T/quotes"
holds "the message is whole" "$("$RETAIN" show quotes --db "$T/quotes")" '^<!-- retain-conversation '
mkfifo "$T/pipe"
for f in one.json one.md; do
    cat "$T/$f" >"$T/pipe" &
    check "import $f through a named pipe" timeout 300 "$RETAIN" import "$T/pipe" --db "$T/piped-$f"
    kill $! 2>/dev/null
    wait
    "$RETAIN" import - --db "$T/read-$f" <"$T/$f" 2>"$T/err" || no "import $f from standard input"
done
sed 's/"tokens":\[1/"tokens":[-1/' "$T/one.json" >"$T/bad.json"
"$RETAIN" import "$T/bad.json" bad >/dev/null 2>"$T/err"
holds "import: wrong ids" "$(cat "$T/err")" 'line 1: a message without its token ids'
for role in user assistant; do
    sed "s/\"role\":\"$role\",/&\"partial\":true,/" "$T/one.json" >"$T/bad.json"
    "$RETAIN" import "$T/bad.json" bad >/dev/null 2>"$T/err"
    holds "import: partial in the middle, $role" "$(cat "$T/err")" 'partial message that is not the last'
done
"$RETAIN" show bad >/dev/null 2>&1 && no "half an import"
sed 's/"name":"chat-1"/"name":"good"/' "$T/one.json" | cat - "$T/bad.json" >"$T/two.json"
"$RETAIN" import "$T/two.json" >"$T/out" 2>&1
equal "import of two, one bad: nothing is said to be in" 1 "$(wc -l <"$T/out" | tr -d ' ')"
holds "import of two, one bad: which" "$(cat "$T/out")" "'chat-1' already"
"$RETAIN" show good >/dev/null 2>&1 && no "half an import of two"

# Errors tell their cause.
(
    ulimit -n 5
    "$RETAIN" list
) >"$T/out" 2>"$T/err"
equal "no free descriptor: exit status" 1 $?
holds "no free descriptor" "$(cat "$T/err")" 'Too many open files; raise the limit'
(
    ulimit -f 8
    "$RETAIN" import "$T/one.json" --db "$T/limited.db"
) >"$T/out" 2>"$T/err"
equal "a limit on the size of files: exit status" 1 $?
holds "a limit on the size of files" "$(cat "$T/err")" 'File too large'
(
    ulimit -s 64
    "$RETAIN" list
) >"$T/out" 2>"$T/err"
equal "a small stack: exit status" 1 $?
holds "a small stack" "$(cat "$T/err")" 'the stack is limited to 64 KiB'
sed 's/"created_ms":[0-9]*/"created_ms":-5000/g' "$T/one.json" >"$T/early.json"
check "import of a conversation from before 1970" "$RETAIN" import "$T/early.json" --db "$T/early.db"
"$RETAIN" export chat-1 --json --db "$T/early.db" >"$T/again"
check "a conversation from before 1970: the same again" cmp "$T/early.json" "$T/again"

check "delete" "$RETAIN" delete copy
"$RETAIN" show copy >/dev/null 2>&1 && no "deleted, but there"
check "restore" "$RETAIN" restore copy
check "restored" "$RETAIN" show copy
check "delete --cache-only" "$RETAIN" delete --cache-only chat-1
holds "cache dropped, text kept" "$("$RETAIN" list | grep '^chat-1 ')" ' - .*My dog'
check "check" "$RETAIN" check
check "delete again" "$RETAIN" delete copy
check "compact" "$RETAIN" compact
"$RETAIN" restore copy >/dev/null 2>&1 && no "restored after compact"

# Encrypted: with the right passphrase everything works, without it nothing.
echo 'correct horse' >"$T/right"
echo 'wrong horse' >"$T/wrong"
talk 'My dog is called Biscuit.' --new --db "$T/e.db" --encrypt --passphrase-file "$T/right"
equal "encrypted chat: exit status" 0 $?
if strings "$T/e.db" "$T/e.db-wal" 2>/dev/null | grep -qi 'biscuit\|chat-1\|locret\|called'; then
    no "words stand in the encrypted file"
else ok; fi
holds "encrypted: found" "$("$RETAIN" search biscuit --db "$T/e.db" --passphrase-file "$T/right")" '^chat-1 '
holds "encrypted: nothing is read again" \
    "$(reread --continue --db "$T/e.db" --passphrase-file "$T/right")" "$ZERO"
talk 'Hello' --continue --db "$T/e.db" --passphrase-file "$T/right" --recall-from all
holds "encrypted: --recall-from" "$(cat "$T/err")" 'the database is encrypted and has no index of words'
refused "wrong passphrase" 1 'wrong passphrase' "$RETAIN" list --db "$T/e.db" --passphrase-file "$T/wrong"
equal "wrong passphrase: one line" 1 "$(wc -l <"$T/out" | tr -d ' ')"
: >"$T/empty"
for answer in empty missing; do
    "$RETAIN" chat --plain --db "$T/no.db" --encrypt --passphrase-file "$T/$answer" </dev/null >"$T/out" 2>&1
    equal "no new passphrase ($answer): exit status" 1 $?
    equal "no new passphrase ($answer): no file" "" "$(ls "$T"/no.db* 2>/dev/null)"
done
setsid "$RETAIN" list --db "$T/e.db" >"$T/out" 2>&1 </dev/null
holds "nobody to ask" "$(cat "$T/out")" 'no terminal'
# A full disk: deleting and compacting give room back, also without room for a second copy of the rest.
if mkdir "$T/full" && mount -t tmpfs -o size=16M tmpfs "$T/full" 2>/dev/null; then
    trap 'umount "$T/full"; rm -rf "$T"' EXIT
    db=$T/full/retain.db
    room() { df -k --output=avail "$T/full" | tail -n 1; }
    text=$(head -c 9000 quant/demo/README.md | tr '\n' ' ')
    for kept in 9000 10; do
        rm -f "$T/full"/*
        talk "$text" --new --policy full --db "$db"
        talk "$(printf '%s' "$text" | head -c "$kept")" --new --policy full --db "$db"
        head -c 16M /dev/zero >"$T/full/others" 2>/dev/null
        "$RETAIN" rename chat-2 rest --db "$db" >"$T/said" 2>&1
        holds "full disk: other commands say it" "$(cat "$T/said")" 'disk is full'
        check "full disk: delete" "$RETAIN" delete chat-1 --db "$db"
        check "full disk: compact" "$RETAIN" compact --db "$db"
        check "full disk: room was given back" [ "$(room)" -gt 2500 ]
        check "full disk: the rest is whole" "$RETAIN" check --db "$db"
        holds "full disk: and can be read" "$("$RETAIN" show chat-2 --db "$db")" '## user'
    done
else
    skip "a full disk: no file system can be mounted here"
fi
finish
