#!/bin/sh
# Real models give the same text as llama.cpp: greedy, 64 tokens, float32 weights, f16 cache. The
# texts were made with its llama-completion (--temp 0 -n 64 -no-cnv); no two logits tie on the way.
. "$(dirname "$0")/lib.sh"

if [ ! -d "$DATA/models" ]; then
    skip "no public models in $DATA"
    finish
fi
story() {
    equal "$1" "$2" "$("$RETAIN" generate -m "$DATA/models/$1" --raw -p 'Once upon a time' -n 64 \
        --temp 0 --repeat-penalty 1 --kv f16 --policy full 2>"$T/err")"
}

story stories260K-f32.gguf ", there was a little girl named Lily. She loved to play outside in the park. \
One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said"
story babyllama-tok105-f32.gguf ", there was a little girl named Lily. She loved to play outside "

finish
