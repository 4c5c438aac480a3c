#!/bin/sh
# Measures the tables of docs/memory.md and writes them into the page. About an hour of one core; what is done is kept in build/memory,
# so that a run that was stopped goes on.
#   docs/memory.sh [NOVEL.txt [CHAT.txt]]      a long text in English, and messages of people, a line each, for the tables with
#                                              natural text; without them those tables stay as they are
# Seeds 101 to 130 (101 to 110 where that takes long) were not used while policies, model or heads were made. Remove build/memory after the model or the code changed.
set -eu
cd "$(dirname "$0")/.."
novel=${1:-}
chat=${2:-}
retain=${RETAIN:-build/retain}
out=${OUT:-build/memory}
mkdir -p "$out"
run() { # TABLE ARGUMENTS…
    table=$1
    shift
    echo "$table: $*" >&2
    "$retain" eval "$@" --json --threads 1 --seed 101 --results "$out/done.jsonl" >"$out/table"
    sed "s/^{/{\"table\":\"$table\",/" "$out/table" >>"$out/rows.new"
}
rm -f "$out/rows.new"

policies=keeper,locret,keydiff+global,keydiff,random,sink
few=keeper,locret,keydiff+global,random
recall="recall --seeds 30"
for size in 1000:125 1000:62 1000:31; do
    run recall $recall --policy "$(echo $policies | sed 's/,/:reserve=256,/g'):reserve=256" --length "${size%:*}" --budget "${size#*:}"
done
run recall $recall --policy full --length 1000,4000

talk="talk -f quant/eval/talk/heldout.txt --seeds 24 --length 2000"
run talk $talk --policy $few --budget 31,125 --recall off,words
run talk $talk --policy full

if [ -n "$novel" ]; then
    run text niah:depths=1 -f "$novel" --seeds 30 --length 4096 --policy $few --budget 64,256
    run text niah:depths=1 -f "$novel" --seeds 30 --length 4096 --policy full:context=6144
fi
# Facts in front of text that neither the generator nor its words know.
if [ -n "$novel" ] && [ -n "$chat" ]; then
    awk 'BEGIN {
        split("hinges,bolts,hoses,filters,pumps,cables,lamps,panels,valves,gaskets,brackets,sensors", item, ",")
        split("Nolan,Fisher,Okafor,Lindt,Moreau,Tanaka,Weber,Silva", firm, ",")
        for (i = 1; i <= 900; i++)
            printf "Invoice %d to %s Ltd of day %d: %d %s at %d cents, %d %s at %d cents, due in %d days.\n", 20000 + i * 37 % 7919,
                firm[i * 5 % 8 + 1], i * 11 % 28 + 1, i * 7 % 90 + 2, item[i % 12 + 1], i * 13 % 900 + 50, i * 3 % 40 + 1,
                item[i * 7 % 12 + 1], i * 17 % 2500 + 99, i * 7 % 60 + 7
    }' >"$out/invoices.txt"
    for text in "novel $novel" "invoices $out/invoices.txt" "chat $chat"; do
        file=${text#* }
        run "${text%% *}" recall -f "$file" --seeds 10 --length 3000 --budget 64,128,256 --policy "$(echo $few | sed 's/,/:reserve=256,/g'):reserve=256"
        run "${text%% *}" recall -f "$file" --seeds 10 --length 3000 --policy full
    done
fi
run recall $recall --policy "$(echo $few | sed 's/,/:reserve=256,/g'):reserve=256" --length 8192 --budget 128
run recall recall --seeds 10 --policy "$(echo $few | sed 's/,/:reserve=256,/g'):reserve=256" --length 32768 --budget 256
run million passkey:facts=10 --seeds 10 --length 1000000 --policy keeper --budget 256
mv "$out/rows.new" "$out/rows.jsonl"
docs/memory.py "$out/rows.jsonl"
