#include "cli/options/paths.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/options/options.h"
#include "cli/print/report.h"

static const struct {
    const char *variable, *below_home;
} folders[] = {[PATH_CONFIG] = {"XDG_CONFIG_HOME", ".config"},
               [PATH_DATA] = {"XDG_DATA_HOME", ".local/share"},
               [PATH_STATE] = {"XDG_STATE_HOME", ".local/state"},
               [PATH_CACHE] = {"XDG_CACHE_HOME", ".cache"}};

int path_find(enum path_folder folder, const char *name, struct str *out, struct err *e)
{
    const char *base = getenv(folders[folder].variable), *home = getenv("HOME");
    str_clear(out);
    if (base && base[0] == '/') {
        str_puts(out, base);
    } else {
        if (!home || home[0] != '/')
            return err_set(e, ERR_FAIL, "neither $%s nor $HOME is an absolute path",
                           folders[folder].variable);
        str_printf(out, "%s/%s", home, folders[folder].below_home);
    }
    str_printf(out, "/retain/%s", name);
    return 0;
}

int path_make(enum path_folder folder, const char *name, struct str *out, struct err *e)
{
    int rc = path_find(folder, name, out, e);
    return rc ? rc : file_make_folders(out->data, e);
}

int path_database(const struct options *o, struct str *out, struct err *e)
{
    struct err why;
    if (o->store.db) {
        str_clear(out);
        str_puts(out, o->store.db);
        return 0;
    }
    int rc = path_find(PATH_DATA, "retain.db", out, &why);
    return rc ? err_set(e, rc,
                        "%s; choose another file with --db FILE, or save nothing with --private",
                        why.text)
              : 0;
}

#define FOLDERS_DEEP 5 /* OWNER/REPO/FOLDER/FOLDER/FILE */

static void walk(const char *folder, int deep,
                 void (*each)(void *ctx, const char *path, int64_t size), void *ctx)
{
    struct str path = {0};
    struct stat st;
    DIR *d = opendir(folder);
    for (struct dirent *f; d && (f = readdir(d));) {
        if (f->d_name[0] == '.') continue;
        str_clear(&path);
        str_printf(&path, "%s/%s", folder, f->d_name);
        if (stat(str_get(&path), &st)) continue;
        if (S_ISDIR(st.st_mode) && deep < FOLDERS_DEEP)
            walk(str_get(&path), deep + 1, each, ctx);
        else if (S_ISREG(st.st_mode))
            each(ctx, str_get(&path), st.st_size);
    }
    if (d) closedir(d);
    str_release(&path);
}

void path_walk(const char *folder, void (*each)(void *ctx, const char *path, int64_t size),
               void *ctx)
{
    walk(folder, 1, each, ctx);
}

void paths_print(const struct options *o)
{
    static const struct {
        const char *what;
        enum path_folder folder;
        const char *name;
    } files[] = {
        {"config", PATH_CONFIG, "config"}, {"database", PATH_DATA, "retain.db"},
        {"models", PATH_DATA, "models"},   {"history", PATH_STATE, "history"},
        {"cache", PATH_CACHE, "packed"},
    };
    struct str path = {0};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct err e;
        int rc = path_find(files[i].folder, files[i].name, &path, &e);
        bool given = o->store.db && !strcmp(files[i].name, "retain.db");
        report_line("%-8s %s", files[i].what, given ? o->store.db : rc ? e.text : str_get(&path));
    }
    str_release(&path);
}
