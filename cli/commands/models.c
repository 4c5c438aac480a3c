/* The command on model files: retain models list|add|default|verify|unpack|remove. NAME is a path
 * or a short name (model_list.h). The default is the line `model = …` of the configuration file,
 * where every command and the user can find it. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/commands/commands.h"
#include "cli/control/model_list.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "runtime/forward/engine.h"
#include "runtime/model/weight_cache.h"
#include "runtime/save/conversations.h"

#define USAGE                                                                                    \
    "usage: retain models list | add PATH… | default [NAME|demo] | verify [NAME…] | unpack " \
    "[NAME…] | remove NAME…"

struct models {
    struct conversations *library;
    const struct options *options;
    char *standard; /* real path of the default model; NULL = the embedded demo */
    int64_t n;
    struct str paths; /* registered models, each with its NUL */
};

/* ---- list ------------------------------------------------------------------------------------ */

static void list_json(const struct model_row *r)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "path", r->path ? r->path : "demo");
    cJSON_AddNumberToObject(j, "size_bytes", (double)r->size);
    cJSON_AddNumberToObject(j, "packed_bytes", (double)r->packed_bytes);
    cJSON_AddStringToObject(j, "digest", r->digest);
    cJSON_AddStringToObject(j, "state", model_state_name(r->state));
    cJSON_AddBoolToObject(j, "default", r->standard);
    cJSON_AddStringToObject(j, "name", r->name);
    cJSON_AddStringToObject(j, "family", r->family);
    cJSON_AddStringToObject(j, "type", r->type);
    cJSON_AddStringToObject(j, "template", r->template);
    cJSON_AddNumberToObject(j, "budget", r->budget);
    cJSON_AddNumberToObject(j, "plan_bytes", (double)r->plan_bytes);
    cJSON_AddStringToObject(j, "problem", r->problem);
    report_json(j);
}

static void list_line(const struct model_row *r)
{
    char size[NUM_MAX], budget[NUM_MAX] = "-";
    if (r->budget) num_exact(r->budget, budget);
    report_line("%c %-30s  %9s  %-7s  %-8s  %7s%s%s", r->standard ? '*' : ' ', r->name,
                num_bytes(r->size, size), *r->family ? r->type : "-", *r->family ? r->family : "-",
                budget, r->state == MODEL_SAME ? "" : "  ",
                r->state == MODEL_SAME ? "" : model_state_name(r->state));
}

static int list(struct models *k, struct err *e)
{
    struct model_list l;
    int rc = model_list_read(&l, k->options, k->library, e);
    if (!rc && !k->options->json)
        report_line("  %-30s  %9s  %-7s  %-8s  %7s", "NAME", "SIZE", "TYPE", "FAMILY", "UNITS");
    for (int i = 0; i < l.n && !rc; i++) (k->options->json ? list_json : list_line)(&l.rows[i]);
    for (int i = 0; i < l.n && !rc && !k->options->json; i++)
        if (*l.rows[i].problem) report_note("%s", l.rows[i].problem);
    if (!rc && !k->options->json)
        report_note("UNITS: per head, that fit into this machine's memory now; * is the default; "
                    "--json adds paths and digests");
    model_list_release(&l);
    return rc;
}

/* ---- add, verify ----------------------------------------------------------------------------- */

/* Opens a model like every command, which registers it and refuses one that changed. */
static int check(struct models *k, const char *path, enum identity_verify verify, struct err *e)
{
    struct engine_opts o = k->options->engine;
    struct engine *g;
    o.model = path;
    o.heads = (struct engine_heads){.none = true};
    o.verify = verify;
    o.registry = conversations_registry(k->library);
    int rc = engine_prepare(&g, &o, e);
    if (rc) return rc;
    report_line("%s  %s", g->model_digest, path);
    if (verify == IDENTITY_VERIFY_FULL && engine_check_copy(g, &o) == ENGINE_COPY_REMOVED)
        report_note("%s: its packed copy did not match the file and was removed", path);
    engine_close(g);
    return 0;
}

static int check_all(struct models *k, const char *const *paths, int n, enum identity_verify verify,
                     struct err *e)
{
    int worst = 0;
    for (int i = 0; i < n; i++) {
        struct err one = {0};
        if (!check(k, paths[i], verify, &one)) continue;
        if (worst) report_error(e); /* the caller prints the last error */
        *e = one;
        worst = one.code;
    }
    return worst;
}

static int keep_path(void *ctx, const struct conversations_model *m)
{
    struct models *k = ctx;
    str_append(&k->paths, m->path, strlen(m->path) + 1);
    k->n++;
    return 0;
}

static int verify_registered(struct models *k, struct err *e)
{
    int rc = conversations_models(k->library, NULL, keep_path, k, e);
    if (rc || k->n == 0) {
        if (!rc) report_note("no model file was used yet");
        return rc;
    }
    const char **paths = memory_new((size_t)k->n, sizeof *paths);
    const char *at = str_get(&k->paths);
    for (int64_t i = 0; i < k->n; i++, at += strlen(at) + 1) paths[i] = at;
    rc = check_all(k, paths, (int)k->n, IDENTITY_VERIFY_FULL, e);
    free(paths);
    return rc;
}

/* ---- unpack ---------------------------------------------------------------------------------- */

struct unpack {
    char *const *paths; /* [n] absolute */
    int n;              /* 0 = all */
};

static int unpack_one(void *ctx, const struct weight_cache *p)
{
    const struct unpack *u = ctx;
    bool wanted = u->n == 0;
    for (int i = 0; i < u->n; i++) wanted |= !strcmp(u->paths[i], p->model.path);
    if (!wanted) return 0;
    weight_cache_remove(p);
    report_line("%s", p->path);
    return 0;
}

/* Removes the copies of these models, or all; also of models that no longer exist. */
static int unpack(struct models *k, const char *const *paths, int n)
{
    char *real[sizeof k->options->args / sizeof *k->options->args];
    for (int i = 0; i < n; i++) {
        real[i] = realpath(paths[i], NULL);
        if (!real[i]) real[i] = memory_copy(paths[i]);
    }
    struct unpack u = {real, n};
    const char *dir = k->options->engine.weight_cache_dir;
    if (dir) weight_cache_list(dir, unpack_one, &u);
    for (int i = 0; i < n; i++) free(real[i]);
    return 0;
}

/* ---- default --------------------------------------------------------------------------------- */

static bool is_model_line(const char *line)
{
    line += strspn(line, " \t");
    if (strncmp(line, "model", 5)) return false;
    line += 5;
    return line[strspn(line, " \t")] == '=';
}

/* Replaces the `model` lines of the text by a new one, in the place of the first. */
static void replace_model(const char *text, const char *path, struct str *out)
{
    bool done = !path;
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (!is_model_line(text)) {
            str_append(out, text, n);
            str_puts(out, "\n");
        } else if (!done) {
            str_printf(out, "model = \"%s\"\n", path);
            done = true;
        }
        text += n + (text[n] == '\n');
    }
    if (!done) str_printf(out, "model = \"%s\"\n", path);
}

/* Writes to a temporary file first, so that the file is never incomplete. */
static int write_config(const char *path, const struct str *text, struct err *e)
{
    struct str beside = {0};
    str_printf(&beside, "%s.new", path);
    unlink(str_get(&beside)); /* of a program that was killed */
    int rc = file_make(str_get(&beside), str_get(text), text->n, e);
    if (!rc && rename(str_get(&beside), path)) {
        rc = err_set(e, ERR_FAIL, "cannot write %s: %s", path, strerror(errno));
        unlink(str_get(&beside));
    }
    str_release(&beside);
    return rc;
}

static int set_default(struct models *k, const char *path, struct err *e)
{
    struct str file = {0}, old = {0}, new = {0};
    char *real = NULL;
    int rc = 0;
    if (*path) {
        rc = check(k, path, k->options->engine.verify, e);
        real = rc ? NULL : realpath(path, NULL);
        if (real && strpbrk(real, "\"\n"))
            rc = err_set(e, ERR_USAGE,
                         "%s: a path with a quote or a line end cannot be the default", real);
    }
    if (!rc) rc = path_make(PATH_CONFIG, "config", &file, e);
    if (!rc && access(str_get(&file), F_OK) == 0)
        rc = file_read(str_get(&file), FILE_SETTINGS, &old, e);
    if (!rc) {
        replace_model(str_get(&old), real, &new);
        rc = write_config(str_get(&file), &new, e);
    }
    free(real);
    str_release(&file);
    str_release(&old);
    str_release(&new);
    return rc;
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* The file of a pulled model, or all of its parts, and their records. */
static int remove_files(const char *path, struct err *e)
{
    struct str name = {0};
    int rc = 0, n = 0;
    for (int i = 0; !rc && i < file_parts(path); i++) {
        file_part_path(&name, path, i);
        if (access(str_get(&name), F_OK)) break;
        if (unlink(str_get(&name)))
            rc = err_set(e, ERR_FAIL, "cannot remove %s: %s", str_get(&name), strerror(errno));
        str_puts(&name, ".pull");
        unlink(str_get(&name));
        n++;
    }
    str_release(&name);
    return rc ? rc : n ? 0 : err_set(e, ERR_FAIL, "%s is not here", path);
}

static bool is_pulled(const char *path)
{
    struct str folder = {0};
    char *real =
        path_find(PATH_DATA, "models", &folder, NULL) ? NULL : realpath(str_get(&folder), NULL);
    size_t n = real ? strlen(real) : 0;
    bool inside = n && !strncmp(path, real, n) && path[n] == '/';
    free(real);
    str_release(&folder);
    return inside;
}

/* Deletes what `retain pull` downloaded; another file is only forgotten, with its packed copy. */
static int remove_one(struct models *k, const char *path, struct err *e)
{
    int rc = 0;
    if (!*path) return err_set(e, ERR_USAGE, "the demo model is part of the program");
    char *real = realpath(path, NULL);
    const char *file = real ? real : path;
    bool pulled = is_pulled(file);
    if (k->standard && !strcmp(file, k->standard)) rc = set_default(k, "", e);
    if (!rc) rc = unpack(k, &file, 1);
    if (!rc && pulled) rc = remove_files(file, e);
    if (!rc) rc = conversations_forget_model(k->library, file, e);
    if (!rc && pulled) report_line("%s", file);
    if (!rc && !pulled) report_note("%s is no longer listed; the file stays", file);
    free(real);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int on_models(struct models *k, const char *what, char *const *paths, int n, struct err *e)
{
    const char *const *files = (const char *const *)paths;
    int rc = 0;
    if (!strcmp(what, "list") && n == 0) return list(k, e);
    if (!strcmp(what, "add") && n > 0) return check_all(k, files, n, k->options->engine.verify, e);
    if (!strcmp(what, "unpack")) return unpack(k, files, n);
    if (!strcmp(what, "verify"))
        return n ? check_all(k, files, n, IDENTITY_VERIFY_FULL, e) : verify_registered(k, e);
    if (!strcmp(what, "default") && n == 1) return set_default(k, paths[0], e);
    if (!strcmp(what, "default") && n == 0)
        report_line("%s", k->standard ? k->standard : "demo");
    else if (!strcmp(what, "remove") && n > 0)
        for (int i = 0; i < n && !rc; i++) rc = remove_one(k, paths[i], e);
    else
        rc = err_set(e, ERR_USAGE, USAGE);
    return rc;
}

/* With the arguments' names replaced by paths. */
static int run(struct models *k, struct err *e)
{
    const struct options *o = k->options;
    const char *what = o->n_args ? o->args[0] : "list";
    char *paths[sizeof o->args / sizeof *o->args] = {0};
    int rc = 0, n = o->n_args > 1 ? o->n_args - 1 : 0;
    for (int i = 0; i < n && !rc; i++) {
        struct str path = {0};
        const char *name = o->args[i + 1];
        if (model_is_path(name))
            str_puts(&path, name);
        else
            rc = model_find(o, k->library, name, &path, e);
        paths[i] = memory_copy(str_get(&path));
        str_release(&path);
    }
    if (!rc) rc = on_models(k, what, paths, n, e);
    for (int i = 0; i < n; i++) free(paths[i]);
    return rc;
}

int cmd_models(const struct options *o)
{
    struct models k = {.options = o};
    struct str path = {0};
    struct err e = {0};
    if (o->engine.model) k.standard = realpath(o->engine.model, NULL);
    int rc = path_database(o, &path, &e);
    /* opens it, so that it is registered */
    bool checks = o->n_args > 1 && strcmp(o->args[0], "unpack") != 0;
    if (!rc)
        rc =
            (checks ? secret_open_library : secret_open_reading)(&k.library, o, str_get(&path), &e);
    if (!rc) rc = run(&k, &e);
    conversations_close(k.library);
    free(k.standard);
    str_release(&path);
    str_release(&k.paths);
    return rc ? report_error(&e) : 0;
}
