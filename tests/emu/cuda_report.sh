#!/bin/sh
# Compiles every device file for every target and prints registers, shared memory and spills per
# kernel; then lowers the PTX's version for CUDA 12 drivers and assembles it for the targets again.
# Fails when something does not compile, or a kernel spills. NVCC, OUT: see the Makefile.
set -u
cd "$(dirname "$0")/../.." || exit 1
targets=${TARGETS:-80 86 87 89 90 110 120}
flags='-std=c++17 -fmad=false -I.'
bin=$(dirname "$NVCC")
mkdir -p "$OUT" || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.all"' EXIT
failed=0 done=0

# ptxas -v prints: "Compiling entry function 'x'", a line with spills, a line with registers.
table='
/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
/spill stores/ { spills = $5 + $9 }
/Used [0-9]+ registers/ { printf "%s %s %d %d\n", name, sm, $5, spills }'

: >"$log.all"
for file in kernels/cuda/*.cu; do
    name=$(basename "$file" .cu)
    # shellcheck disable=SC2086
    if ! "$NVCC" $flags -ptx -arch=compute_80 -o "$OUT/$name.ptx" "$file" 2>"$log"; then
        cat "$log"
        failed=$((failed + 1))
        continue
    fi
    # used_bytes_mask is a hint that 8.2 does not know
    sed -i -e 's/^\.version .*/.version 8.2/' -e '/used_bytes_mask/d' "$OUT/$name.ptx"
    for sm in $targets; do
        # shellcheck disable=SC2086
        if "$NVCC" $flags -cubin -arch="sm_$sm" -Xptxas -v -o "$OUT/$name.sm_$sm.cubin" "$file" \
            >"$log" 2>&1; then
            awk -v sm="$sm" "$table" "$log" >>"$log.all"
            done=$((done + 1))
        else
            cat "$log"
            failed=$((failed + 1))
        fi
        if "$bin/ptxas" -arch="sm_$sm" -o "$log.cubin" "$OUT/$name.ptx" >"$log" 2>&1; then
            done=$((done + 1))
        else
            echo "lowered PTX of $name for sm_$sm:"
            cat "$log"
            failed=$((failed + 1))
        fi
        rm -f "$log.cubin"
    done
done

echo "registers (and bytes spilled, if any) per kernel and target"
awk -v targets="$targets" '
BEGIN { n = split(targets, sm, " "); printf "%-24s", "kernel"
        for (i = 1; i <= n; i++) printf " %6s", "sm_" sm[i]; print "" }
{ if (!($1 in seen)) { seen[$1] = 1; order[++kernels] = $1 }
  cell[$1, $2] = $3 ($4 ? "+" $4 : ""); if ($4) spilled++ }
END { for (k = 1; k <= kernels; k++) { printf "%-24s", order[k]
          for (i = 1; i <= n; i++) printf " %6s", cell[order[k], sm[i]]
          print "" }
      print spilled ? spilled " kernels spill" : "no kernel spills"
      exit spilled > 0 }' "$log.all" || failed=$((failed + 1))
echo "$done passed, $failed failed"
[ $failed -eq 0 ]
