#!/bin/sh
# check_baseline.sh BUILD: only objects named for an instruction set contain an instruction
# beyond x86-64-v1 (SSE2): AVX by its registers and its v prefix, SSE3 to SSE4.2,
# POPCNT, BMI, MOVBE and the like by name.
set -eu
build=$1
if ! objdump -f "$build/main.o" | grep -q x86-64; then
    echo "skip: $build is not for x86"
    exit 0
fi
if grep -q -e -march= -e -mcpu= -e -mavx "$build/flags"; then
    echo "skip: $build was compiled for another processor than the baseline"
    exit 0
fi
objdump -d --no-show-raw-insn "$build/main.o" "$build/libretain.a" | awk '
    BEGIN {
        FS = "\t"
        later = "^(v[a-z0-9]+|addsubp[sd]|h(add|sub)p[sd]|lddqu|movddup|movs[hl]dup)$" \
            "|^p(shufb|hadd|hsub|maddubsw|mulhrsw|sign|abs|alignr|mulld|ackusdw|test|mov[sz]x)" \
            "|^p(m(in|ax)(s[bd]|u[wd])|extr[bdq]|insr[bdq]|cmpeqq|cmpgtq|cmp[ei]str|clmul)" \
            "|^p?blend|^(round|dp)[ps][sd]$|^(movntdqa|insertps|extractps|mpsadbw|phminposuw|aes)" \
            "|^(crc32|popcnt|[lt]zcnt|andn[lq]?$|bextr|bls(r|i|msk)|pdep|pext|[rs](ar|hl|hr|or)x|mulx|movbe)"
    }
    / file format / { object = $1; sub(/:.*/, "", object); n++; skip = object ~ /^avx(2|vnni|512)\.o$/ }
    NF < 2 || skip { next }
    {
        op = $2
        sub(/ .*/, "", op)
        if (op ~ later || $2 ~ /%[yz]mm|%k[0-7]/) { print object ": " $2; if (++bad == 20) exit }
    }
    END {
        if (n < 2) { print "no object was found"; exit 1 }
        if (!bad) print "baseline: " n " objects hold nothing beyond x86-64-v1"
        exit bad > 0
    }'
