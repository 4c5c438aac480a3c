#!/bin/sh
# Assembles the PTX that is part of the program, lowered for CUDA 12 drivers, for every target, and
# prints registers (and bytes spilled) per kernel. Fails when it does not assemble, or a kernel
# spills. PTXAS, PTX: see the Makefile.
set -u
targets=${TARGETS:-80 86 87 89 90 110 120}
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.all" "$log.cubin"' EXIT
failed=0 passed=0

# ptxas -v prints: "Compiling entry function 'x'", a line with spills, a line with registers.
table='
/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
/spill stores/ { spills = $5 + $9 }
/Used [0-9]+ registers/ { printf "%s %s %d %d\n", name, sm, $5, spills }'

: >"$log.all"
for sm in $targets; do
    if "$PTXAS" -v -arch="sm_$sm" -o "$log.cubin" "$PTX" >"$log" 2>&1; then
        awk -v sm="$sm" "$table" "$log" >>"$log.all"
        echo "sm_$sm: $(wc -c <"$log.cubin") bytes"
        passed=$((passed + 1))
    else
        echo "sm_$sm:"
        cat "$log"
        failed=$((failed + 1))
    fi
done

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
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
