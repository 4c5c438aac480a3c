#include "base/system.h"

#include <glob.h>
#include <stdio.h>

/* The name of the mode that is set, "pmode:0002": "< POWER_MODEL ID=2 NAME=MODE_30W >". */
static bool mode_name(const char *root, char out[32])
{
    char path[300], line[200];
    bool found = false;
    int id;
    snprintf(path, sizeof path, "%s/var/lib/nvpmodel/status", root);
    const int64_t number = system_number(path, "pmode:");
    snprintf(path, sizeof path, "%s/etc/nvpmodel.conf", root);
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "< POWER_MODEL ID=%d NAME=%31s", &id, out) == 2 && id == number;
    if (f) fclose(f);
    return found;
}

static bool read_hertz(const char *folder, const char *name, int64_t *out)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return (*out = system_number(path, "")) >= 0;
}

/* The devices are called 17000000.gpu, 17000000.ga10b or gpu-gpc-0. */
static bool gpu_clock(const char *root, int64_t *now, int64_t *most)
{
    static const char *const names[] = {"*.gpu", "*.ga10b", "gpu-gpc-*"};
    bool found = false;
    for (int i = 0; i < 3 && !found; i++) {
        char pattern[300];
        glob_t g;
        snprintf(pattern, sizeof pattern, "%s/sys/class/devfreq/%s", root, names[i]);
        if (glob(pattern, 0, NULL, &g)) continue;
        found = read_hertz(g.gl_pathv[0], "cur_freq", now) &&
                read_hertz(g.gl_pathv[0], "max_freq", most);
        globfree(&g);
    }
    return found;
}

bool board_describe(const char *root, char *out, size_t bytes)
{
    char mode[32] = "";
    int64_t now, most;
    const bool has_mode = mode_name(root, mode);
    const bool has_clock = gpu_clock(root, &now, &most);
    int n = has_mode ? snprintf(out, bytes, "mode %s", mode) : 0;
    if (has_clock)
        snprintf(out + n, bytes - (size_t)n, "%sGPU at %lld of %lld MHz", has_mode ? ", " : "",
                 (long long)now / 1000000, (long long)most / 1000000);
    return has_mode || has_clock;
}
