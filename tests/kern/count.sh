#!/bin/sh
# count.sh BENCH_KERNELS [ISA]: how many instructions each hot kernel executes, counted by callgrind, so
# that a slower one shows on a machine whose clock is noisy. avx2 is the widest set that valgrind knows.
set -eu
command -v valgrind >/dev/null || { echo 'skip: valgrind is missing'; exit 0; }
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
valgrind --tool=callgrind --callgrind-out-file="$T/out" --collect-atstart=no \
    --toggle-collect=counted --dump-after=counted "$1" "${2:-avx2}" count >"$T/names" 2>"$T/log" ||
    { cat "$T/log"; exit 1; }
i=0
while IFS= read -r name; do
    i=$((i + 1))
    printf '%14d  %s\n' "$(sed -n 's/^summary: //p' "$T/out.$i")" "$name"
done <"$T/names"
