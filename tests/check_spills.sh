#!/bin/sh
# check_spills.sh BUILD OBJECT…: the loops of tiles and streams (kernels/cpu/v8_panels.h) keep their sums
# in registers: none stores a vector on the stack.
set -eu
grep -q -e '-O[23]' "$1/flags" || { echo "skip: $1 is not optimized"; exit 0; }
shift
for object; do
    if readelf -p .comment "$object" | grep -q clang; then echo "skip: clang compiled $object"; continue; fi
    objdump -d --no-show-raw-insn "$object" | awk -v object="$object" '
function hex(s,    i, n) {
    for (i = 1; i <= length(s); i++) n = 16 * n + index("123456789abcdef", substr(s, i, 1))
    return n + 0
}
# stores of the function that lie inside one of its loops, from a jump back to where it leads
function finish(    i, j) {
    for (i = 1; i <= n_store; i++)
        for (j = 1; j <= n_jump; j++)
            if (store[i] >= to[j] && store[i] < from[j]) {
                print object ": " name " stores " text[i]
                bad = 1
                break
            }
    n_store = n_jump = 0
}
/^[0-9a-f]+ <.*>:$/ { finish(); name = $2; n_loop += name ~ /^<(tile|stream)/; n_many += name ~ /^<tile_many/; next }
name ~ /^<(tile|stream)/ {
    at = hex(substr($1, 1, length($1) - 1))
    if ($2 ~ /^vmov/ && $3 ~ /^%[xyz]mm[0-9]+,-?(0x)?[0-9a-f]*\(%r[sb]p/) {
        store[++n_store] = at
        text[n_store] = $0
    }
    if ($2 ~ /^j/ && hex($3) < at) { from[++n_jump] = at; to[n_jump] = hex($3) }
}
END {
    finish()
    if (n_loop < 64 || !n_many) { print object ": " n_loop + 0 " loops were found, not 4 for each of 16 types and some for many tokens"; bad = 1 }
    exit bad
}' || exit 1
done
