#!/bin/sh
# eval's analyses of scores, and the picture of kept units: what must hold by definition.
. "$(dirname "$0")/lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++)
    printf "The %s boat of %s is by the river. My code is %d. ", i % 3 ? "red" : "blue", i % 5 ? "Anna" : "Ben", 1000 + i * 37 }' >"$T/text"
run="$RETAIN eval -f $T/text --length 800 --seeds 1 --threads 1 --csv"
# values of a column, by name, without the header
column() { awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { print $c }'; }
sum() { awk '{ s += $1 } END { printf "%.2f\n", s }'; }
all() { awk "!($1) { bad = 1 } END { print bad ? \"no\" : \"all\" }"; }

equal "scores that depend on the past alone stay: locret is consistent" all \
    "$($run consistency --policy locret | column accuracy | all '$1 == 1')"
equal "the newest queries decide differently: snapkv is not" all \
    "$($run consistency:depths=3 --policy snapkv --length 800 | column accuracy | sed -n 2p | all '$1 < 0.8')"
equal "the whole text is consistent with itself" 1.000 \
    "$($run consistency:depths=2 --policy tova | column accuracy | sed -n 2p | cut -c 1-5)"
for policy in keeper snapkv random; do
    equal "places: the shares of ten tenths are one ($policy)" 1.00 \
        "$($run places --policy $policy | column accuracy | sum)"
done
equal "concentration is a share, larger for attention than for luck" all \
    "$($run concentration --policy snapkv:pool=0,random | column accuracy | paste -sd' ' - | all '$1 > 0.3 && $1 <= 1 && $2 < 0.15')"
equal "sparsity is a share, larger for attention than for luck" all \
    "$($run sparsity --policy snapkv:pool=0,random | column accuracy | paste -sd' ' - | all '$1 > 0.3 && $1 < 1 && $2 < 0.05')"
equal "nothing is evicted, nothing drifts" all \
    "$($run drift --policy locret --budget 800,50 | column accuracy | paste -sd' ' - | all '$1 == 0 && $2 > 0')"
equal "nor do scores" all \
    "$($run score-drift --policy locret --budget 800,50 | column accuracy | paste -sd' ' - | all '$1 == 0 && $2 > 0')"
for wrong in "consistency --policy full" "drift --length 20" "places --protocol once" "concentration -f $T/none"; do
    # shellcheck disable=SC2086
    if $run $wrong >"$T/out" 2>&1; then no "accepted: $wrong"; else ok; fi
    equal "one line: $wrong" 1 "$(wc -l <"$T/out" | tr -d ' ')"
done

"$RETAIN" eval recall:facts=1 --policy sink --budget 64 --length 600 --seeds 1 --picture "$T/sink.svg" >"$T/out"
"$RETAIN" eval recall:facts=1 --policy full --length 600 --seeds 1 --picture "$T/full.svg" >"$T/out"
rects() { grep -c '<rect x=' "$1"; }
rows=$(grep -o 'y="[0-9]*" width="[0-9.]*" height="10"' "$T/full.svg" | cut -d'"' -f2 | sort -u | wc -l)
equal "picture: policy full keeps everything, one bar per row" "$rows" "$(rects "$T/full.svg")"
equal "and it is opaque" "$rows" "$(grep -c 'fill-opacity="1.000"' "$T/full.svg")"
equal "picture: sink keeps the beginning and the end" all "$(grep -o '<rect x="[0-9]*' "$T/sink.svg" | cut -d'"' -f2 | all '$1 < 100 || $1 > 800')"
holds "picture: it has a scale" "$(cat "$T/full.svg")" '[0-9]+ tokens</text>'
finish
