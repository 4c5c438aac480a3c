#!/bin/sh
# The program on the emulated GPU (driver.h): a chat with evictions, saved and resumed; the
# output of `info` and `plan`; and the same without a driver.
RETAIN=${EMU:-build/tests/emu}/retain
. "$(dirname "$0")/../cli/lib.sh"
gpu() { LD_LIBRARY_PATH=${EMU:-build/tests/emu} "$RETAIN" "$@"; }
chat() { # PROGRAM ARGUMENT… : greedy, a small cache
    run=$1
    shift
    "$run" chat --plain --temp 0 --seed 1 --budget 24 --chunk 16 \
        --policy auto:reserve=8,sinks=2,stabilizers=8 "$@" 2>"$T/err"
}

first='My locker code is 60714.' second='What is my locker code?'
one=$(printf '%s\n' "$first" "$second" /stats | chat gpu --device cuda -c one -n 8)
equal "chat: exit status" 0 $?
holds "chat: on the device" "$one$(cat "$T/err")" 'on cuda:0 \(Emulated GPU, sm_89\)'
holds "chat: pages in use" "$one$(cat "$T/err")" 'cache [^ ]+ [KM]iB taken, [0-9.]+ [KM]iB in use'
holds "chat: units are evicted" "$one$(cat "$T/err")" 'evicted [1-9]'

# The same, stopped in between: resuming replays nothing and gives the same text.
printf '%s\n' "$first" | chat gpu --device cuda -c two -n 8 >"$T/two"
printf '%s\n' "$second" /stats | chat gpu --device cuda -c two -n 8 >>"$T/two"
holds "resume: nothing is read again" "$(cat "$T/two" "$T/err")" ' 0 re-read'
equal "resume: the same answers" "$(printf '%s\n' "$one" | head -n 2)" "$(head -n 2 "$T/two")"

# The CPU resumes a cache that the device saved.
printf '%s\n' "/stats" | chat "$RETAIN" --device cpu -c two >"$T/three"
holds "from device to CPU: nothing is read again" "$(cat "$T/three" "$T/err")" ' 0 re-read'
holds "from device to CPU: its units" "$(cat "$T/three" "$T/err")" 'kept [1-9]'

# With centres of keys, which the device finds in the folder of copies if the CPU measured them.
for device in cpu cuda cpu; do
    printf '%s\n' "$first" /stats | chat gpu -m build/golden/families/llama.gguf --device $device -c moves -n 2 >"$T/moves"
    holds "centres: nothing is read again on $device" "$(cat "$T/moves" "$T/err")" ' 0 re-read'
done
equal "centres: one file" 1 "$(find "$T" -name '*.centres' | wc -l)"
rm -r "$T/cache"

# What was evicted on the device comes back there: the same windows and answers as on the CPU, with a
# pinned turn, too. Queries are refused by name.
recalls() { # DEVICE CHOOSER
    printf '%s\n' "$first" 'Tell me about cats.' 'Tell me about foxes.' 'What does an owl eat?' "$second" /recalled \
        '/pin 1' 'How are you?' /stats |
        gpu chat --plain --temp 0 --seed 1 --budget 48 --chunk 32 --device "$1" -n 4 -c "$1-$2" --recall "$2" \
            --policy keydiff+global:reserve=32 >"$T/$1" 2>"$T/err"
    grep -E -A3 'came back for|^turns|^cache' "$T/err" | grep -Ev '^(model|chat|mem|speed|ahead)' >>"$T/$1"
}
recalls cuda words
recalls cpu words
holds "recall: on the device" "$(cat "$T/cuda")" 'My locker code is 60714'
holds "recall: a pinned turn" "$(cat "$T/cuda")" 'turns +pinned 1'
equal "recall: as on the CPU" "$(cat "$T/cpu")" "$(cat "$T/cuda")"
by_meaning() { # DEVICE : the device has the embeddings
    printf '%s\n' "$first" 'Tell me about cats.' 'Which digits open my cupboard?' /recalled |
        gpu chat --plain --private --temp 0 --budget 16 --chunk 32 --device "$1" -n 2 \
            --policy sink:reserve=48 2>&1 | grep -A3 'came back for'
}
by_meaning cuda >"$T/cuda"
holds "recall by meaning: on the device" "$(cat "$T/cuda")" 'My locker code is 60714'
equal "recall by meaning: as on the CPU" "$(by_meaning cpu)" "$(cat "$T/cuda")"

holds "info: devices" "$(gpu info)" 'cuda:1 \(Emulated Orin, sm_87, 3 SMs, 1\.0 GiB, shared'
holds "info: device code" "$(gpu info)" '^gpu code sm_89 ptx$'
holds "info: why there is none" "$("$RETAIN" info)" 'no GPU: .*libcuda\.so\.1'
refused "plan: no driver" 1 'libcuda\.so\.1 was not found' "$RETAIN" plan --device cuda
refused "plan: too much" 4 "GPU's memory; --budget [0-9]+ would fit" gpu plan --device cuda --policy locret --budget 9000000
echo hi | gpu chat --plain --private --device auto --kv f32 -n 1 >/dev/null 2>"$T/err"
holds "auto: what the GPU cannot do is said" "$(cat "$T/err")" "the GPU is not used: the GPU keeps units as --kv q4, q5, q8 or f16"

# A GPU that is too small: auto runs on the CPU and says why, with the same answer; a larger one takes
# what fits; --device cuda names the way out.
with() { EMU_DRIVER_MEMORY=$1 LD_LIBRARY_PATH=${EMU:-build/tests/emu} "$RETAIN" generate --temp 0 -n 6 \
    -p 'My locker code is 48213. What is my locker code?' --device "$2" 2>"$T/err"; }
answer=$(with 1073741824 cpu)
equal "memory 4 MB: the CPU's answer" "$answer" "$(with 4000000 auto)"
holds "memory 4 MB: a notice" "$(cat "$T/err")" 'the GPU is not used: .* of the GPU'
with 4000000 cuda >/dev/null
holds "memory 4 MB: --device cuda" "$(cat "$T/err")" 'use a smaller model, or --device cpu'
with $((12 << 20)) auto >"$T/out"
equal "memory 12 MiB: exit status" 0 $?
equal "memory 12 MiB: no notice" "" "$(cat "$T/err")"
equal "memory 12 MiB: the CPU's answer" "$answer" "$(cat "$T/out")"
holds "plan: a small GPU takes short chunks" "$(EMU_DRIVER_MEMORY=10000000 gpu plan --device cuda)" 'chunk (128|256)'

# A GPU for some of the layers: all devices give the same answer, in chats that evict and resume, too.
split() { # BYTES DEVICE LAYERS
    EMU_DRIVER_MEMORY=$1 gpu generate --temp 0 -n 8 --budget 1000 --chunk 16 --device "$2" --gpu-layers "$3" \
        -p 'My locker code is 48213. What is my locker code?' 2>"$T/err"
}
answer=$(split 1073741824 cpu 0)
equal "split: the CPU's answer" "$answer" "$(split 5000000 auto 0)"
holds "split: one notice" "$(cat "$T/err")" '^retain: .* too small for the model: [1-3] of 4 layers run there'
equal "split: one line" 1 "$(wc -l <"$T/err")"
for n in 1 4; do
    equal "split: $n layers" "$answer" "$(split 1073741824 cuda $n)"
    equal "split: $n layers: no notice" "" "$(cat "$T/err")"
done
split 3300000 cuda 3 >/dev/null
equal "split: too many layers: exit status" 4 $?
holds "split: too many layers" "$(cat "$T/err")" '3 layers of retain demo need .* choose fewer with --gpu-layers'
holds "plan: split" "$(gpu plan --device cuda --gpu-layers 2)" '^GPU .* for the first 2 of 4 layers'
printf '%s\n' "$first" | chat gpu --device cuda --gpu-layers 2 -c half -n 8 >"$T/half"
printf '%s\n' "$second" /stats | chat gpu --device cuda --gpu-layers 2 -c half -n 8 >>"$T/half"
equal "split: a chat's answers" "$(printf '%s\n' "$one" | head -n 2)" "$(head -n 2 "$T/half")"
holds "split: nothing is read again" "$(cat "$T/half" "$T/err")" ' 0 re-read'
holds "split: units are evicted" "$(cat "$T/half" "$T/err")" 'evicted [1-9]'
holds "split: its name" "$(cat "$T/half" "$T/err")" '2 of 4 layers\) and cpu'

# A GPU for all but the experts of some or all layers: the answer of the CPU.
moe() { # BYTES COMMAND ARGUMENT…
    memory=$1
    shift
    EMU_DRIVER_MEMORY=$memory gpu "$@" -m build/golden/families/gpt-oss.gguf --budget 64 --chunk 16 --kv f16 2>"$T/err"
}
says() { # BYTES DEVICE EXPERTS [ARGUMENT…]
    memory=$1 device=$2 experts=$3
    shift 3
    moe "$memory" generate -n 12 --raw -p abc --temp 0 --repeat-penalty 1 --device "$device" --experts "$experts" "$@"
}
answer=$(says 1073741824 cpu auto --weights f32)
for e in host auto; do
    equal "experts, $e: the CPU's answer" "$answer" "$(says 1073741824 cuda $e --weights f32)"
    equal "experts, $e: no notice" "" "$(cat "$T/err")"
done
for n in 1 2; do
    equal "experts of $n layers on the CPU: its answer" "$answer" "$(says $((600000 - n * 100000)) cuda auto --weights f32)"
    holds "experts of $n layers on the CPU: a notice" "$(cat "$T/err")" "those of $n of 2 layers are in host memory"
done
equal "experts, with a split model" "$answer" "$(says 1073741824 cuda host --weights f32 --gpu-layers 1)"
export XDG_CACHE_HOME="$T/cache"
equal "experts, file: as in host memory" "$(says 1073741824 cuda host)" "$(says 1073741824 cuda file)"
equal "experts, file: the copy" 1 "$(find "$T/cache" -name '*.packed' | wc -l)"
holds "experts, file: plan" "$(moe 1073741824 plan --device cuda --experts file)" '^file .* of experts in the packed copy on disk'
holds "experts: bench" "$(moe 1073741824 bench --device cuda --experts host --prefill 16 --decode 2 --repeat 1)" \
    'the CPU reads 0\.0[0-9] MB/token, the share is of the others'
holds "experts: plan" "$(moe 1073741824 plan --device cuda --experts host)" '^host .* of host memory, for the experts of 2 of 2 layers'
holds "experts: plan --json" "$(moe 1073741824 plan --device cuda --experts host --json)" '"host_bytes":[1-9]'
holds "experts: all on the GPU" "$(moe 1073741824 plan --device cuda --json)" '"host_bytes":0,"mapped_bytes":0'

# Lists: one that the GPU cannot run moves all to the CPU, or is refused before the first row.
eval_lists() { gpu eval recall --policy keydiff --kv q4,f32 --length 256 --budget 64,32 --seeds 1 "$@" 2>"$T/err"; }
equal "eval, auto: rows" 5 "$(eval_lists | wc -l)"
holds "eval, auto: a notice" "$(cat "$T/err")" 'the GPU is not used: the GPU keeps units as'
equal "eval, cuda: rows" 0 "$(eval_lists --device cuda | wc -l)"
holds "eval, cuda: refused" "$(cat "$T/err")" 'the GPU keeps units as --kv q4, q5, q8 or f16, not f32'
# On the CPU, and on both: every row of a list, with the same answers.
placed() { # BYTES DEVICE
    EMU_DRIVER_MEMORY=$1 gpu eval passkey --policy keydiff,sink --length 24 --chunk 32 --budget 24 --seeds 1 --json \
        --device "$2" 2>"$T/err" | sed 's/"peak_bytes".*//'
}
rows=$(placed 12582912 cpu)
equal "eval: rows" 2 "$(echo "$rows" | wc -l)"
for place in '1000000 GPU is not used' '3000000 3 of 4 layers run there'; do
    equal "eval with $place" "$rows" "$(placed "${place%% *}" auto)"
    holds "eval with $place: said" "$(cat "$T/err")" "${place#* }"
done

# Heads are trained on the GPU, whose losses are rounded otherwise, unless it is too small.
for name in Milo Rex; do
    printf '{"document": ["My cat is called %s.", "Noted."], ' $name
    printf '"question": ["What is my cat called?"], "answer": ["Your cat is called %s."]}\n' $name
done >"$T/rows"
train() { # BYTES DEVICE OUT
    EMU_DRIVER_MEMORY=$1 gpu heads train --device "$2" --data "$T/rows" --length 64 --hidden 16 --steps 1 --batch 1 --threads 1 \
        --out "$T/$3"
}
cpu=$(train 1073741824 cpu cpu.gguf 2>&1 | grep nats)
holds "heads train: on the CPU" "$cpu" 'nats'
check "heads train: on the GPU" test "$cpu" != "$(train 1073741824 auto gpu.gguf 2>&1 | grep nats)"
refused "heads train: too large" 4 '' train 3000000 cuda x.gguf
equal "heads train: on the CPU instead" "$cpu" "$(train 3000000 auto small.gguf 2>&1 | grep nats)"
check "heads train: the CPU's file" cmp "$T/small.gguf" "$T/cpu.gguf"
bench=$(gpu bench --device cuda --prefill 16 --decode 2 --repeat 1)
holds "bench: the device" "$bench" 'on cuda:0 \(Emulated GPU, sm_89\)'
holds "bench: its bandwidth" "$bench" 'copy GB/s'
holds "compiling is announced" "$(gpu generate -p Hi -n 1 --device cuda:1 2>&1)" 'compiles device code'
check "auto without a driver is the CPU" sh -c "echo hi | '$RETAIN' generate -n 1 --device auto"
finish
