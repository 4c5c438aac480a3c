#include "cli/options/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/options/options.h"
#include "cli/print/report.h"

int path_make_folders(char *path, struct err *e)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        if (failed) err_set(e, ERR_FAIL, "cannot make folder %s: %s", path, strerror(errno));
        *slash = '/';
        if (failed) return ERR_FAIL;
    }
    return 0;
}

/* Creates no folder. */
static int path_below(const char *variable, const char *below_home, const char *name,
                      struct str *out, struct err *e)
{
    const char *base = getenv(variable);
    const char *home = getenv("HOME");
    str_clear(out);
    if (base && base[0] == '/') {
        str_puts(out, base);
    } else {
        if (!home || home[0] != '/')
            return err_set(e, ERR_FAIL, "neither $%s nor $HOME is an absolute path", variable);
        str_printf(out, "%s/%s", home, below_home);
    }
    str_printf(out, "/retain/%s", name);
    return 0;
}

static int path_in(const char *variable, const char *below_home, const char *name, struct str *out,
                   struct err *e)
{
    int rc = path_below(variable, below_home, name, out, e);
    return rc ? rc : path_make_folders(out->data, e);
}

int path_database(const struct options *o, struct str *out, struct err *e)
{
    struct err why;
    if (o->store.db) {
        str_clear(out);
        str_puts(out, o->store.db);
        return 0;
    }
    int rc = path_below("XDG_DATA_HOME", ".local/share", "retain.db", out, &why);
    return rc ? err_set(e, rc,
                        "%s; choose another file with --db FILE, or save nothing with --private",
                        why.text)
              : 0;
}

int path_config_find(struct str *out, struct err *e)
{
    return path_below("XDG_CONFIG_HOME", ".config", "config", out, e);
}

int path_config(struct str *out, struct err *e)
{
    return path_in("XDG_CONFIG_HOME", ".config", "config", out, e);
}

int path_model_settings(const char *name, struct str *out, struct err *e)
{
    int rc = path_below("XDG_CONFIG_HOME", ".config", "models/", out, e);
    if (!rc) str_printf(out, "%s.conf", name);
    return rc;
}

int path_state(const char *name, struct str *out, struct err *e)
{
    return path_in("XDG_STATE_HOME", ".local/state", name, out, e);
}

int path_state_find(const char *name, struct str *out, struct err *e)
{
    return path_below("XDG_STATE_HOME", ".local/state", name, out, e);
}

int path_packed(struct str *out, struct err *e)
{
    return path_below("XDG_CACHE_HOME", ".cache", "packed", out, e);
}

int path_models(struct str *out, struct err *e)
{
    return path_below("XDG_DATA_HOME", ".local/share", "models", out, e);
}

void paths_print(const struct options *o)
{
    static const struct {
        const char *what, *variable, *below_home, *name;
    } files[] = {
        {"config", "XDG_CONFIG_HOME", ".config", "config"},
        {"database", "XDG_DATA_HOME", ".local/share", "retain.db"},
        {"models", "XDG_DATA_HOME", ".local/share", "models"},
        {"history", "XDG_STATE_HOME", ".local/state", "history"},
        {"cache", "XDG_CACHE_HOME", ".cache", "packed"},
    };
    struct str path = {0};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct err e;
        int rc = path_below(files[i].variable, files[i].below_home, files[i].name, &path, &e);
        bool given = o->store.db && !strcmp(files[i].name, "retain.db");
        report_line("%-8s %s", files[i].what, given ? o->store.db : rc ? e.text : str_get(&path));
    }
    str_release(&path);
}
