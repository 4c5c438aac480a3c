#!/bin/sh
# Assembles the PTX that is part of the program, lowered for CUDA 12 drivers, for every target, and
# prints a table: registers of each kernel, bytes it spills, and, where it has matrix instructions,
# instructions of its hot loop per matrix instruction (sass.awk). tests/gpu/model.py predicts speeds
# from them. Fails when the PTX does not assemble or a kernel spills.
#
# cuda_report.sh TABLE compares with a table printed before: more registers, spills or instructions
# (by 1 %) are a failure. Numbers of another compiler are not compared. PTXAS, PTX: see tests.mk.
set -u
targets=${TARGETS:-80 86 87 89 90 110 120}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
here=$(dirname "$0")
version=$("$PTXAS" --version | sed -n 's/.*release.*V\(.*\)/\1/p')

if [ $# -gt 0 ] && ! grep -q "ptxas $version\$" "$1"; then
    echo "skip: $1 is of another compiler than ptxas $version"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

# assemble SM: lines "KERNEL SM REGISTERS SPILLED". ptxas -v prints the kernel's name, then a line
# with spills, then one with registers.
assemble() {
    "$PTXAS" -v -arch="sm_$1" -o "$work/cubin" "$PTX" >"$work/said" 2>&1 || return 1
    awk -v sm="$1" '
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /spill stores/ { spills = $5 + $9 }
        /Used [0-9]+ registers/ { print name, sm, $5, spills }' "$work/said" >>"$work/registers"
}

# count_instructions SM: lines as sass.awk prints them
count_instructions() {
    readelf -SW "$work/cubin" 2>/dev/null | sed 's/\[ *//' |
        awk '$2 ~ /^\.text\./ { print substr($2, 7), $5, $6 }' |
        while read -r kernel at bytes; do
            od -An -v -tx8 -w16 -j$((0x$at)) -N$((0x$bytes)) "$work/cubin" |
                awk -v name="$kernel" -v sm="$1" -f "$here/sass.awk"
        done >>"$work/instructions"
}

for sm in $targets; do
    assemble "$sm" || { echo "sm_$sm does not assemble:"; cat "$work/said"; exit 1; }
    count_instructions "$sm"
done

awk -v targets="$targets" -v version="$version" '
    FILENAME ~ /registers$/ {
        if (!($1 in seen)) { seen[$1] = 1; order[++n_kernels] = $1 }
        cell[$1, $2] = $3 ($4 ? "+" $4 : ""); next
    }
    $6 { cell[$1, $2] = cell[$1, $2] sprintf("/%.1f", $5 / $6) }
    END {
        print "Registers, + bytes spilled, / instructions per matrix instruction; ptxas " version
        n = split(targets, sm, " ")
        printf "%-20s", "kernel"
        for (i = 1; i <= n; i++) printf " %9s", "sm_" sm[i]
        print ""
        for (k = 1; k <= n_kernels; k++) {
            printf "%-20s", order[k]
            for (i = 1; i <= n; i++) printf " %9s", cell[order[k], sm[i]]
            print ""
        }
    }' "$work/registers" "$work/instructions" >"$work/table"

if [ $# -eq 0 ]; then
    cat "$work/table"
    ! grep -q '[0-9]+[0-9]' "$work/table"
    exit
fi

awk '
    function worse(name, sm, old, now,   a, b) {
        split(old, a, "[+/]"); split(now, b, "[+/]")
        if (now ~ /\+/ && old !~ /\+/ || b[1] + 0 > a[1] + 0 || b[2] + 0 > a[2] * 1.01) {
            print "FAIL: " name " on " sm ": " now ", was " old
            return 1
        }
        return 0
    }
    FNR == 1 { next } # the title
    $1 == "kernel" { for (i = 2; i <= NF; i++) head[i] = $i; next }
    NR == FNR { for (i = 2; i <= NF; i++) before[$1, head[i]] = $i; next }
    {
        bad = 0
        for (i = 2; i <= NF; i++) {
            if (!(($1, head[i]) in before)) { print "FAIL: " $1 " on " head[i] " is not in the table"; bad = 1 }
            else bad += worse($1, head[i], before[$1, head[i]], $i)
        }
        if (bad) failed++; else passed++
    }
    END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }' "$1" "$work/table"
