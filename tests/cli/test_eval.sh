#!/bin/sh
# eval, bench, plan, tokenize, perplexity: what they print is stable, and policies differ as they must.
. "$(dirname "$0")/lib.sh"

out=$("$RETAIN" eval recall:facts=1 --policy locret,random,sink --budget 128 --length 1024 \
    --seeds 2 --json) || no "eval fails"
equal "eval: one line per policy" 3 "$(printf '%s\n' "$out" | wc -l | tr -d ' ')"
for key in task policy budget compression length seed_count accuracy accuracy_spread cache_bytes \
    prefill_tok_s; do
    equal "eval: key $key" 3 "$(printf '%s\n' "$out" | grep -c "\"$key\":")"
done
out=$("$RETAIN" eval passkey:depths=2 niah:depths=2 --policy full,sink --length 300,400 --compression 2,4 --seeds 1)
equal "eval: tasks, policies, lengths, compressions, depths multiply out; full has one size" 25 \
    "$(printf '%s\n' "$out" | wc -l | tr -d ' ')"
equal "eval: every line of the table has the header's columns" 1 \
    "$(printf '%s\n' "$out" | awk '{print NF}' | sort -u | wc -l | tr -d ' ')"
printf '== a\n> My door code is 4417.\n> What is my door code?\n? 4417\n' >"$T/talks"
out=$("$RETAIN" eval talk -f "$T/talks" --policy sink --budget 64 --length 400 --recall off,words \
    --seeds 1 --answers)
equal "eval --answers: a line per question" 2 "$(printf '%s\n' "$out" | grep -c '"question":"What is my door code?"')"
holds "eval --answers says what was expected" "$out" '"recall":"words".*"values":\["4417"\],"recalled":\[.*\],"recall_ms":[0-9.]*,"right":[01]'
out=$("$RETAIN" eval told:facts=2 --policy full,sink --budget 64 --length 300 --seeds 1 --answers)
holds "eval told: no recall" "$("$RETAIN" eval told --recall off,words 2>&1; echo $?)" 'nothing can return.*
2$'
equal "eval told: nats of each value" 4 "$(printf '%s\n' "$out" | grep -c '"nats":[0-9]')"
refused "eval talk without a file is a usage error" 2 '' "$RETAIN" eval talk
holds "eval --help lists its tasks" "$("$RETAIN" eval --help)" 'niah .*needle'
refused "eval: an unknown task is a usage error" 2 '' "$RETAIN" eval nothing
out=$("$RETAIN" bench --json --prefill 32 --decode 8 --repeat 1 --depth 0,64)
equal "bench: a line per depth" 2 "$(printf '%s\n' "$out" | wc -l | tr -d ' ')"
for key in model weights policy kv isa device; do
    equal "bench: text $key" 2 "$(printf '%s\n' "$out" | grep -c "\"$key\":\"[^\"]")"
done
# line_is LINE CONDITION: the condition over the line's numbers, by name, is true.
line_is() {
    if printf '%s\n' "$out" | sed -n "$1p" | tr -d '{}' | tr , '\n' | awk -F: '
        function says(key) { if (!(key in v)) { print "no " key; bad = 1 }; return v[key] }
        { gsub(/"/, "", $1); v[$1] = $2 }
        END { x = '"$(printf '%s' "$2" | sed 's/[a-z][a-z_]*/says("&")/g')"'; exit bad || !x }'; then
        ok
    else
        no "line $1: $2: $(printf '%s\n' "$out" | sed -n "$1p")"
    fi
}
line_is 1 'depth == 0 && budget > 64 && threads >= 1'
line_is 2 'depth == 64 && budget > 64 && threads >= 1'
for line in 1 2; do
    line_is $line 'prefill_tok_s > 0 && prefill_cold_tok_s > 0 && prefill_spread >= 0'
    line_is $line 'decode_tok_s > 0 && decode_cold_tok_s > 0 && decode_spread >= 0'
    line_is $line 'prefill_score_share > 0 && prefill_evict_share >= 0'
    line_is $line 'prefill_score_share + prefill_evict_share < 1'
    line_is $line 'decode_score_share > 0 && decode_evict_share >= 0'
    line_is $line 'decode_score_share + decode_evict_share < 1'
    line_is $line 'cache_bytes > 0 && peak_bytes > cache_bytes && bytes_per_token > cache_bytes / budget'
    line_is $line 'bandwidth_bytes_s > 0 && operations_per_token > bytes_per_token'
    # bytes per token times tokens per second over bandwidth: one run measures each once
    line_is $line 'bandwidth_share * bandwidth_bytes_s / (bytes_per_token * decode_tok_s) > 0.999'
    line_is $line 'bandwidth_share * bandwidth_bytes_s / (bytes_per_token * decode_tok_s) < 1.001'
done
for ratio in prefill_first_depth_ratio decode_first_depth_ratio; do
    equal "bench: $ratio is of the other depths" 1 "$(printf '%s\n' "$out" | grep -c "\"$ratio\":")"
    line_is 2 "${ratio}_low > 0 && ${ratio}_low <= $ratio && $ratio <= ${ratio}_high"
done
# 64 more tokens read 64 more units, as q4 keys and values
one=$(printf '%s\n' "$out" | sed -n '1s/.*"bytes_per_token":\([0-9]*\).*/\1/p')
line_is 2 "bytes_per_token > $one"
check "bench: room for proposals after the last token" "$RETAIN" bench --json --policy full --prefill 1 \
    --decode 400 --repeat 1
for wrong in "bench --depth -5" "bench --depth 64,x" "bench --repeat 100" "eval recall --seeds 1,2" \
    "eval recall --length 1e3" "eval recall --budget 0" "eval recall:fact=1" "eval recall:facts=65" \
    "eval niah:depths=0" "eval recall --policy sink:window" "plan --budget 64,128"; do
    # shellcheck disable=SC2086 # a command and its options
    refused "$wrong" 2 '' timeout 300 "$RETAIN" $wrong
done
out=$("$RETAIN" bench --json --prefill 8 --decode 2 --repeat 1 --policy sink,random:reserve=8 --budget 64,96 --kv q8)
equal "bench: policies and budgets multiply out" "sink 64,sink 96,random 64,random 96" \
    "$(printf '%s\n' "$out" | sed 's/.*"policy":"\([a-z]*\)".*"budget":\([0-9]*\).*/\1 \2/' | paste -sd,)"
out=$("$RETAIN" eval recall:facts=1 --policy sink:sinks=2,reserve=64,random --budget 64,96 --length 300 --seeds 1 --json)
equal "eval: a policy's keys stay with it" 'sink:sinks=2,reserve=64 random' \
    "$(printf '%s\n' "$out" | sed -n '1p;3p' | sed 's/.*"policy":"\([^"]*\)".*/\1/' | paste -sd' ')"
right() { "$RETAIN" eval recall:facts=4 --policy random --budget 128 --length 500 --json "$@" | sed 's/.*"right_count":\([0-9.]*\).*/\1/'; }
sum=$(for seed in 5 6 7; do right --seeds 1 --seed $seed; done | awk '{n += $1} END {print n}')
equal "eval --seed is the first of --seeds" "$sum" "$(right --seeds 3 --seed 5)"
equal "eval: seeds begin at 1" "$(right --seeds 1 --seed 1)" "$(right --seeds 1)"

printf 'My locker code is 48213.' >"$T/document"
asked() { "$RETAIN" generate --temp 0 --json "$@" | sed 's/.*"text":\("[^"]*"\).*"n_prompt":\([0-9]*\).*/\1 \2/'; }
ask='What is my locker code?'
nl='

'
equal "generate -f DOC -p QUESTION: the question is below" "$(asked -p "My locker code is 48213.$nl$ask")" \
    "$(asked -f "$T/document" -p "$ask")"
joined=$(asked -p "My locker code is 48213.$nl$ask")
equal "DOC | generate -p QUESTION" "$joined" "$(asked -p "$ask" <"$T/document")"
equal "a pipe" "$joined" "$(cat "$T/document" | asked -p "$ask")"
equal "/dev/null and an empty file add nothing" "$(asked -p "$ask" </dev/null)" "$(: | asked -p "$ask")"
printf 'My name is Ann.' >"$T/other"
both="My name is Ann.$nl$T/document:${nl%?}My locker code is 48213."
equal "standard input, then a file, then the question" "$(asked -p "$both$nl$ask")" \
    "$(asked -f "$T/document" -p "$ask" <"$T/other")"
equal "several files, in the order given" "$(asked -p "$T/document:${nl%?}My locker code is 48213.$nl$T/other:${nl%?}My name is Ann.")" \
    "$(asked -f "$T/document" -f "$T/other" </dev/null)"
equal "-f - is standard input's place" "$(asked -p "$T/document:${nl%?}My locker code is 48213.${nl}My name is Ann.")" \
    "$(asked -f "$T/document" -f - <"$T/other")"
holds "tokenize reads one file" "$("$RETAIN" tokenize -f "$T/document" -f "$T/other" 2>&1)" 'reads one --file'

holds "plan --json" "$("$RETAIN" plan --json)" '"cache_bytes":[0-9]+.*"total_bytes":[0-9]+'
out=$("$RETAIN" plan --json --archive 64M) # 21 bytes for 99,864 positions with units and 2^20 * 17 / 16 of text
line_is 1 'index_bytes > 1213976 * 21 && index_bytes < 1213976 * 21 + 1500000'
equal "plan --recall off: no archive" 0 "$("$RETAIN" plan --json --recall off | sed 's/.*"index_bytes":\([0-9]*\).*/\1/')"
holds "plan: how far recall reaches" "$("$RETAIN" plan --archive 64M)" 'archive +64\.0 MiB .*recall reaches 99,864 tokens back'
holds "plan: total and index" "$("$RETAIN" plan)" 'index +33.* MiB .*
at most +4[3-5].* MiB'
equal "tokenize --ids is one line" 1 "$("$RETAIN" tokenize --ids -p 'Hello world' | wc -l | tr -d ' ')"
holds "tokenize adds BOS" "$("$RETAIN" tokenize --ids -p 'Hello')" '^1 '
if "$RETAIN" tokenize --ids --no-special -p 'Hello' | grep -q '^1 '; then no "--no-special adds BOS"; else ok; fi
equal "special tokens are ids" 4 "$("$RETAIN" tokenize --ids -p '<|end|>' | awk '{print $NF}')"
out=$(printf 'The capital of France is Paris. %.0s' $(seq 200) | "$RETAIN" perplexity -f - --json)
holds "perplexity" "$out" '"perplexity":[0-9.]+'
out=$(head -c 3000 README.md | "$RETAIN" perplexity -f - --length 256 --kv f32,f32,q4)
holds "perplexity: equal formats" "$out" 'compared with f32: KL divergence 0\.00000 \+/- 0\.00000, equal top tokens 100\.00 \+/- 0\.00 %'
holds "perplexity: q4 and f32" "$out" 'kv q4\)
  compared with f32: KL divergence 0\.0[0-9]*[1-9]'
holds "perplexity: formats of one conversation" "$("$RETAIN" perplexity -f README.md --policy sink --kv f32,q4 2>&1)" 'without --policy only'
for command in --print-config --help info "plan --json" "tokenize --ids -p Hello" \
    "bench --json --depth 0 --prefill 8 --decode 2 --repeat 1"; do
    # shellcheck disable=SC2086 # a command and its options
    "$RETAIN" $command >/dev/full 2>"$T/err"
    equal "$command: to a full disk: exit status" 1 $?
    holds "$command: to a full disk" "$(cat "$T/err")" 'writing to standard output failed'
done
a=$("$RETAIN" generate -p 'Tell me a story about a fox.' --temp 0 --threads 1)
b=$("$RETAIN" generate -p 'Tell me a story about a fox.' --temp 0 --threads 2)
equal "same text with any number of threads" "$a" "$b"
finish
