#!/bin/sh
# eval FILE: questions from files are asked, scored, kept, and gone on with.
. "$(dirname "$0")/lib.sh"

# 24 documents of small talk with a code each.
awk 'BEGIN {
    for (i = 1; i <= 24; i++) {
        code = 4000 + 37 * i
        printf "{\"id\": \"é%d\", \"context\": \"My door code is %d. ", i, code
        for (k = 0; k < 12; k++) printf "The rain falls on the roof. The boat is by the river. "
        printf "\", \"question\": \"What is my door code?\", \"answers\": [\"%d\", \"ключ\"]}\n", code
    }
}' >"$T/own.jsonl"
run="$RETAIN eval $T/own.jsonl --as conversation --threads 1"

out=$($run --policy keeper,sink --budget 64 --json)
equal "eval FILE: one row per policy" 2 "$(printf '%s\n' "$out" | grep -c '"task":"own".*"question_count":24')"
score() { printf '%s\n' "$out" | sed -n "$1s/.*\"accuracy\":\([0-9.e-]*\),.*/\1/p" | awk '{print int(100 * $1)}'; }
[ "$(score 1)" -ge 80 ] && ok || no "keeper answers 80 %: $(score 1)"
[ "$(score 2)" -le 20 ] && ok || no "sink answers at most 20 %: $(score 2)"
out=$($run --policy keeper:reserve=64,keeper:reserve=128 --compression 4,8 --items 2)
equal "eval FILE: policies and compressions multiply out" 5 "$(printf '%s\n' "$out" | wc -l | tr -d ' ')"
out=$("$RETAIN" eval "$T/own.jsonl" --policy full,keydiff --budget 64 --items 2 --answers)
equal "eval FILE --answers" 4 "$(printf '%s\n' "$out" | grep -c '"metric":"contains".*"answers":\["40..","ключ"\]')"
out=$("$RETAIN" eval "$T/own.jsonl" --policy sink --budget 64 --items 1 --length 100 --json)
holds "eval FILE --length cuts the prompt" "$out" '"length":(100|9.),'

# The converter reads prompts and scorer from a clone of the benchmark: here a made-up one.
if command -v python3 >/dev/null; then
    mkdir -p "$T/bench/LongBench/config"
    printf '%s\n' '{"chat": "Read.\n{context}\nQuestion: {input}"}' >"$T/bench/LongBench/config/dataset2prompt.json"
    echo '{"chat": 12}' >"$T/bench/LongBench/config/dataset2maxlen.json"
    echo 'scorer = lambda task, said, right, classes: [task, len(said), right[0][0], said[0] != ""]' >"$T/bench/LongBench/eval.py"
    sed 's/"id": "\([^"]*\)"/"_id": "\1"/; s/"question"/"length": 9, "all_classes": null, "input"/' "$T/own.jsonl" >"$T/chat.jsonl"
    convert() { action=$1; shift; python3 quant/files/convert.py "$action" longbench chat "$T/chat.jsonl" "$T/bench" "$@"; }
    convert questions >"$T/converted.jsonl"
    "$RETAIN" eval "$T/converted.jsonl" --policy full --items 24 --threads 1 --results "$T/converted" >"$T/out"
    equal "the converter's questions and scores" "['chat', 24, '4037', True]" "$(convert score "$T/converted")"
else
    skip "python3"
fi

# A run that is killed goes on; the file of results ends in the middle of a line.
$run --policy keeper --budget 64 --json >"$T/whole"
$run --policy keeper --budget 64 --items 9 --results "$T/done" >"$T/out"
equal "--results keeps each question" 9 "$(wc -l <"$T/done" | tr -d ' ')"
printf '{"run":{"task":"x"},"item":3,"sco' >>"$T/done"
$run --policy keeper --budget 64 --results "$T/done" >"$T/out" &
pid=$!
while [ "$(wc -l <"$T/done")" -lt 12 ] && kill -0 $pid 2>"$T/err"; do :; done
kill -9 $pid 2>"$T/err"
wait $pid 2>"$T/err"
before=$(wc -l <"$T/done")
$run --policy keeper --budget 64 --results "$T/done" --json >"$T/again"
equal "a killed run goes on" 24 "$(wc -l <"$T/done" | tr -d ' ')"
[ "$before" -ge 12 ] && ok || no "the run was killed after 12 questions: $before"
equal "no question is asked twice" 24 "$(sed 's/.*"item":\([0-9]*\).*/\1/' "$T/done" | sort -n | uniq | wc -l | tr -d ' ')"
same() { sed 's/"peak_bytes".*//' "$1"; }
equal "the result is that of a run in one piece" "$(same "$T/whole")" "$(same "$T/again")"
$run --policy sink --budget 64 --items 1 --results "$T/done" >"$T/out"
equal "another policy is another run" 25 "$(wc -l <"$T/done" | tr -d ' ')"

tasks="$RETAIN eval recall:facts=2 --policy sink,keeper --budget 64 --length 300 --json --threads 1"
$tasks --seeds 3 >"$T/whole"
$tasks --seeds 1 --results "$T/seeds" >"$T/out"
$tasks --seeds 3 --results "$T/seeds" >"$T/again"
equal "seeds of tasks are kept, too" 6 "$(wc -l <"$T/seeds" | tr -d ' ')"
equal "with the same result" "$(same "$T/whole")" "$(same "$T/again")"
before=$(cat "$T/seeds")
$tasks --seeds 3 --results "$T/seeds" >"$T/out"
equal "and not run again" "$before" "$(cat "$T/seeds")"


printf 'One sentence is here. Another is there. %.0s' 1 2 3 4 5 6 7 8 >"$T/a.txt"
sed 's/sentence/phrase/g' "$T/a.txt" >"$T/b.txt"
for text in a b a; do
    "$RETAIN" eval recall:facts=1 -f "$T/$text.txt" --policy sink --budget 64 --length 40 --seeds 1 --results "$T/texts" >"$T/out"
done
equal "another text is another run" 2 "$(wc -l <"$T/texts" | tr -d ' ')"

# What is wrong is one line, before the model is loaded.
fails() {
    message=$1
    wanted=$2
    status=$3
    shift 3
    "$@" >"$T/out" 2>"$T/err"
    equal "$message: status" "$status" $?
    equal "$message: one line" 1 "$(wc -l <"$T/err" | tr -d ' ')"
    holds "$message" "$(cat "$T/err")" "$wanted"
}
{
    cat "$T/own.jsonl"
    echo '{"context": "c", "question": "q"}'
} >"$T/field.jsonl"
fails "a wrong field" 'field.jsonl:25: there is no field "answers"' 3 "$RETAIN" eval "$T/field.jsonl" -m "$T/no-model"
head -c 3000 "$T/own.jsonl" >"$T/cut.jsonl"
fails "a line that is cut off" 'cut.jsonl:[0-9]+: expected a JSON object' 3 "$RETAIN" eval "$T/cut.jsonl"
echo '{"run": 1}' >"$T/lines"
fails "a file that holds no results" 'lines:1: no line of results' 3 "$RETAIN" eval "$T/own.jsonl" --results "$T/lines"
fails "a file that is missing" 'none.jsonl' 1 "$RETAIN" eval "$T/none.jsonl"
holds "eval --help lists the metrics" "$("$RETAIN" eval --help)" 'contains-all +the share'
finish
