/* Limits of memory, from stand-ins of /proc/self/cgroup and /sys/fs/cgroup. */
#include "tests/test.h"

#include <sys/stat.h>

#include "base/system.h"

static char root[] = "/tmp/retain-groups-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static struct system_group of(const char *groups)
{
    char path[256];
    put("groups", groups);
    snprintf(path, sizeof path, "%s/groups", root);
    return system_group_read(path, root);
}

TEST(limits)
{
    struct system_group g;
    assert_non_null(mkdtemp(root));
    folder("memory");
    folder("memory/a");
    folder("memory/a/b");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("memory/a/memory.limit_in_bytes", "700\n");
    put("memory/a/memory.usage_in_bytes", "600\n");
    put("memory/a/memory.stat", "cache 0\ntotal_inactive_file 120\ntotal_active_file 30\n");
    put("memory/a/b/memory.limit_in_bytes", "900\n");
    put("memory/a/b/memory.usage_in_bytes", "10\n");
    g = of("5:cpu:/a\n4:memory:/a/b\n");
    assert_true(g.limit_bytes == 700 && g.left_bytes == 250);
    g = of("4:memory:/\n");
    assert_true(g.limit_bytes == -1 && g.left_bytes == -1);
    g = of("4:memory:/of/the/host\n");
    assert_true(g.limit_bytes == -1);
    folder("u");
    put("u/memory.max", "500\n");
    put("u/memory.current", "800\n");
    put("memory.max", "max\n");
    g = of("0::/u\n");
    assert_true(g.limit_bytes == 500 && g.left_bytes == 0);
    put("memory.max", "400\n");
    put("memory.current", "100\n");
    g = of("0::/u\n");
    assert_true(g.limit_bytes == 400 && g.left_bytes == 0);
    assert_true(g.n_cpus == -1);
    put("u/cpu.max", "max 100000\n");
    put("cpu.max", "150000 100000\n");
    assert_true(of("0::/u\n").n_cpus == 2);
    folder("cpu");
    folder("cpu/a");
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("cpu/a/cpu.cfs_quota_us", "300000\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    g = of("5:cpu,cpuacct:/a\n4:memory:/a\n");
    assert_true(g.n_cpus == 3 && g.limit_bytes == 700);
    char remove[64];
    snprintf(remove, sizeof remove, "rm -r %s", root);
    assert_int_equal(system(remove), 0);
}
