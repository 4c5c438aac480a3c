/* list: every device kernel and its argument struct (args.h). Host code finds kernels by these
 * names; the emulator's driver runs the kernels in this list. */
#ifndef RETAIN_KERNELS_CUDA_LIST_H
#define RETAIN_KERNELS_CUDA_LIST_H

#define CUDA_KERNELS(X)                  \
    X(embed_q4, cuda_embed)              \
    X(embed_q8, cuda_embed)              \
    X(embed_q4a, cuda_embed)             \
    X(embed_q5a, cuda_embed)             \
    X(embed_q6, cuda_embed)              \
    X(norm_quantize, cuda_norm)          \
    X(norm_rows, cuda_norm_rows)         \
    X(gate_quantize, cuda_gate)          \
    X(gate_rows, cuda_gate_rows)         \
    X(scale_rows, cuda_scale_rows)       \
    X(layer_inputs, cuda_layer_inputs)   \
    X(finish_heads, cuda_heads)          \
    X(matvec_q4, cuda_matvec)            \
    X(matvec_q8, cuda_matvec)            \
    X(matvec_q4a, cuda_matvec)           \
    X(matvec_q5a, cuda_matvec)           \
    X(matvec_q6, cuda_matvec)            \
    X(matvec_gate_q4, cuda_matvec_gate)  \
    X(matvec_gate_q8, cuda_matvec_gate)  \
    X(matvec_gate_q4a, cuda_matvec_gate) \
    X(matvec_gate_q5a, cuda_matvec_gate) \
    X(matvec_gate_q6, cuda_matvec_gate)  \
    X(matmul_q4, cuda_matvec)            \
    X(matmul_q8, cuda_matvec)            \
    X(matmul_q4a, cuda_matvec)           \
    X(matmul_q5a, cuda_matvec)           \
    X(matmul_q6, cuda_matvec)            \
    X(embed_f32, cuda_embed)             \
    X(embed_f16, cuda_embed)             \
    X(embed_bf16, cuda_embed)            \
    X(matvec_f32, cuda_floats)           \
    X(matvec_f16, cuda_floats)           \
    X(matvec_bf16, cuda_floats)          \
    X(matmul_f32, cuda_floats)           \
    X(matmul_f16, cuda_floats)           \
    X(matmul_bf16, cuda_floats)          \
    X(score_q8, cuda_score)              \
    X(score_sum, cuda_score_sum)         \
    X(score_one, cuda_score_one)         \
    X(kv_append, cuda_append)            \
    X(cache_copy, cuda_copy)             \
    X(key_values, cuda_values)           \
    X(near_duplicates, cuda_values)      \
    X(cache_rank, cuda_rank)             \
    X(cache_digits, cuda_digits)         \
    X(cache_evict, cuda_evict)           \
    X(attend_decode_64, cuda_attend)     \
    X(attend_decode_96, cuda_attend)     \
    X(attend_decode_128, cuda_attend)    \
    X(attend_one_64, cuda_attend_one)    \
    X(attend_one_96, cuda_attend_one)    \
    X(attend_one_128, cuda_attend_one)   \
    X(attend_chunk_64, cuda_attend)      \
    X(attend_chunk_96, cuda_attend)      \
    X(attend_chunk_128, cuda_attend)     \
    X(attend_merge, cuda_merge)          \
    X(attend_any_64, cuda_attend_any)    \
    X(attend_any_128, cuda_attend_any)   \
    X(attend_any_256, cuda_attend_any)   \
    X(attend_any_512, cuda_attend_any)   \
    X(merge_any, cuda_merge_any)         \
    X(colsum_64, cuda_colsum)            \
    X(colsum_96, cuda_colsum)            \
    X(colsum_128, cuda_colsum)           \
    X(argmax, cuda_argmax)               \
    X(top_k, cuda_top)

#endif
