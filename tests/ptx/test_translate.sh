#!/bin/sh
# ptx.awk must refuse these modules: an unknown instruction or syntax never runs as something else.
# PTX: the module of this build, if it has one.
. "$(dirname "$0")/../cli/lib.sh"

# module LINE…: a kernel with these lines
module() {
    printf '%s\n' '.version 8.2' '.target sm_80' '.address_size 64' '.visible .entry one(' \
        '	.param .align 8 .b8 one_param_0[8]' ')' '.maxntid 32, 1, 1' '{' \
        '	.reg .b32 	%r<3>;' '	.reg .b64 	%rd<3>;' "$@" '	ret;' '' '}'
}
translate() {
    module "$@" >"$T/one.ptx"
    awk -v files="$T/one.c" -f tests/ptx/ptx.awk "$T/one.ptx" 2>"$T/said"
}
# Kernels that are not in the list of kernels, without the list's check.
compiles() {
    sed '/CUDA_KERNELS/d' "$T/one.c" >"$T/alone.c"
    ${CC:-cc} -std=c11 -Werror -I. -fsyntax-only "$T/alone.c" 2>"$T/said"
}
refused() { # NAME PATTERN LINE…
    name=$1 pattern=$2
    shift 2
    if translate "$@" && compiles; then no "$name was accepted"; else holds "$name" "$(cat "$T/said")" "$pattern"; fi
}

translate '	ld.param.u64 	%rd1, [one_param_0];' '	add.s64 	%rd2, %rd1, 1;' '	ld.global.u32 	%r1, [%rd2+-4];'
check 'a small module' compiles
check 'its load' grep -qF 'LINE(13) r[1] = ld_global_u32(rd[2] + (-4ll));' "$T/one.c"
refused 'an instruction' 'sad_s32' '	sad.s32 	%r1, %r1, %r2, %r2;'
refused 'a rounding' 'add_rz_s32' '	add.rz.s32 	%r1, %r1, %r2;'
refused 'a width' 'ld_global_v2_u64' '	ld.global.v2.u64 	{%rd1, %rd2}, [%rd1];'
refused 'a destination that is too few' 'mov_b64_split|too few' '	mov.b64 	{%r1}, %rd1;'
refused 'an undeclared register' 'r7' '	mov.u32 	%r7, %r1;'
refused 'a special register' 'clock' '	mov.u32 	%r1, %clock;'
refused 'a static array' 'one.ptx:11: syntax' '	.shared .align 4 .b8 table[16];'
refused 'a double' 'operand 0d' '	mov.f64 	%r1, 0d3FF0000000000000;'
refused 'two statements in a line' 'one.ptx:11: syntax' '	mov.u32 	%r1, 0; mov.u32 	%r2, 0;'
refused 'a call' 'one.ptx:11: (syntax|operand)' '	call.uni (retval0), f, (param0);'

if [ -z "${PTX:-}" ]; then
    skip 'nvcc is missing: neither the PTX nor the tests for a GPU run'
else
    # ptx.awk makes the C compiler check each kernel's struct against the list; no other kernel
    # exists.
    kernels=$(grep -c '^\.visible \.entry' "$PTX")
    equal 'kernels of the module' "$(grep -c '^    X(' kernels/cuda/list.h)" "$kernels"
    # A ticket of a block orders what it wrote before it and what it reads of others after it. No emulation
    # sees the order of memory.
    tickets=$(grep -E '(atom|red)\.[a-z_.]*global\.inc' "$PTX")
    equal 'tickets that order nothing' '' "$(echo "$tickets" | grep -vE '(acq_rel|release)\.gpu')"
    holds 'tickets' "$tickets" 'acq_rel'
    # All other sums of blocks are counts.
    equal 'sums of blocks' cache_digits "$(awk '/^\.visible \.entry/ { k = $3 } /atom\.global\.add/ { sub(/\(.*/, "", k); print k }' "$PTX")"
    # Arrays whose index is not known when they are compiled are in local memory, which is slow.
    equal 'arrays in local memory' 0 "$(grep -c '__local_depot' "$PTX")"
fi
finish
