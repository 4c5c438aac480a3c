/* The table of kernels: one per instruction set, complete, chosen by what CPU and system allow. */
#include "kernels/cpu/cpu.h"

#include <string.h>

/* A table whose products of integers have the suffix `integers` and all else `rest`. Nobody waits
 * for single rows and float32 units: those have one version. */
/* clang-format off */
#define TABLE(integers, rest) \
    static const struct kernels table_##integers = { \
        .isa = #integers, \
        .matmul = { \
            [KN_F32] = kn_matmul_f32_##rest, \
            [KN_F16] = kn_matmul_f16_##rest, \
            [KN_BF16] = kn_matmul_bf16_##rest, \
            [KN_Q4] = kn_matmul_q4_##integers, \
            [KN_Q8] = kn_matmul_q8_##integers, \
            [KN_Q4A] = kn_matmul_q4a_##integers, \
            [KN_Q5A] = kn_matmul_q5a_##integers, \
            [KN_Q6] = kn_matmul_q6_##integers, \
        }, \
        .score = kn_score_##integers, \
        .row = { \
            [KN_F32] = kn_row_f32_ref, \
            [KN_F16] = kn_row_f16_ref, \
            [KN_BF16] = kn_row_bf16_ref, \
            [KN_Q4] = kn_row_q4_ref, \
            [KN_Q8] = kn_row_q8_ref, \
            [KN_Q4A] = kn_row_q4a_ref, \
            [KN_Q5A] = kn_row_q5a_ref, \
            [KN_Q6] = kn_row_q6_ref, \
        }, \
        .quantize = kn_quantize_##rest, \
        .rmsnorm = kn_rmsnorm_##rest, \
        .silu_mul = kn_silu_mul_##rest, \
        .add = kn_add_##rest, \
        .kv_pack = { \
            [KN_KV_F16] = kn_kv_pack_f16_##rest, \
            [KN_KV_F32] = kn_kv_pack_f32_ref, \
            [KN_KV_Q8] = kn_kv_pack_q8_##rest, \
            [KN_KV_Q4] = kn_kv_pack_q4_##rest, \
        }, \
        .kv_unpack = { \
            [KN_KV_F16] = kn_kv_unpack_f16_##rest, \
            [KN_KV_F32] = kn_kv_unpack_f32_ref, \
            [KN_KV_Q8] = kn_kv_unpack_q8_##rest, \
            [KN_KV_Q4] = kn_kv_unpack_q4_##rest, \
        }, \
        .attend = kn_attend_##rest, \
        .attend_stats = kn_attend_stats_##rest, \
    }
/* clang-format on */

TABLE(ref, ref);

#if defined(__x86_64__)

#include <cpuid.h>

TABLE(avx2, avx2);
TABLE(avx512, avx512);

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

TABLE(neon, neon);
TABLE(dotprod, neon);
TABLE(i8mm, neon);

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
