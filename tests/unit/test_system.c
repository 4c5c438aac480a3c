/* Limits of memory, from stand-ins of /proc/self/cgroup and /sys/fs/cgroup. */
#include "tests/test.h"

#include "base/system.h"

static const char *root;

static void put(const char *name, const char *text)
{
    write_text(path_in(root, name), text);
}

static struct system_group of(const char *groups)
{
    return system_group_read(write_text(path_in(root, "groups"), groups), root);
}

TEST(limits)
{
    struct system_group g;
    root = folder_new();
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
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("cpu/a/cpu.cfs_quota_us", "300000\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    g = of("5:cpu,cpuacct:/a\n4:memory:/a\n");
    assert_true(g.n_cpus == 3 && g.limit_bytes == 700);
}
