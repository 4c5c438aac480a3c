#!/bin/sh
# The first ten minutes on a GPU: correctness, then speed. Each row is written to FOLDER/rows.txt when
# its step ends, and each line of a step to FOLDER/log.txt when it is printed, so that a killed run
# keeps its measurements. Usage: run.sh [FOLDER]
#
# The programs are in the folder of this script: `make gpu` puts both into build/tests/gpu. The
# script builds nothing; the programs need only libc. SECONDS_MAX is the time limit of the whole run;
# steps that no longer fit are skipped. MODELS: model files to bench, in addition to random ones.
# DRY=1: small sizes, to try the script on the emulated driver.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/retain" ] || here=$(cd "$here/../.." && pwd)/build/tests/gpu
[ -x "$here/retain" ] || { echo "$here holds no programs: make gpu"; exit 1; }
out=${1:-${OUT:-.}}
mkdir -p "$out" || exit 1
rows=$out/rows.txt log=$out/log.txt
: >"$rows" && : >"$log" || exit 1
start=$(date +%s) seconds=${SECONDS_MAX:-570}
XDG_DATA_HOME=$(mktemp -d) || exit 1
export XDG_DATA_HOME XDG_CACHE_HOME="$XDG_DATA_HOME" XDG_CONFIG_HOME="$XDG_DATA_HOME"
trap 'rm -rf "$XDG_DATA_HOME"' EXIT

divisor=1 recall='--policy keeper,locret --budget 128 --length 1024' depths=0,4096 steps='' shapes=${SHAPES-1B 8B}
[ -n "${DRY:-}" ] && divisor=512 recall='--policy locret --budget 32 --length 64 --seeds 1' depths=0 steps='--prefill 32 --decode 2 --repeat 1' shapes=

row() { printf '%-36s %s\n' "$1" "$2" | tee -a "$rows"; }

# step NAME SECONDS COMMAND…: runs it with a time limit; skipped when less than a tenth of that is left.
step() {
    name=$1 limit=$2
    shift 2
    left=$((start + seconds - $(date +%s)))
    if [ $left -lt $((limit / 10 + 1)) ]; then row "$name" 'skip: no time left'; return; fi
    [ $left -lt "$limit" ] && limit=$left
    printf '\n==== %s: %s\n' "$name" "$*" >>"$log"
    at=$(($(wc -l <"$log") + 1)) began=$(date +%s)
    timeout -k 5 "$limit" "$@" >>"$log" 2>&1
    status=$?
    last=$(tail -n "+$at" "$log" | grep -E '^\[  (PASSED|FAILED)|^skip: |passed, [0-9]+ failed|ERROR SUMMARY' | tail -n 1)
    [ $status -eq 124 ] && last="more than $limit s"
    row "$name ($(($(date +%s) - began)) s)" "$([ $status -eq 0 ] && echo ok || echo "FAILED ($status)") $last"
}

# bench NAME SECONDS ARGUMENT…: a step that runs `retain bench` on the device.
bench() {
    name=$1 limit=$2
    shift 2
    step "$name" "$limit" "$here/retain" bench --device cuda "$@"
}

step 'info' 20 "$here/retain" info
for t in sample linear cache attend model; do step "test_$t" 90 "$here/test_$t"; done
step 'speed of kernels' 150 "$here/speed" $divisor
if "$here/retain" plan --device cuda >/dev/null 2>>"$log"; then
    step 'demo chat' 30 sh -c "printf 'My locker code is 48213.\nWhat is my locker code?\n' |
        '$here/retain' chat --plain --private --temp 0 --seed 1 --device cuda"
    step 'recall, CPU' 60 "$here/retain" eval recall $recall --device cpu
    step 'recall, GPU' 60 "$here/retain" eval recall $recall --device cuda
    bench 'bench demo' 40 --depth $depths $steps
    for size in $shapes; do
        model=$XDG_DATA_HOME/$size.gguf
        step "random $size" 60 "$here/random_model" $size "$model"
        [ -s "$model" ] && bench "bench random $size" 120 -m "$model" --budget 16384 --depth 0,16384
        rm -f "$model"
    done
    for model in ${MODELS:-}; do bench "bench $model" 120 -m "$model" --depth 0,16384; done
else
    row 'chat, recall, bench' 'skip: no GPU'
fi
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        for t in sample cache linear attend; do
            step "$tool $t" 120 compute-sanitizer --tool "$tool" --error-exitcode 3 "$here/test_$t"
        done
    done
else
    row 'compute-sanitizer' 'skip: not installed'
fi
sed -n '/^kernel  *model/,/^$/p' "$log"
! grep -q FAILED "$rows"
