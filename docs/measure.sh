#!/bin/sh
# Measures docs/memory.csv anew: the recall tables of docs/memory.md. 8 million tokens; three seeds.
#   docs/measure.sh && docs/plot.py && docs/plot.py tables
set -eu
cd "$(dirname "$0")/.."
every=keeper,locret,locret-q,locret+ada,locret+pyramid,keydiff,keydiff+global,scissorhands,expected,sirllm
every=$every,infinipot,nacl,h2o,snapkv,pyramidkv,ada-snapkv,ada-pyramid,tova,sink,random
far=keeper,locret,locret+ada,keydiff,keydiff+global
recall='build/retain eval recall --seeds 3 --csv --threads 1'
{
    $recall --policy full --length 700,1000,2048
    $recall --policy $every --length 1000 --compression 2,4,8,16,32
    $recall --policy $every --length 8192 --budget 128,256,512
    $recall --policy $every --length 32768 --budget 256,512
    $recall --policy $far --length 131072 --budget 256
} | awk 'NR == 1 || !/^task,/' >docs/memory.csv
