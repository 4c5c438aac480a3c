#!/bin/sh
# Tests run.sh without a GPU: its folder holds all libraries but libc; without a GPU it skips; on the
# emulated driver it runs to the end; and a killed run keeps its rows.
. "$(dirname "$0")/../cli/lib.sh"
emulated=${EMU:-build/tests/emu}
[ -x "$emulated/retain" ] && [ -e "$emulated/../gpu/rate.ptx" ] || {
    echo "skip: nvcc, or the emulator's compiler, is missing"
    echo '0 passed, 0 failed, 1 skipped'
    exit
}
cp -r "$emulated/../gpu" "$T/gpu"
case $emulated in /*) ;; *) emulated=$PWD/$emulated ;; esac

outside=$(for p in "$T"/gpu/retain "$T"/gpu/speed "$T"/gpu/random_model "$T"/gpu/test_*; do
    [ -x "$p" ] && ldd "$p"; done | grep -v "$T" | grep -v 'linux-vdso\|ld-linux\|libc\.so\|libm\.so\|libpthread\|libdl')
equal "libraries from elsewhere" "" "$outside"

(cd / && env -i PATH="$PATH" CUDA_VISIBLE_DEVICES= "$T/gpu/run.sh" "$T/none") >"$T/out" 2>&1
equal "no GPU: exit status" 0 $?
equal "no GPU: rows skipped" 7 "$(grep -c 'skip: no GPU\|1 skipped\|3 skipped' "$T/none/rows.txt")"

emulated_run() { DRY=1 LD_LIBRARY_PATH=$emulated "$T/gpu/run.sh" "$T/$1" >"$T/out" 2>&1; }
emulated_run all &
emulated_run killed &
pid=$!
wait_for 60 grep -q test_linear "$T/killed/rows.txt"
kill $pid
wait $pid 2>/dev/null
holds "killed: its rows are there" "$(cat "$T/killed/rows.txt")" 'test_sample .* ok'
wait
equal "emulated: nothing failed" "" "$(grep FAILED "$T/all/rows.txt")"
for name in info test_linear test_model 'speed of kernels' 'demo chat' 'recall, GPU' 'bench demo'; do
    holds "emulated: $name" "$(cat "$T/all/rows.txt")" "^$name .* ok"
done
holds "emulated: rows of kernels" "$(cat "$T/all/log.txt")" '^top_k '
finish
