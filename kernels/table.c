/* The table of kernels: one per instruction set, complete, chosen by what CPU and system allow. */
#include "kernels/cpu/cpu.h"

#include <string.h>

static const struct kernels table_ref = {
    .isa = "ref",
    .matmul =
        {
            [KN_F32] = kn_matmul_f32_ref,
            [KN_F16] = kn_matmul_f16_ref,
            [KN_BF16] = kn_matmul_bf16_ref,
            [KN_Q4] = kn_matmul_q4_ref,
            [KN_Q8] = kn_matmul_q8_ref,
            [KN_Q4A] = kn_matmul_q4a_ref,
            [KN_Q5A] = kn_matmul_q5a_ref,
            [KN_Q6] = kn_matmul_q6_ref,
        },
    .score = kn_score_ref,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
        },
    .quantize = kn_quantize_ref,
    .rmsnorm = kn_rmsnorm_ref,
    .silu_mul = kn_silu_mul_ref,
    .add = kn_add_ref,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_ref,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_ref,
            [KN_KV_Q4] = kn_kv_pack_q4_ref,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_ref,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_ref,
            [KN_KV_Q4] = kn_kv_unpack_q4_ref,
        },
    .attend = kn_attend_ref,
    .attend_stats = kn_attend_stats_ref,
};

#if defined(__x86_64__)

#include <cpuid.h>

static const struct kernels table_avx2 = {
    .isa = "avx2",
    .matmul =
        {
            [KN_F32] = kn_matmul_f32_avx2,
            [KN_F16] = kn_matmul_f16_avx2,
            [KN_BF16] = kn_matmul_bf16_avx2,
            [KN_Q4] = kn_matmul_q4_avx2,
            [KN_Q8] = kn_matmul_q8_avx2,
            [KN_Q4A] = kn_matmul_q4a_avx2,
            [KN_Q5A] = kn_matmul_q5a_avx2,
            [KN_Q6] = kn_matmul_q6_avx2,
        },
    .score = kn_score_avx2,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
        },
    .quantize = kn_quantize_avx2,
    .rmsnorm = kn_rmsnorm_avx2,
    .silu_mul = kn_silu_mul_avx2,
    .add = kn_add_avx2,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_avx2,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_avx2,
            [KN_KV_Q4] = kn_kv_pack_q4_avx2,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_avx2,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_avx2,
            [KN_KV_Q4] = kn_kv_unpack_q4_avx2,
        },
    .attend = kn_attend_avx2,
    .attend_stats = kn_attend_stats_avx2,
};

static const struct kernels table_avx512 = {
    .isa = "avx512",
    .matmul =
        {
            [KN_F32] = kn_matmul_f32_avx512,
            [KN_F16] = kn_matmul_f16_avx512,
            [KN_BF16] = kn_matmul_bf16_avx512,
            [KN_Q4] = kn_matmul_q4_avx512,
            [KN_Q8] = kn_matmul_q8_avx512,
            [KN_Q4A] = kn_matmul_q4a_avx512,
            [KN_Q5A] = kn_matmul_q5a_avx512,
            [KN_Q6] = kn_matmul_q6_avx512,
        },
    .score = kn_score_avx512,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
        },
    .quantize = kn_quantize_avx512,
    .rmsnorm = kn_rmsnorm_avx512,
    .silu_mul = kn_silu_mul_avx512,
    .add = kn_add_avx512,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_avx512,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_avx512,
            [KN_KV_Q4] = kn_kv_pack_q4_avx512,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_avx512,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_avx512,
            [KN_KV_Q4] = kn_kv_unpack_q4_avx512,
        },
    .attend = kn_attend_avx512,
    .attend_stats = kn_attend_stats_avx512,
};

/* The builtin also asks whether the system saves the registers; it has no word for F16C. */
static int runs_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int runs_avx512(void)
{
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

/* Best first. A CPU that runs one level runs all that follow it, so what is usable is always a
 * tail of this list. */
static const struct kernels *const tables[] = {&table_avx512, &table_avx2, &table_ref};
static const char *const names[] = {"avx512", "avx2", "ref", NULL};

static size_t first_usable(void)
{
    return runs_avx512() ? 0 : runs_avx2() ? 1 : 2;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

static const struct kernels table_neon = {
    .isa = "neon",
    .matmul =
        {
            [KN_F32] = kn_matmul_f32_neon,
            [KN_F16] = kn_matmul_f16_neon,
            [KN_BF16] = kn_matmul_bf16_neon,
            [KN_Q4] = kn_matmul_q4_neon,
            [KN_Q8] = kn_matmul_q8_neon,
            [KN_Q4A] = kn_matmul_q4a_neon,
            [KN_Q5A] = kn_matmul_q5a_neon,
            [KN_Q6] = kn_matmul_q6_neon,
        },
    .score = kn_score_neon,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
        },
    .quantize = kn_quantize_neon,
    .rmsnorm = kn_rmsnorm_neon,
    .silu_mul = kn_silu_mul_neon,
    .add = kn_add_neon,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_neon,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_neon,
            [KN_KV_Q4] = kn_kv_pack_q4_neon,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_neon,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_neon,
            [KN_KV_Q4] = kn_kv_unpack_q4_neon,
        },
    .attend = kn_attend_neon,
    .attend_stats = kn_attend_stats_neon,
};

static const struct kernels table_dotprod = {
    .isa = "dotprod",
    .matmul =
        {
            [KN_F32] = kn_matmul_f32_neon,
            [KN_F16] = kn_matmul_f16_neon,
            [KN_BF16] = kn_matmul_bf16_neon,
            [KN_Q4] = kn_matmul_q4_dotprod,
            [KN_Q8] = kn_matmul_q8_dotprod,
            [KN_Q4A] = kn_matmul_q4a_dotprod,
            [KN_Q5A] = kn_matmul_q5a_dotprod,
            [KN_Q6] = kn_matmul_q6_dotprod,
        },
    .score = kn_score_dotprod,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
        },
    .quantize = kn_quantize_neon,
    .rmsnorm = kn_rmsnorm_neon,
    .silu_mul = kn_silu_mul_neon,
    .add = kn_add_neon,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_neon,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_neon,
            [KN_KV_Q4] = kn_kv_pack_q4_neon,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_neon,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_neon,
            [KN_KV_Q4] = kn_kv_unpack_q4_neon,
        },
    .attend = kn_attend_neon,
    .attend_stats = kn_attend_stats_neon,
};

static const struct kernels table_i8mm = {
    .isa = "i8mm",
    .matmul =
        {
            [KN_F32] = kn_matmul_f32_neon,
            [KN_F16] = kn_matmul_f16_neon,
            [KN_BF16] = kn_matmul_bf16_neon,
            [KN_Q4] = kn_matmul_q4_i8mm,
            [KN_Q8] = kn_matmul_q8_i8mm,
            [KN_Q4A] = kn_matmul_q4a_i8mm,
            [KN_Q5A] = kn_matmul_q5a_i8mm,
            [KN_Q6] = kn_matmul_q6_i8mm,
        },
    .score = kn_score_i8mm,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
        },
    .quantize = kn_quantize_neon,
    .rmsnorm = kn_rmsnorm_neon,
    .silu_mul = kn_silu_mul_neon,
    .add = kn_add_neon,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_neon,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_neon,
            [KN_KV_Q4] = kn_kv_pack_q4_neon,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_neon,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_neon,
            [KN_KV_Q4] = kn_kv_unpack_q4_neon,
        },
    .attend = kn_attend_neon,
    .attend_stats = kn_attend_stats_neon,
};

/* Every aarch64 has NEON; F16 conversions are part of it. */
static int runs_dotprod(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

static int runs_i8mm(void)
{
    return runs_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

static const struct kernels *const tables[] = {&table_i8mm, &table_dotprod, &table_neon,
                                               &table_ref};
static const char *const names[] = {"i8mm", "dotprod", "neon", "ref", NULL};

static size_t first_usable(void)
{
    return runs_i8mm() ? 0 : runs_dotprod() ? 1 : 2;
}

#else

static const struct kernels *const tables[] = {&table_ref};
static const char *const names[] = {"ref", NULL};

static size_t first_usable(void)
{
    return 0;
}

#endif

const char *const *kn_isa_list(void)
{
    return names + first_usable();
}

const struct kernels *kn_table(const char *isa)
{
    const size_t first = first_usable();

    if (!isa || strcmp(isa, "auto") == 0) return tables[first];
    for (size_t i = first; names[i]; i++)
        if (strcmp(isa, names[i]) == 0) return tables[i];
    return NULL;
}
