#!/bin/sh
# A build reports its facts and runs on any CPU of its architecture.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$RETAIN")

facts=$("$RETAIN" --version)
holds "version" "$(printf '%s\n' "$facts" | head -n 1)" '^retain [0-9]+\.[0-9]+\.[0-9]+$'
for fact in commit target compiler libraries; do
    holds "version: $fact" "$facts" "^$fact +[^ ]"
done

if [ "$(uname -m)" = x86_64 ] && command -v objdump >/dev/null && [ -e "$build/libretain.a" ]; then
    check "nothing beyond x86-64-v1 in baseline objects" tests/check_baseline.sh "$build"
    check "products of AVX2 and AVX-VNNI spill no sums" tests/check_spills.sh "$build" \
        "$build/kernels/cpu/avx2.o" "$build/kernels/cpu/avxvnni.o"
else
    skip "no x86 objects to look into"
fi

if [ "${build#*san}" = "$build" ] && command -v readelf >/dev/null; then
    check "stack protector, checked calls, read-only tables, control-flow protection" tests/check_hardening.sh "$RETAIN"
else
    skip "the program's hardening was not looked at"
fi

if [ -e build/cuda/device.ptx ]; then
    check "each cubin's architecture is the one named" tests/check_cubins.sh build/cuda/sm_*.cubin
else
    skip "no device code was built"
fi

# The first level that each processor runs, and that it does run.
if [ "$(uname -m)" != x86_64 ] || ! command -v qemu-x86_64 >/dev/null || [ "${build##*/}" = san ]; then
    skip "no qemu-x86_64 for this build: older processors were not tried"
else
    for want in qemu64=ref Nehalem=ref Haswell=avx2; do
        isa=$(qemu-x86_64 -cpu "${want%=*}" "$RETAIN" info 2>/dev/null)
        holds "${want%=*} takes ${want#*=}" "$isa" "^isa +${want#*=}( |\$)"
        holds "${want%=*} answers" "$(qemu-x86_64 -cpu "${want%=*}" "$RETAIN" generate -n 4 \
            -p 'Who are you?' 2>/dev/null)" '[a-z]'
    done
fi

finish
