#!/bin/sh
# The first half hour on a GPU: correctness first, then speed. Prints a table last and keeps the full
# log; missing parts are skipped and named. Usage: tests/gpu/run.sh [LOG]
# Builds only missing parts: build here first (make CUDA=all gpu) and take build/ along.
set -u
cd "$(dirname "$0")/../.." || exit 1
log=${1:-gpu.log}
B=${B:-build}
: >"$log" || exit 1
summary=$(mktemp) || exit 1
trap 'rm -f "$summary"' EXIT

row() { printf '%-44s %s\n' "$1" "$2" >>"$summary"; }

# step NAME SECONDS COMMAND…: the log gets everything, the table a line.
step() {
    name=$1 limit=$2
    shift 2
    printf '\n==== %s: %s\n' "$name" "$*" >>"$log"
    start=$(date +%s)
    timeout "$limit" "$@" >"$log.step" 2>&1
    status=$?
    cat "$log.step" >>"$log"
    last=$(grep -E '^\[  (PASSED|FAILED)|^skip: |passed, [0-9]+ failed|ERROR SUMMARY' "$log.step" | tail -n 1)
    [ $status -eq 124 ] && last="more than $limit s"
    row "$name ($(($(date +%s) - start)) s)" "$([ $status -eq 0 ] && echo ok || echo "FAILED ($status)") $last"
    rm -f "$log.step"
}

make -s gpu >>"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
step 'what there is' 60 "$B/retain" info
for t in "$B"/tests/gpu/test_*; do
    case $t in *.o | *.d) continue ;; esac # make's other outputs
    step "$(basename "$t")" 300 "$t"
done
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        for t in attend linear cache sample; do
            step "$tool $t" 300 compute-sanitizer --tool "$tool" --error-exitcode 3 "$B/tests/gpu/test_$t"
        done
    done
else
    row 'compute-sanitizer' 'skip: not installed'
fi
step 'speed' 120 "$B/tests/gpu/speed"
if "$B/retain" plan --device cuda >/dev/null 2>&1; then
    step 'demo chat' 60 sh -c "printf 'My locker code is 48213.\nWhat is my locker code?\n' |
        '$B/retain' chat --plain --private --temp 0 --seed 1 --device cuda"
    for model in "" ${MODELS:-}; do # MODELS='8b.gguf 3b.gguf': files to bench
        step "bench ${model:-demo}" 300 "$B/retain" bench --device cuda --depth 0,16384 ${model:+-m "$model"}
    done
else
    row 'demo chat, bench' 'skip: no GPU'
fi
echo
cat "$summary"
cat "$summary" >>"$log"
echo "full log: $log"
! grep -q FAILED "$summary"
