#!/bin/sh
# Tests the run on a GPU without one: the folder's programs start where there is nothing but libc; without
# a GPU they skip; on the emulated driver run.sh and again.sh run to the end; a killed run keeps its rows.
. "$(dirname "$0")/../cli/lib.sh"
emulated=${EMU:-build/tests/emu}
[ -x "$emulated/retain" ] && [ -e "$emulated/../gpu/rate.ptx" ] || {
    echo "skip: nvcc, or the emulator's compiler, is missing"
    echo '0 passed, 0 failed, 1 skipped'
    exit
}
mkdir "$T/tree" && cp -r "$emulated/../gpu" "$T/tree"
gpu=$T/tree/gpu
case $emulated in /*) ;; *) emulated=$PWD/$emulated ;; esac

# A tree of libc and the folder, and no /proc.
enter() { if [ "$(id -u)" -eq 0 ]; then chroot "$T/tree" "$@"; else unshare -r chroot "$T/tree" "$@"; fi; }
ldd "$gpu/retain" | grep -Eo '/[^ ]*/(libc|libm|libpthread|libdl|ld-linux)[^ ]*' |
    xargs -I{} cp -L --parents {} "$T/tree"
if LD_LIBRARY_PATH=/gpu/lib enter /gpu/retain --version >/dev/null 2>&1; then
    for p in speed whole "$gpu"/test_*; do
        name=$(basename "$p")
        case $name in
        *.*) continue ;;
        speed) set -- 1 kernels ;;
        whole) set -- - ;;
        *) set -- ;;
        esac
        LD_LIBRARY_PATH=/gpu/lib enter "/gpu/$name" "$@" >"$T/out" 2>&1
        equal "nothing but libc: $name" 0 $?
        holds "nothing but libc: $name" "$(cat "$T/out")" '^skip: no GPU'
    done
else
    skip "no right to chroot"
fi

(cd / && env -i PATH="$PATH" CUDA_VISIBLE_DEVICES= "$gpu/run.sh" "$T/none") >"$T/out" 2>&1
equal "no GPU: exit status" 1 $?
holds "no GPU: one line" "$(cat "$T/out")" '^driver .*FAILED .*libcuda'
equal "no GPU: one line" 1 "$(wc -l <"$T/out" | tr -d ' ')"

rm -rf "$gpu/variants" && mkdir "$gpu/variants" && echo '.version 8.2' >"$gpu/variants/same.ptx"
emulated_run() { # SCRIPT FOLDER…
    script=$1
    shift
    DRY=1 LD_LIBRARY_PATH=$emulated exec "$gpu/$script" "$@" >"$T/out.$script" 2>&1
}
emulated_run run.sh "$T/killed" &
pid=$!
wait_for grep -q test_sample "$T/killed/rows.txt"
kill $pid
wait $pid
equal "killed: exit status" 143 $?
holds "killed: its rows are there" "$(cat "$T/killed/rows.txt")" 'test_sample .* ok'
holds "killed: the last row" "$(tail -n 1 "$T/killed/rows.txt")" 'stopped after [0-9]+ s$'

(emulated_run run.sh "$T/all")
equal "emulated: exit status" 0 $?
for name in info images test_linear test_experts test_model 'demo chat' 'saved on GPU, resumed on CPU' 'recall, GPU' \
    'speed of kernels' 'whole tiny' 'bench demo' 'variant same'; do
    holds "emulated: $name" "$(cat "$T/all/rows.txt")" "^$name.* ok"
done
table=$(cat "$T/all/table.txt")
for row in 'matvec  *8B  *q4 ' 'attend_any  *Phi-3  *q8 ' 'near_duplic\.  *8B ' 'matmul .* same$' 'argmax  *-  ' \
    'token of tiny .* tokens/s' 'chain  *token ' 'matmul_q4  *chunk ' 'the rest  *chunk '; do
    holds "emulated: the table" "$table" "^$row"
done

(emulated_run again.sh "$T/again" "$T/all")
equal "again: exit status" 0 $?
equal "again: no test is repeated that passed" "" "$(grep '^test_' "$T/again/rows.txt")"
holds "again: times of both runs" "$(cat "$T/again/table.txt")" '^matvec  *8B  *q4  *[0-9.]+  *[0-9.]+  *[0-9.]+$'
finish
