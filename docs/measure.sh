#!/bin/sh
# Writes docs/memory.jsonl: the recall tables of quant/eval/notes/recall.md. Some 15 million tokens, an hour or two of one core; finished
# items are kept in build/measure, so that a run that was stopped continues. Remove build/measure after the model or the code changed.
# Budget, chunk and reserve together stay within the 4,608 positions that the demo model knows. Seeds from 101, as in docs/memory.sh.
#   docs/measure.sh && docs/plot.py && docs/plot.py tables
set -eu
cd "$(dirname "$0")/.."
retain=${RETAIN:-build/retain}
out=${OUT:-build/measure}
mkdir -p "$out"
every=keeper,locret,keydiff,keydiff+global,sink,random
few=keeper,locret,keydiff,keydiff+global,random
recall() { # SEEDS POLICIES ARGUMENTS…
    seeds=$1
    policies=$(echo "$2" | sed 's/,/:reserve=256,/g'):reserve=256
    shift 2
    echo "$*" >&2
    "$retain" eval recall --seed 101 --seeds "$seeds" --policy "$policies" "$@" --json --threads 1 --results "$out/done.jsonl"
}
{
    recall 10 full --length 700,1000,2000,4000
    recall 10 $every --length 1000 --compression 2,4,8,16,32
    recall 3 $every --length 8192 --compression 2,4,8,16,32
    recall 3 $every --length 8192 --budget 128
    recall 3 $every --length 32768 --budget 256
    recall 3 $few --length 131072 --budget 256
    recall 3 $few --length 32768 --compression 8,16,32
    recall 3 $few --length 32768 --budget 512
    recall 3 $few --length 131072 --compression 32
} >"$out/rows"
sed 's/:reserve=256//' "$out/rows" >docs/memory.jsonl
