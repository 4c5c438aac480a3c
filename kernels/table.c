/* The kernel tables: one per instruction set, best first, chosen by what CPU and system support. */
#include "kernels/cpu/cpu.h"

#include <pthread.h>
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

/* Laptops since 2021 have it without AVX-512, servers with AVX-512 VNNI often do not have it. */
static int runs_avxvnni(void)
{
    unsigned a, b, c, d;
    return runs_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

static const struct kernels *const tables[] = {&kn_avx512, &kn_avxvnni, &kn_avx2, &kn_ref, NULL};

static int runs(const struct kernels *k)
{
    return k == &kn_avx512    ? runs_avx512()
           : k == &kn_avxvnni ? runs_avxvnni()
           : k == &kn_avx2    ? runs_avx2()
                              : 1;
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

static const struct kernels *const tables[] = {&kn_i8mm, &kn_dotprod, &kn_neon, &kn_ref, NULL};

static int runs(const struct kernels *k)
{
    return k == &kn_i8mm ? runs_i8mm() : k == &kn_dotprod ? runs_dotprod() : 1;
}

#else

static const struct kernels *const tables[] = {&kn_ref, NULL};

static int runs(const struct kernels *k)
{
    (void)k;
    return 1;
}

#endif

/* The tables that run here, best first, and their names. The processor is asked once, which takes
 * some microseconds in a virtual machine. */
static struct kernels found[sizeof tables / sizeof *tables];
static const char *names[sizeof tables / sizeof *tables];

/* A table of products alone gets the rest of the next one. */
static struct kernels complete(const struct kernels *const *table)
{
    if (table[0]->attend) return *table[0];
    struct kernels k = complete(table + 1);
    k.isa = table[0]->isa;
    for (int i = 0; i < KN_TYPES; i++)
        if (table[0]->matmul[i]) k.matmul[i] = table[0]->matmul[i];
    return k;
}

static void find(void)
{
    size_t n = 0;

    for (size_t i = 0; tables[i]; i++)
        if (runs(tables[i])) {
            found[n] = complete(tables + i);
            names[n++] = tables[i]->isa;
        }
}

const char *const *kn_isa_list(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find);
    return names;
}

const struct kernels *kn_table(const char *isa)
{
    const char *const *list = kn_isa_list();

    if (!isa || strcmp(isa, "auto") == 0) return found;
    for (size_t i = 0; list[i]; i++)
        if (strcmp(isa, list[i]) == 0) return &found[i];
    return NULL;
}
