#!/bin/sh
# counters.sh SPEED: what ncu counts in the hot kernels, a row for each kernel and size: means of all launches
# but the first. The clocks are the owner's: they stay as they are. Ninety launches reach attention over
# 16,384 units.
us=gpu__time_duration.sum
dram=gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed
issue=sm__inst_issued.avg.pct_of_peak_sustained_active
warps=sm__warps_active.avg.pct_of_peak_sustained_active
ncu --clock-control none --csv --page raw --print-units base --metrics $us,$dram,$issue,$warps,launch__registers_per_thread \
    --kernel-name 'regex:chain|matvec_gate_q4|matmul_q4|attend_(one|int8|chunk)_128' --launch-count 90 "$1" 1 counters |
    awk -F '","' -v names="$us $dram $issue $warps launch__registers_per_thread" '
    function show() {
        if (n) printf "%-18s %8d %10.1f %8.1f %8.1f %11.1f %9d\n", kernel, n, sum[1] / n / 1e3, sum[2] / n, sum[3] / n, sum[4] / n, sum[5] / n
    }
    !/^"/ { if (/^==(ERROR|WARNING)/) print; next }
    { sub(/"$/, "") }
    !columns {
        for (i = 1; i <= NF; i++) at[$i] = i
        columns = split(names, name, " ")
        printf "%-18s %8s %10s %8s %8s %11s %9s\n", "kernel", "launches", "us", "DRAM %", "issue %", "occupancy %", "registers"
        next
    }
    $at["Kernel Name"] == "" { next } # units
    $at["Kernel Name"] != kernel { show(); kernel = $at["Kernel Name"]; n = -1; split("", sum) }
    n++ >= 0 { for (i = 1; i <= columns; i++) { value = $at[name[i]]; gsub(/,/, "", value); sum[i] += value } }
    END { show(); exit !columns }'
