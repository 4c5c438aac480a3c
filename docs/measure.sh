#!/bin/sh
# Measures docs/memory.csv anew: the recall tables of docs/memory.md. Hours on two cores; three seeds.
#   docs/measure.sh && docs/plot.py && docs/plot.py tables
set -eu
cd "$(dirname "$0")/.."
every=keeper,locret,locret-q,locret+ada,locret+pyramid,keydiff,keydiff+global,scissorhands,expected,sirllm
every=$every,infinipot,nacl,h2o,snapkv,pyramidkv,ada-snapkv,ada-pyramid,tova,sink,random
best=keeper,locret,locret+ada,keydiff,keydiff+global,scissorhands,expected,sirllm
{
    build/retain eval recall --seeds 3 --csv --policy full --length 700,1000,2048
    build/retain eval recall --seeds 3 --csv --policy $every --length 1000 --compression 2,4,8,16,32
    build/retain eval recall --seeds 3 --csv --policy $every --length 8192 --budget 128,256,512
    build/retain eval recall --seeds 3 --csv --policy $best --length 32768 --budget 128,256,512
    build/retain eval recall --seeds 3 --csv --policy keeper,locret,keydiff,keydiff+global --length 131072 \
        --budget 256,512
} | awk 'NR == 1 || !/^task,/' >docs/memory.csv
