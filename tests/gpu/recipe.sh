#!/bin/sh
# recipe.sh SHAPE: the recipe (tests/golden/make_models.c) of a random model in the shape of a real one,
# of 4-bit blocks with scales of about 2^-9; tiny is for trying the programs.
case $1 in # layers, width, feed-forward, heads, KV heads, numbers of a head, vocabulary
8B) set -- 8B 32 4096 14336 32 8 128 128256 ;;
3B) set -- 3B 28 3072 8192 24 8 128 128256 ;;
1B) set -- 1B 16 2048 8192 32 8 64 128256 ;;
Phi-3) set -- Phi-3 32 3072 8192 32 32 96 32064 ;;
SmolLM2) set -- SmolLM2 30 576 1536 9 3 64 49152 ;;
tiny) set -- tiny 2 128 256 2 1 64 512 ;;
*) exit 2 ;;
esac
printf 'str general.architecture llama\nstr general.name random %s\n' "$1"
printf 'u32 llama.%s %d\n' block_count "$2" embedding_length "$3" feed_forward_length "$4" attention.head_count "$5" \
    attention.head_count_kv "$6" rope.dimension_count "$7" vocab_size "$8" context_length 131072
printf 'f32 llama.attention.layer_norm_rms_epsilon 1e-5\nf32 llama.rope.freq_base 500000\nvocab %d\n' "$8"
matrix() { printf 'tensor %s.weight Q4_0 %d %d\ndraw - 0 0.0001220703125\n' "$@"; } # a step of 2^-13
norm() { printf 'tensor %s.weight F32 %d\ndraw - 1 0\n' "$@"; }
matrix token_embd "$8" "$3"
norm output_norm "$3"
i=0
while [ $i -lt "$2" ]; do
    norm blk.$i.attn_norm "$3" blk.$i.ffn_norm "$3"
    matrix blk.$i.attn_q $(($5 * $7)) "$3" blk.$i.attn_k $(($6 * $7)) "$3" blk.$i.attn_v $(($6 * $7)) "$3" \
        blk.$i.attn_output "$3" $(($5 * $7)) blk.$i.ffn_gate "$4" "$3" blk.$i.ffn_up "$4" "$3" blk.$i.ffn_down "$3" "$4"
    i=$((i + 1))
done
