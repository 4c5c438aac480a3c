#!/bin/sh
# Writes docs/memory.csv: the recall tables of quant/eval/notes/recall.md. 24 million tokens, three seeds: hours, most of them for
# nacl and scissorhands.
# Budget, chunk and reserve together stay within the 4,608 positions that the demo model knows.
#   docs/measure.sh && docs/plot.py && docs/plot.py tables
set -eu
cd "$(dirname "$0")/.."
every=keeper,locret,locret-q,locret+ada,locret+pyramid,keydiff,keydiff+global,scissorhands,expected,sirllm
every=$every,infinipot,nacl,h2o,snapkv,pyramidkv,ada-snapkv,ada-pyramid,tova,sink,random
every=$(echo $every | sed 's/,/:reserve=256,/g'):reserve=256
recall='build/retain eval recall --seeds 3 --csv --threads 1'
{
    $recall --policy full --length 700,1000,2000,4000
    $recall --policy $every --length 1000,8192 --compression 2,4,8,16,32
    $recall --policy $every --length 32768 --compression 8,16,32
    $recall --policy $every --length 131072 --compression 32
    $recall --policy $every --length 8192 --budget 128
    $recall --policy $every --length 32768 --budget 256,512
    $recall --policy $every --length 131072 --budget 256
} | awk 'NR == 1 || !/^task,/' | sed 's/:reserve=256//' >docs/memory.csv
