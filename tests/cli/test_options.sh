#!/bin/sh
# Every command, option, policy and slash command in the program's tables: each command refuses
# wrong values of its options, and an item that no test uses fails.
. "$(dirname "$0")/lib.sh"
DEMO=quant/demo/retain-demo.gguf
HEADS=quant/demo/retain-demo-heads.gguf
"$RETAIN" manual | sed 's/\\-/-/g' >"$T/page"

# section TITLE: the names of its items, without options' letters.
section() {
    sed -n "/^\.SH $1\$/,/^\.SH/s/^\\\\fB\([^\\]*\)\\\\fR.*/\1/p" "$T/page" | sed 's/^-., //'
}

# ---- used: each command must succeed; its words count as used
run() {
    printf '%s\n' "$@" >>"$T/used"
    check "retain $*" "$RETAIN" "$@"
}
talk() { run chat --plain --max-tokens 2 "$@" <"$T/hello"; }

echo Hello. >"$T/hello"
echo sesame >"$T/pass"
printf 'My dog is called Rex. What is he called? %.0s' 1 2 3 4 5 6 7 8 >"$T/text"
for name in Milo Luna Rex Coco Kiki Oreo; do
    printf '{"document": "My cat is called %s.", "question": "And?", "answer": "%s."}\n' $name $name
done >"$T/rows"

talk --conversation talk --system 'Be brief.' --template retain --color never --background dark --ascii \
    --contrast --mouse --reduced-motion --no-markdown --cache-quota 1G --rewind 1M --db "$T/a.db"
talk --new --encrypt --passphrase-file "$T/pass" --db "$T/sealed.db"
talk --continue --passphrase-file "$T/pass" --db "$T/sealed.db"
talk --private --no-weight-cache --no-title --progress --no-bell
talk --conversation talk --yes
echo /stats >"$T/hello"
talk --conversation talk
run list
run show talk
run tag talk home
run list --tag home --json
run tag talk home --remove
run search hello --limit 1
run export talk --with-cache "$T/talk.db"
run delete talk --cache-only
run rename talk first
run delete first
run restore first again
run import "$T/talk.db"
run check
run compact
printf '{"version": 2, "width": 9, "height": 2}\n[0.1, "o", "hello"]\n' >"$T/cast"
run replay "$T/cast" --svg "$T/cast.svg"

run generate --prompt Hello --max-tokens 2 --ignore-end --model $DEMO --heads $HEADS --accept-model --verify full \
    --weights f32 --device cpu --gpu-layers 2 --experts host --threads 1 --isa ref --memory 1G --kv q8:q4 --chunk 32 \
    --policy keydiff:stabilizers=8,sinks=2,reserve=32
run generate --file "$T/text" --raw --max-tokens 2 --budget 64 --temp 0.5 --top-k 9 --top-p 0.9 --min-p 0.1 \
    --repeat-penalty 1.1 --repeat-last 8 --seed 7
run generate --prompt Hello --max-tokens 2 --temp 0 --policy full:context=128
run generate --prompt Hello --max-tokens 2 --attention float --policy locret:floor=9,recency=9 --budget 16
run generate --prompt Hello --max-tokens 2 --recall words --archive 64M --speculate 4
run models list
run info
run plan
run verify --model $DEMO --allow-host localhost
printf "%s\n" pull >>"$T/used" # tests/cli/test_pull.sh
run tokenize --prompt Hello --ids --no-special
echo '[{"role": "user", "content": "Hello"}]' >"$T/talk"
run template --think off --ids "$T/talk"
run generate --prompt Hello --max-tokens 2 --keep-thoughts
echo '{"context": "c", "question": "q", "answers": ["a"]}' >"$T/questions.jsonl"
run perplexity --file "$T/text" --length 64
run eval recall:facts=1 --length 300 --compression 2 --seeds 1 --answers
run eval "$T/questions.jsonl" --policy sink --budget 64 --raw --as prompt --items 1 --results "$T/results"
run eval niah:depths=2 --length 300 --budget 64 --seeds 1
run bench --prefill 8 --decode 2 --repeat 1 --depth 16
run quantize $DEMO "$T/q4.gguf" --type q4
run quantize $DEMO "$T/q4.gguf" --force
run heads train --data "$T/rows" --out "$T/heads.gguf" --steps 1 --batch 1 --rate 0.01 --hidden 4
run heads train --text README.md --memory 1G --out "$T/heads.gguf" --force --steps 1 --hidden 4 --length 64
run list --safe
run list --print-config
run list --help
run demo

printf "%s\n" --record --pace >>"$T/used" # on a screen: tests/tui/tmux_*.sh
printf "%s\n" --recall-from >>"$T/used" # tests/cli/test_saved.sh
holds "--record without a screen" "$("$RETAIN" chat --plain --record "$T/record" <"$T/hello" 2>&1)" 'records the screen'

for name in $(section COMMANDS) $(section OPTIONS) $(section CONFIGURATION | sed "s/^/--/"); do
    if grep -qxF -- "$name" "$T/used"; then ok; else no "$name is in the manual page and not used here"; fi
done

for policy in $(section POLICIES); do
    check "policy $policy" "$RETAIN" generate -p 'My dog is called Rex. Who is Rex?' -n 2 --policy "$policy"
done

# ---- refused: a wrong value, by each command that takes the option
refuses() {
    refused "$*" 2 "^retain: $2 $3: expected " "$RETAIN" "$@"
}
refused "a file is no command" 2 "give a model with -m FILE" "$RETAIN" "$T/page"
# Options with an argument that matches the pattern; what they take is the same for each command.
taking() { sed -n 's/^.*\(--[a-z-]*\)\\fR \\fI\([^ ]*\)\\fR$/\1 \2/p' "$T/page" | grep -E " ($1)$" | cut -d ' ' -f 1 | tr '\n' ' '; }
numbers=" $(taking 'N|X|T|P|SIZE')" words=" $(taking '.*\|.*|KIND')" seen=
for c in $("$RETAIN" complete "" | cut -f 1); do
    for option in $("$RETAIN" complete "$c" -- | cut -f 1); do
        case $numbers in *" $option "*) refuses "$c" "$option" x1 ;; esac
        case $words in *" $option "*) refuses "$c" "$option" nonsense ;; esac
        case "$seen --conversation " in *" $option "*) continue ;; esac
        seen="$seen $option "
        for choice in $("$RETAIN" complete "$c" "$option" "" 2>/dev/null | cut -f 1); do
            "$RETAIN" "$c" "$option" "$choice" --help >"$T/out" 2>&1 || no "$c $option $choice is refused"
        done
    done
done

# ---- slash commands, in one chat: each is known; one that lacks its argument does not end it
words=$(section 'WORDS IN THE CHAT' | grep -vxE '/(quit|exit|stats)')
printf '%s\n/stats\n' $words | "$RETAIN" chat --plain --new -n 2 >"$T/out" 2>&1
equal "known words" "" "$(grep 'nearest:' "$T/out")"
equal "words after which the chat goes on" "$(echo "$words" | wc -l)" "$(grep -c '^speed' "$T/out")"
for word in /quit /exit; do
    equal "$word" "" "$(printf '%s\n/stats\n' $word | "$RETAIN" chat --plain --new -n 2 2>&1 | grep -E 'nearest:|^speed')"
done
finish
