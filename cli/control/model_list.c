#include "cli/control/model_list.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"
#include "cli/options/model_settings.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "runtime/forward/plan.h"
#include "runtime/model/demo.h"
#include "runtime/session/conversations.h"

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
    static const enum model_state states[] = {[CONVERSATIONS_MODEL_SAME] = MODEL_SAME,
                                              [CONVERSATIONS_MODEL_TOUCHED] = MODEL_TOUCHED,
                                              [CONVERSATIONS_MODEL_MISSING] = MODEL_MISSING};
    struct model_row *r = add(ctx, m->path);
    snprintf(r->digest, sizeof r->digest, "%s", m->digest);
    r->size = m->size;
    r->packed_bytes = m->packed_bytes;
    r->state = states[m->state];
    return 0;
}

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name), n_tail = strlen(tail);
    return n >= n_tail && !strcmp(name + n - n_tail, tail);
}

/* Whether it is a part of a model, but not the first. */
static bool is_later_part(const char *name)
{
    int no = 0, count = 0;
    const char *tail = strstr(name, "-of-");
    return tail && tail - name >= 6 && sscanf(tail - 6, "-%5d-of-%5d.gguf", &no, &count) == 2 &&
           no > 1;
}

static void add_pulled(struct model_list *l, const char *path)
{
    struct file_identity id;
    if (file_identity_read(&id, path, NULL)) return;
    for (int i = 0; i < l->n; i++)
        if (l->rows[i].path && !strcmp(l->rows[i].path, id.path)) return;
    add(l, id.path)->size = id.size;
}

/* The models below the folder, as `retain pull` names them: OWNER/REPO/FILE.gguf. */
#define FOLDERS_DEEP 4

static void add_folder(struct model_list *l, const char *folder, int deep)
{
    struct str path = {0};
    DIR *d = opendir(folder);
    for (struct dirent *f; d && (f = readdir(d));) {
        struct stat st;
        if (f->d_name[0] == '.') continue;
        str_clear(&path);
        str_printf(&path, "%s/%s", folder, f->d_name);
        if (stat(str_get(&path), &st)) continue;
        if (S_ISDIR(st.st_mode) && deep < FOLDERS_DEEP)
            add_folder(l, str_get(&path), deep + 1);
        else if (S_ISREG(st.st_mode) && ends_in(f->d_name, ".gguf") && !is_later_part(f->d_name))
            add_pulled(l, str_get(&path));
    }
    if (d) closedir(d);
    str_release(&path);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void describe(struct model_row *r, struct model *m)
{
    struct gguf_str own;
    snprintf(r->name, sizeof r->name, "%s", m->name);
    snprintf(r->type, sizeof r->type, "%s", m->type);
    r->family = m->arch;
    r->template = gguf_get_str(m->file, "tokenizer.chat_template", &own) ? "own" : "none";
}

/* The plan for this machine's processor and its memory. */
static int make_plan(struct model_row *r, struct model *m, const struct options *o, struct err *e)
{
    struct plan p;
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n_threads = o->engine.threads ? o->engine.threads : n_cores > 0 ? (int)n_cores : 1;
    int rc = plan_make(&p, m, NULL, NULL, &o->session.plan, 1, n_threads, e);
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
    int budget;
    if (r->path) model_settings_read(r->path, &budget, &r->heads);
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

int model_list_read(struct model_list *out, const struct options *o, struct conversations *library,
                    struct err *e)
{
    struct str folder = {0};
    char *standard = o->engine.model ? realpath(o->engine.model, NULL) : NULL;
    *out = (struct model_list){0};
    add_demo(out);
    int rc = library
                 ? conversations_models(library, o->engine.weight_cache_dir, add_registered, out, e)
                 : 0;
    if (!path_models(&folder, NULL)) add_folder(out, str_get(&folder), 0);
    qsort(out->rows, (size_t)out->n, sizeof *out->rows, compare);
    for (int i = 0; i < out->n; i++) {
        struct model_row *r = &out->rows[i];
        r->standard = standard ? r->path && !strcmp(standard, r->path) : !r->path;
        read_facts(r, o);
    }
    free(standard);
    str_release(&folder);
    return rc;
}

void model_list_release(struct model_list *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->rows[i].path);
        free(l->rows[i].heads);
    }
    free(l->rows);
    *l = (struct model_list){0};
}
