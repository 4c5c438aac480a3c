#!/bin/sh
# A second run on a GPU, after the first one was read: repeats the steps that failed or had no time
# there, then times what the first leaves out: other shapes, longer caches, training, the other
# sanitizers. At the end each kernel's time in both runs. Usage: again.sh FOLDER FIRST, where FIRST is
# the folder of the first run. Settings: steps.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/steps.sh"
[ $# -eq 2 ] && [ -s "$2/log.txt" ] || { echo 'usage: again.sh FOLDER FIRST, the folder of a run of run.sh'; exit 2; }
first=$2
begin "$1" 1500
shapes='Phi-3' long='8B 65536' train='--steps 30 --batch 2 --length 512 --hidden 128' depths=0,4096,32768
[ -n "${DRY:-}" ] && shapes='' long='tiny 48 9 1' train='' depths=0

machine
driver
step 'info' 20 "$here/retain" info
for t in sample linear cache attend experts floats model; do step "test_$t" 90 "$here/test_$t"; done
first=
step 'speed of kernels' 150 "$here/speed" $divisor kernels
if has_gpu 'whole models'; then
    for size in $shapes; do whole "$size"; done
    whole $long
    [ -z "${DRY:-}" ] && bench 'bench demo' 60 --depth $depths --policy full,keeper
    [ -n "$train" ] && step 'training' 120 "$here/retain" heads train --device cuda $train --text "$here/steps.sh" "$here/run.sh" --out "$XDG_DATA_HOME/heads.gguf"
    for model in ${MODELS:-}; do bench "bench $model" 180 -m "$model" --depth 0,16384,65536; done
fi
sanitize initcheck synccheck
finish
status=$?
printf '\n%-14s %-6s %-10s %10s %10s %7s\n' kernel model size 'first us' 'now us' ratio | tee -a "$out/table.txt"
awk '/^kernel  *model/ { shown = 1; next }
     NF == 0 { shown = 0 }
     !shown || $NF != "-" { next }
     { key = substr($0, 1, 32); us = substr($0, 33) + 0 }
     FNR == NR { before[key] = us; next }
     key in before { printf "%s %10.1f %10.1f %7.2f\n", key, before[key], us, us / before[key] }' \
    "$2/log.txt" "$log" | tee -a "$out/table.txt"
exit $status
