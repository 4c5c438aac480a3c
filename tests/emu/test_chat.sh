#!/bin/sh
# The program on the emulated GPU (driver.h): a chat with evictions, saved and resumed; the
# output of `info` and `plan`; and the same without a driver.
RETAIN=${EMU:-build/tests/emu}/retain
. "$(dirname "$0")/../cli/lib.sh"
gpu() { LD_LIBRARY_PATH=${EMU:-build/tests/emu} "$RETAIN" "$@"; }
chat() { # PROGRAM ARGUMENT… : greedy, a small cache
    run=$1
    shift
    "$run" chat --plain --temp 0 --seed 1 --budget 24 --chunk 16 --reserve 8 --sinks 2 \
        --stabilizers 8 "$@" 2>"$T/err"
}

first='My locker code is 48213.' second='What is my locker code?'
one=$(printf '%s\n' "$first" "$second" /stats | chat gpu --device cuda -c one -n 16)
equal "chat: exit status" 0 $?
holds "chat: on the device" "$one$(cat "$T/err")" 'on cuda:0 \(Emulated GPU, sm_89\)'
holds "chat: units are evicted" "$one$(cat "$T/err")" 'evicted [1-9]'

# The same, stopped in between: resuming reads nothing again and says the same.
printf '%s\n' "$first" | chat gpu --device cuda -c two -n 16 >"$T/two"
printf '%s\n' "$second" /stats | chat gpu --device cuda -c two -n 16 >>"$T/two"
holds "resume: nothing is read again" "$(cat "$T/two" "$T/err")" ' 0 re-read'
equal "resume: the same answers" "$(printf '%s\n' "$one" | head -n 2)" "$(head -n 2 "$T/two")"

# The CPU resumes what the device saved.
printf '%s\n' "/stats" | chat "$RETAIN" --device cpu -c two >"$T/three"
holds "from device to CPU: nothing is read again" "$(cat "$T/three" "$T/err")" ' 0 re-read'
holds "from device to CPU: its units" "$(cat "$T/three" "$T/err")" 'kept [1-9]'

holds "info: devices" "$(gpu info)" 'cuda:1 \(Emulated Orin, sm_87, 3 SMs, 1\.0 GiB, shared'
holds "info --json" "$(gpu info --json)" '"devices":\["cpu","cuda:0","cuda:1"\].*"cubins":\["sm_89","ptx"\]'
holds "info: why there is none" "$("$RETAIN" info)" 'no GPU: .*libcuda\.so\.1'
"$RETAIN" plan --device cuda >/dev/null 2>"$T/err"
equal "plan: no driver: exit status" 1 $?
holds "plan: no driver" "$(cat "$T/err")" 'libcuda\.so\.1 was not found'
gpu plan --device cuda --policy locret --budget 9000000 >/dev/null 2>"$T/err"
equal "plan: too much: exit status" 4 $?
holds "plan: too much" "$(cat "$T/err")" "GPU's memory; --budget [0-9]+ would fit"
echo hi | gpu chat --plain --private --device auto --policy h2o -n 1 >/dev/null 2>"$T/err"
holds "auto: what the GPU cannot do is said" "$(cat "$T/err")" 'the GPU is not used: policy h2o'
check "auto without a driver is the CPU" sh -c "echo hi | '$RETAIN' generate -n 1 --device auto"
finish
