#!/bin/sh
# The first ten minutes on a GPU: correctness, then speed, then what needs longer. Usage: run.sh
# [FOLDER]; rows, log and table are written there. Settings: steps.sh. A second run: again.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/steps.sh"
begin "${1:-}" 570
depths=0,4096 steps='' shapes=${SHAPES-SmolLM2 1B 3B 8B} behind=''
[ -n "${DRY:-}" ] && depths=0 steps='--prefill 16 --decode 2 --repeat 1' shapes=tiny behind='32 9 1'

machine
driver
step 'info' 20 "$here/retain" info
step 'images' 60 "$here/speed" $divisor images
for t in sample linear cache attend experts floats model; do step "test_$t" 90 "$here/test_$t"; done
if has_gpu 'chat, resume, recall'; then
    step 'demo chat' 30 sh -c "printf 'My locker code is 48213.\nWhat is my locker code?\n' |
        '$here/retain' chat --plain --private --temp 0 --seed 1 --device cuda"
    step 'saved on GPU, resumed on CPU' 30 "$here/resume.sh" "$here/retain" cuda cpu
    step 'saved on CPU, resumed on GPU' 30 "$here/resume.sh" "$here/retain" cpu cuda
    step 'recall, CPU' 60 "$here/retain" eval $recall --device cpu
    step 'recall, GPU' 60 "$here/retain" eval $recall --device cuda
fi
step 'speed of kernels' 150 "$here/speed" $divisor kernels
if has_gpu 'whole models'; then
    for size in $shapes; do whole "$size" $behind; done
    bench 'bench demo' 40 --depth $depths $steps
    for model in ${MODELS:-}; do bench "bench $model" 120 -m "$model" --depth 0,16384; done
fi
for file in "$here"/variants/*.ptx; do
    [ -e "$file" ] && step "variant $(basename "$file" .ptx)" 30 "$here/speed" $divisor "$file"
done
if command -v python3 >/dev/null; then
    step 'ceilings of torch' 75 python3 "$here/ceilings.py" $([ -n "${DRY:-}" ] && echo cpu)
else
    row 'ceilings of torch' 'skip: python3 is not installed'
fi
if command -v ncu >/dev/null; then
    step 'counters' 120 "$here/counters.sh" "$here/speed"
else
    row 'counters' 'skip: ncu is not installed'
fi
sanitize memcheck racecheck
machine
finish
