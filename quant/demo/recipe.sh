#!/bin/sh
# Make the demo model from scratch: tokenizer, training, retaining heads, evaluation, GGUF files.
#
#   quant/demo/recipe.sh [OUTDIR]        default build/demo
#
# MINUTES (180) bounds the training, THREADS (2) its threads, PYTHON (python3) needs torch, numpy,
# regex;
# RETAIN (build/retain) trains the heads.
# A second run with the same OUTDIR continues where the first stopped.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-build/demo}
python=${PYTHON:-python3}
retain=${RETAIN:-$here/../../build/retain}
mkdir -p "$out"

# One arena that is never returned: page faults otherwise cost a quarter of the training. Passive
# waiting: a spinning thread starves the one it waits for if the machine has other work.
export MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456
export OMP_NUM_THREADS="${THREADS:-2}" OMP_WAIT_POLICY=passive

step() {
    name=$1
    shift
    echo "== $name" >&2
    "$python" "$here/$name.py" "$@"
}

[ -f "$out/tokenizer.json" ] || step tokenizer "$out/tokenizer.json"
step train --tokenizer "$out/tokenizer.json" --out "$out/model.pt" --minutes "${MINUTES:-180}"
step export --model "$out/model.pt" --tokenizer "$out/tokenizer.json" --out "$out"
# retaining heads: the program's own trainer, on the quantized model; continues where it stopped
model="-m $out/retain-demo.gguf" heads="$out/retain-demo-heads.gguf"
[ -f "$out/heads.jsonl" ] || step heads_data >"$out/heads.jsonl"
echo "== heads"
[ -f "$heads" ] || "$retain" heads train $model --data "$out/heads.jsonl" --out "$heads" \
    --length 4608 --hidden 128 --steps 200 --batch 4 --rate .002
{
    "$retain" eval recall $model --heads "$heads" --policy keeper,locret,sink,random --budget 64,256 \
        --length 2048,8192,32768
    "$retain" eval recall $model --policy full --length 1000,2000,4000
} | tee "$out/evaluation.txt"
