/* Tests the emulator itself: wrong kernels are caught, by an error or by NaN in their output; the
 * same kernels without the mistake are not. */
#include "tests/emu/kit.h"

#include "broken.h"

DECLARE_KERNEL(divergent_barrier, broken);
DECLARE_KERNEL(divergent_warp, broken);
DECLARE_KERNEL(missing_lane, broken);
DECLARE_KERNEL(missing_barrier, broken);
DECLARE_KERNEL(missing_warp_sync, broken);
DECLARE_KERNEL(missing_wait, broken);
DECLARE_KERNEL(misaligned, broken);
DECLARE_KERNEL(beyond_shared, broken);

typedef const char *kernel(const struct emu_launch *, const struct broken *);

/* How many of 20 seeds were caught; `words` is the expected error, NULL = the output shows it. */
static int caught(kernel *run, int threads, int wrong, const char *words)
{
    static float in[128] __attribute__((aligned(16)));
    float out[64];
    int n = 0;

    for (int i = 0; i < 128; i++) in[i] = 1.0f;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct emu_launch at = {{1, 1, 1}, threads, 128 * 4, seed, 0};
        const struct broken job = {wrong, in, out};
        for (int i = 0; i < 64; i++) out[i] = 1.0f;
        const char *said = run(&at, &job);
        int bad = said != NULL;
        if (said && words && !strstr(said, words)) fail_msg("said: %s", said);
        for (int i = 0; i < threads; i++) bad |= isnan(out[i]);
        n += bad;
    }
    return n;
}

static void always(kernel *run, int threads, const char *words)
{
    assert_int_equal(caught(run, threads, 1, words), 20);
    assert_int_equal(caught(run, threads, 0, NULL), 0);
}

TEST(divergence)
{
    assert_int_equal(caught(divergent_barrier, 64, 1, "divergent barrier"), 20);
    always(divergent_warp, 32, "divergent warp");
    always(missing_lane, 32, "deadlock");
}

TEST(races)
{
    always(missing_barrier, 64, NULL);
    always(missing_warp_sync, 32, NULL);
    always(missing_wait, 32, NULL); /* NaN three times in four, else the old contents: also NaN */
}

TEST(addresses)
{
    always(misaligned, 32, "16-byte aligned");
    always(beyond_shared, 32, "beyond shared memory");
}

static int first_on_host(const float *in, float *out)
{
    static struct broken job; /* the bytes between its fields are zeros, too */
    job.in = in;
    job.out = out;
    return on_host(&job, sizeof job);
}

TEST(host_addresses)
{
    AUTO_BUFFERS;
    static float in[1];
    float out[1], *buffer = take(sizeof *buffer);
    assert_int_equal(first_on_host(buffer, out), 2);
    assert_int_equal(first_on_host(in, buffer), 1);
    assert_int_equal(first_on_host(buffer, buffer), -1);
}

TEST(limits)
{
    const struct broken job = {0};
    assert_non_null(misaligned(&(struct emu_launch){{1, 1, 1}, 48, 0, 0, 0}, &job));
    assert_non_null(misaligned(&(struct emu_launch){{1, 1, 1}, 64, 0, 0, 0}, &job));
    assert_non_null(misaligned(&(struct emu_launch){{1, 1, 1}, 32, 99 * 1024 + 1, 0, 0}, &job));
    assert_non_null(misaligned(&(struct emu_launch){{1, 65536, 1}, 32, 0, 0, 0}, &job));
}
