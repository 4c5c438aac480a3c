# steps.sh: shared by run.sh and again.sh. Each step is a program with a time limit; its row is appended
# to FOLDER/rows.txt when it ends, and each line that it prints to FOLDER/log.txt when it is printed, so
# that a killed run keeps what it measured.
#
# The programs are in the folder of the scripts: `make gpu` puts both into build/tests/gpu. Nothing is
# built; the programs need only libc. SECONDS_MAX: the time limit of the run; steps that no longer
# fit are skipped. MODELS: model files to bench, in addition to random ones. DRY=1: small sizes, to try a
# script on the emulated driver.

# begin FOLDER SECONDS
begin() {
    [ -x "$here/retain" ] || here=$(cd "$here/../.." && pwd)/build/tests/gpu
    [ -x "$here/retain" ] || { echo "$here holds no programs: make gpu"; exit 1; }
    out=${1:-${OUT:-.}}
    mkdir -p "$out" || exit 1
    rows=$out/rows.txt log=$out/log.txt child=
    : >"$rows" && : >"$log" || exit 1
    start=$(date +%s) seconds=${SECONDS_MAX:-$2}
    # Where there is no /proc, the programs do not find their libraries by themselves.
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/lib"
    XDG_DATA_HOME=$(mktemp -d) || exit 1
    export XDG_DATA_HOME XDG_CACHE_HOME="$XDG_DATA_HOME" XDG_CONFIG_HOME="$XDG_DATA_HOME"
    trap 'rm -rf "$XDG_DATA_HOME"' EXIT
    trap 'stopped 130' INT
    trap 'stopped 143' TERM HUP
    divisor=1 recall='recall --policy keeper,locret --budget 128 --length 1024'
    if [ -n "${DRY:-}" ]; then seconds=1000000 divisor=512 recall='passkey --policy sink --budget 16 --length 32 --seeds 1'; fi
}

stopped() {
    [ -n "$child" ] && kill "$child" 2>/dev/null && wait "$child"
    row "$name" "stopped after $(($(date +%s) - began)) s"
    exit "$1"
}

row() { printf '%-36s %s\n' "$1" "$2" | tee -a "$rows"; }

# step NAME SECONDS COMMAND…: skipped when less than a tenth of its seconds is left, or when it passed in
# the run in $first.
step() {
    name=$1 limit=$2
    shift 2
    if [ -n "${first:-}" ] && grep -q "^$name ([0-9]* s).* ok" "$first/rows.txt"; then return; fi
    began=$(date +%s) left=$((start + seconds - $(date +%s)))
    if [ $left -lt $((limit / 10 + 1)) ]; then row "$name" 'skip: no time left'; return; fi
    [ -n "${DRY:-}" ] && limit=$left # the emulator's time says nothing
    [ $left -lt "$limit" ] && limit=$left
    printf '\n==== %s: %s\n' "$name" "$*" >>"$log"
    at=$(($(wc -l <"$log") + 1))
    timeout -k 5 "$limit" "$@" >>"$log" 2>&1 &
    child=$!
    wait $child
    status=$? child=
    last=$(tail -n "+$at" "$log" | grep -E '^\[  (PASSED|FAILED)|^skip: |passed, [0-9]+ failed|ERROR SUMMARY|tokens/s$' | tail -n 1)
    [ $status -eq 124 ] && last="more than $limit s"
    row "$name ($(($(date +%s) - began)) s)" "$([ $status -eq 0 ] && echo ok || echo "FAILED ($status)") $last"
}

# machine: the card, its driver, power, clocks and why they are lower than they could be, to the log.
machine() {
    command -v nvidia-smi >/dev/null || return 0
    printf '\n==== machine\n' >>"$log"
    nvidia-smi --format=csv --query-gpu=name,driver_version,power.draw,power.limit,temperature.gpu,clocks.sm,clocks.mem,clocks.max.sm,clocks_throttle_reasons.active >>"$log" 2>&1
    nvidia-smi -q -d PERFORMANCE,ECC >>"$log" 2>&1
}

# driver: ends the run where the driver cannot be used, which is no success.
driver() {
    failure=$("$here/retain" plan --device cuda 2>&1 >/dev/null) || {
        row 'driver' "FAILED $failure"
        exit 1
    }
}

# bench NAME SECONDS ARGUMENT…: a step that runs `retain bench` on the device.
bench() {
    name=$1 limit=$2
    shift 2
    step "$name" "$limit" "$here/retain" bench --device cuda "$@"
}

# Whether the program can compute on a GPU; false with a row for the steps that are skipped.
has_gpu() {
    "$here/retain" plan --device cuda >/dev/null 2>>"$log" && return
    row "$1" 'skip: no GPU'
    return 1
}

# whole SHAPE [DEPTH [CHUNK [TOKENS]]]: a random model, made here, with all kernels and without each.
whole() {
    shape=$1 model=$XDG_DATA_HOME/$1.gguf
    shift
    "$here/recipe.sh" "$shape" >"$model.recipe"
    step "random $shape${1:+, $1 units}" 60 "$here/make_models" "$model.recipe" "$model"
    if [ -s "$model" ]; then step "whole $shape${1:+, $1 units}" 150 "$here/whole" "$model" "$@"; fi
    rm -f "$model" "$model.recipe"
}

# sanitize TOOL…: of compute-sanitizer, on the tests of kernels.
sanitize() {
    if ! command -v compute-sanitizer >/dev/null; then row 'compute-sanitizer' 'skip: not installed'; return; fi
    for tool; do
        for t in sample cache linear attend experts floats; do
            step "$tool $t" 120 compute-sanitizer --tool "$tool" --print-limit 5 --error-exitcode 3 "$here/test_$t"
        done
    done
}

# Prints the tables of times and writes them to FOLDER/table.txt; the exit status.
finish() {
    awk '/^(kernel  *(model|launches)|gap of|left out)/ || / tokens\/s$/ { shown = 1 }
         /^(====|$)/ { if (shown) print ""; shown = 0 }
         shown' "$log" | tee "$out/table.txt"
    ! grep -q FAILED "$rows"
}
