#include "cli/control/model_list.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/pull/address.h"
#include "cli/pull/pull.h"
#include "runtime/forward/plan.h"
#include "runtime/model/demo.h"

const char *model_state_name(enum model_state s)
{
    static const char *const names[] = {[MODEL_NEW] = "new",
                                        [MODEL_SAME] = "same",
                                        [MODEL_TOUCHED] = "touched",
                                        [MODEL_MISSING] = "missing"};
    return names[s];
}

static struct model_row *add(struct model_list *l, const char *path)
{
    l->rows = memory_grow(l->rows, (size_t)l->n + 1, sizeof *l->rows);
    struct model_row *r = &l->rows[l->n++];
    *r = (struct model_row){.path = path ? strdup(path) : NULL, .template = "none"};
    return r;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int add_registered(void *ctx, const struct conversations_model *m)
{
    struct model_row *r = add(ctx, m->path);
    snprintf(r->digest, sizeof r->digest, "%s", m->digest);
    r->size = m->size;
    r->packed_bytes = m->packed_bytes;
    r->state = m->state;
    return 0;
}

/* A file below the folder of `retain pull`. */
static void add_pulled(void *ctx, const char *path, int64_t size)
{
    struct model_list *l = ctx;
    struct file_identity id;
    (void)size; /* of one part */
    if (!str_ends(path, ".gguf") || file_part_number(path) > 1) return;
    if (file_identity_read(&id, path, NULL)) return;
    for (int i = 0; i < l->n; i++)
        if (l->rows[i].path && !strcmp(l->rows[i].path, id.path)) return;
    add(l, id.path)->size = id.size;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void describe(struct model_row *r, struct model *m)
{
    struct gguf_str own;
    snprintf(r->type, sizeof r->type, "%s", m->type);
    snprintf(r->family, sizeof r->family, "%s", m->arch);
    r->template = gguf_get_str(m->file, "tokenizer.chat_template", &own) ? "own" : "none";
}

/* The plan for this machine's processor and its memory. */
static int make_plan(struct model_row *r, struct model *m, const struct options *o, struct err *e)
{
    struct plan p;
    int rc = plan_make(&p, m, NULL, NULL, &o->session.plan, 1, pool_threads(o->engine.threads), e);
    if (rc) return rc;
    r->budget = p.budget;
    r->plan_bytes = (int64_t)plan_total_bytes(&p);
    return 0;
}

static void read_facts(struct model_row *r, const struct options *o)
{
    struct gguf *file;
    struct model *m = NULL;
    struct err e = {0};
    if (r->state == MODEL_MISSING) {
        snprintf(r->problem, sizeof r->problem, "%s no longer exists", r->path);
        return;
    }
    int rc = r->path ? gguf_open(&file, r->path, &e)
                     : gguf_open_bytes(&file, demo_model, (size_t)(demo_model_end - demo_model),
                                       DEMO_MODEL_NAME, &e);
    if (!rc) rc = model_open(&m, file, o->engine.weights == ENGINE_WEIGHTS_F32, &e);
    if (!rc) {
        describe(r, m);
        rc = make_plan(r, m, o, &e);
    }
    if (rc) snprintf(r->problem, sizeof r->problem, "%.255s", e.text);
    model_close(m);
}

/* ---- the list -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct model_row *l = a, *r = b;
    if (!l->path || !r->path) return (l->path != NULL) - (r->path != NULL);
    return strcmp(l->path, r->path);
}

static void add_demo(struct model_list *l)
{
    struct model_row *r = add(l, NULL);
    r->size = demo_model_end - demo_model;
    r->state = MODEL_SAME;
}

/* folder: of pulled models. */
static void set_name(struct model_list *l, struct model_row *r, const struct str *folder)
{
    char other[sizeof r->name];
    const size_t n = folder->n;
    snprintf(r->name, sizeof r->name, DEMO_MODEL_SHORT);
    if (!r->path) return;
    model_stem(r->path, r->name, sizeof r->name);
    if (!n || strncmp(r->path, str_get(folder), n) != 0 || r->path[n] != '/') return;
    for (int i = 0; i < l->n; i++) {
        if (&l->rows[i] == r || !l->rows[i].path) continue;
        model_stem(l->rows[i].path, other, sizeof other);
        if (strcmp(other, r->name) != 0) continue;
        const char *file = strrchr(r->path, '/');
        snprintf(r->name, sizeof r->name, "%.*s:%s", (int)(file - r->path - (ptrdiff_t)n - 1),
                 r->path + n + 1, file + 1);
        return;
    }
}

int model_list_rows(struct model_list *out, const struct options *o, struct conversations *library,
                    struct err *e)
{
    struct str folder = {0};
    *out = (struct model_list){0};
    add_demo(out);
    int rc = library
                 ? conversations_models(library, o->engine.weight_cache_dir, add_registered, out, e)
                 : 0;
    if (!path_find(PATH_DATA, "models", &folder, NULL))
        path_walk(str_get(&folder), add_pulled, out);
    qsort(out->rows, (size_t)out->n, sizeof *out->rows, compare);
    for (int i = 0; i < out->n; i++) set_name(out, &out->rows[i], &folder);
    str_release(&folder);
    return rc;
}

int model_list_read(struct model_list *out, const struct options *o, struct conversations *library,
                    struct err *e)
{
    char *standard = o->engine.model ? realpath(o->engine.model, NULL) : NULL;
    int rc = model_list_rows(out, o, library, e);
    for (int i = 0; i < out->n; i++) {
        struct model_row *r = &out->rows[i];
        r->standard = standard ? r->path && !strcmp(standard, r->path) : !r->path;
        read_facts(r, o);
    }
    free(standard);
    return rc;
}

void model_list_release(struct model_list *l)
{
    for (int i = 0; i < l->n; i++) free(l->rows[i].path);
    free(l->rows);
    *l = (struct model_list){0};
}

/* ---- by name --------------------------------------------------------------------------------- */

/* 3: it is this one; 2: its name, but for case; 1: it begins so; 0: another one. */
static int fits(const struct model_row *r, const char *name)
{
    const char *file = r->path ? strrchr(r->path, '/') : NULL;
    if ((r->path && !strcmp(r->path, name)) || !strcmp(r->name, name)) return 3;
    if (!strcasecmp(r->name, name) || (file && !strcasecmp(file + 1, name))) return 2;
    return !strncasecmp(r->name, name, strlen(name));
}

static int several(const struct model_list *l, const char *name, int best, struct err *e)
{
    struct str names = {0};
    for (int i = 0; i < l->n; i++)
        if (fits(&l->rows[i], name) >= best)
            str_printf(&names, "%s%s", names.n ? ", " : "", l->rows[i].name);
    int rc =
        best ? err_set(e, ERR_USAGE, "%s is the beginning of several: %s", name, str_get(&names))
             : err_set(e, ERR_USAGE,
                       "there is no model %s; known are: %s; retain pull ADDRESS downloads one",
                       name, str_get(&names));
    str_release(&names);
    return rc;
}

int model_find(const struct options *o, struct conversations *library, const char *name,
               struct str *out, struct err *e)
{
    struct model_list l;
    struct str address = {0};
    const struct model_row *found = NULL;
    int rc = model_list_rows(&l, o, library, e), best = 0, n = 0;
    for (int i = 0; !rc && i < l.n; i++) {
        int fit = l.rows[i].state == MODEL_MISSING ? 0 : fits(&l.rows[i], name);
        if (fit > best) n = 0;
        if (fit >= best && fit) found = &l.rows[i];
        n += fit >= best && fit;
        if (fit > best) best = fit;
    }
    str_printf(&address, "hf:%s", name);
    if (!rc && n == 1)
        str_puts(out, found->path ? found->path : "");
    else if (!rc && access(name, R_OK) == 0)
        str_puts(out, name);
    else if (!rc && !pull_find(address_is(name) ? name : str_get(&address), out))
        rc = several(&l, name, best, e);
    model_list_release(&l);
    str_release(&address);
    return rc;
}

void model_newest(const struct options *o, struct str *name)
{
    struct model_list l;
    struct stat st;
    int64_t newest = 0;
    if (model_list_rows(&l, o, NULL, NULL)) l.n = 0;
    for (int i = 0; i < l.n; i++) {
        if (!l.rows[i].path || stat(l.rows[i].path, &st)) continue;
        int64_t ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        if (ns <= newest) continue;
        newest = ns;
        str_clear(name);
        str_puts(name, l.rows[i].name);
    }
    model_list_release(&l);
}

bool model_is_path(const char *name)
{
    if (address_is(name)) return false;
    return access(name, F_OK) == 0 || *name == '.' || (strchr(name, '/') && !strchr(name, ':'));
}

int model_named(const struct options *o, const char **model, struct str *path, struct err *e)
{
    const char *name = *model;
    struct conversations *l = NULL;
    struct str database = {0};
    bool fresh;
    if (!name || model_is_path(name)) return 0;
    int rc = path_database(o, &database, e);
    /* an encrypted one would ask for its passphrase */
    if (!rc && !conversations_is_missing(str_get(&database)) &&
        !store_probe(str_get(&database), &fresh))
        rc = conversations_open(&l, str_get(&database), NULL, e);
    if (!rc) rc = model_find(o, l, name, path, e);
    if (!rc) *model = path->n ? str_get(path) : NULL;
    conversations_close(l);
    str_release(&database);
    return rc;
}
