/* The kernel tables: one per instruction set, complete, chosen by what CPU and system support. */
#include "kernels/cpu/cpu.h"

#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>

/* The builtin also checks that the system saves the registers; it cannot test for F16C. */
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

/* Best first. A CPU that supports one level supports all that follow it, so the usable tables are
 * always a tail of this list. */
static const struct kernels *const tables[] = {&kn_avx512, &kn_avx2, &kn_ref};
static const char *const names[] = {"avx512", "avx2", "ref", NULL};

static size_t first_usable(void)
{
    return runs_avx512() ? 0 : runs_avx2() ? 1 : 2;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

/* Every aarch64 has NEON; F16 conversions are part of it. */
static int runs_dotprod(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

static int runs_i8mm(void)
{
    return runs_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

static const struct kernels *const tables[] = {&kn_i8mm, &kn_dotprod, &kn_neon, &kn_ref};
static const char *const names[] = {"i8mm", "dotprod", "neon", "ref", NULL};

static size_t first_usable(void)
{
    return runs_i8mm() ? 0 : runs_dotprod() ? 1 : 2;
}

#else

static const struct kernels *const tables[] = {&kn_ref};
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
