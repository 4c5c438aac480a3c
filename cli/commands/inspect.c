/* Commands that show facts about a model or the machine without running a model: plan, info,
 * verify. */
#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "base/system.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/engine.h"
#include "runtime/forward/plan.h"

/* ---- plan ------------------------------------------------------------------------------------ */

/* On disk, outside the plan. */
static int64_t archive_bytes(const struct plan *p, const struct recall_opts *o)
{
    if (o->chooser == RECALL_OFF || p->policy->scorer == POLICY_KEEP_ALL) return 0;
    return o->archive_bytes ? o->archive_bytes : RECALL_DISK_BYTES;
}

/* In memory, in addition to the plan's total: at most, of an archive that is full. */
static size_t index_bytes(const struct plan *p, const struct model *m, const struct recall_opts *o)
{
    const struct cache_shape shape = plan_shape(p, m);
    const struct archive_opts archive = {
        .bytes = archive_bytes(p, o),
        .n_text = RECALL_TEXT,
        .n_returning = RECALL_MAX * RECALL_SPAN,
        .n_vocab = m->n_vocab,
        .compare.n_embd = m->n_embd,
    };
    return archive.bytes ? archive_index_bytes(&archive, &shape) : 0;
}

/* That a full archive holds. */
static int64_t archive_tokens(const struct plan *p, const struct model *m,
                              const struct recall_opts *o)
{
    const struct cache_shape shape = plan_shape(p, m);
    return archive_bytes(p, o) / (int64_t)archive_position_bytes(&shape);
}

static void plan_json(const struct plan *p, const struct model *m, const struct recall_opts *recall)
{
    char kv[16];
    plan_kv_text(p, kv);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", m->name);
    cJSON_AddStringToObject(o, "policy", p->policy->name);
    cJSON_AddStringToObject(o, "kv", kv);
    cJSON_AddNumberToObject(o, "budget", p->budget);
    cJSON_AddNumberToObject(o, "capacity", p->capacity);
    cJSON_AddNumberToObject(o, "chunk", p->chunk);
    cJSON_AddNumberToObject(o, "unit_bytes", (double)p->unit_bytes);
    cJSON_AddNumberToObject(o, "weights_bytes", (double)p->weights_bytes);
    cJSON_AddNumberToObject(o, "heads_bytes", (double)p->heads_bytes);
    cJSON_AddNumberToObject(o, "cache_bytes", (double)p->cache_bytes);
    cJSON_AddNumberToObject(o, "windows_bytes", (double)p->windows_bytes);
    cJSON_AddNumberToObject(o, "state_bytes", (double)p->state_bytes);
    cJSON_AddNumberToObject(o, "scratch_bytes", (double)p->scratch_bytes);
    cJSON_AddNumberToObject(o, "total_bytes", (double)plan_total_bytes(p));
    cJSON_AddNumberToObject(o, "host_bytes", (double)p->host_bytes);
    cJSON_AddNumberToObject(o, "mapped_bytes", (double)p->mapped_bytes);
    cJSON_AddNumberToObject(o, "archive_bytes", (double)archive_bytes(p, recall));
    cJSON_AddNumberToObject(o, "archive_tokens", (double)archive_tokens(p, m, recall));
    cJSON_AddNumberToObject(o, "index_bytes", (double)index_bytes(p, m, recall));
    report_json(o);
}

static void plan_line(const char *tag, size_t bytes, const char *what)
{
    report_line("%-8s %10.1f MiB  %s", tag, (double)bytes / (1 << 20), what);
}

static void plan_text(const struct plan *p, const struct model *m, const struct recall_opts *recall)
{
    char kv[16], what[256], number[NUM_MAX], slots[64] = "the context";
    if (p->capacity == p->budget + p->chunk + p->reserve)
        snprintf(slots, sizeof slots, "budget + chunk %d + reserve %d", p->chunk, p->reserve);
    plan_kv_text(p, kv);
    report_line("%s, policy %s, %d units per head", m->name, p->policy->name, p->budget);
    snprintf(what, sizeof what, "%s, %d layers", m->type, m->n_layer);
    plan_line("weights", p->weights_bytes, what);
    plan_line("heads", p->heads_bytes, p->heads_bytes ? "retaining heads" : "none");
    snprintf(what, sizeof what, "%d layers x %d KV heads x %d slots (%s) x %zu bytes, %s",
             m->n_kv_layer, m->n_kv_head, p->capacity, slots, p->unit_bytes, kv);
    plan_line("cache", p->cache_bytes - p->windows_bytes, what);
    if (p->windows_bytes) {
        snprintf(what, sizeof what, "%d layers x %d KV heads, the newest %d units, never evicted",
                 m->windowed.n_layer, m->windowed.n_kv_head, m->windowed.n_units);
        plan_line("windows", p->windows_bytes, what);
    }
    if (p->state_bytes) {
        snprintf(what, sizeof what, "%d recurrent layers, for a conversation of any length",
                 m->recurrent.n_layer);
        plan_line("state", p->state_bytes, what);
    }
    plan_line("scratch", p->scratch_bytes, "activations, rotary table, logits");
    plan_line("total", plan_total_bytes(p), "taken when a conversation opens; it does not grow");
    if (p->device_bytes) {
        snprintf(what, sizeof what, "of the GPU's memory, for the first %d of %d layers",
                 p->device_layers, m->n_layer);
        plan_line("GPU", p->device_bytes, what);
    }
    if (p->host_layers) {
        snprintf(what, sizeof what, "of host memory, for the experts of %d of %d layers",
                 p->host_layers, m->n_layer);
        plan_line("host", p->host_bytes, what);
    }
    if (p->mapped_bytes)
        plan_line("file", p->mapped_bytes,
                  "of experts in the packed copy on disk, read when they are used");
    if (archive_bytes(p, recall)) {
        const size_t index = index_bytes(p, m, recall);
        const int64_t tokens = archive_tokens(p, m, recall);
        snprintf(what, sizeof what,
                 "on disk, at most, for each conversation: recall reaches %s tokens back word for "
                 "word",
                 num_exact(tokens, number));
        plan_line("archive", (size_t)archive_bytes(p, recall), what);
        snprintf(what, sizeof what,
                 "in memory, when full: %s tokens are found and read again as text",
                 num_exact(recall_text_reach(tokens), number));
        plan_line("index", index, what);
        plan_line("at most", plan_total_bytes(p) + index, "in memory: total and index");
    }
    if (*p->notice) report_note("%s", p->notice);
}

int cmd_plan(const struct options *o)
{
    struct engine_opts engine = o->engine;
    const struct plan_opts *plan = &o->session.plan;
    struct engine *g;
    struct plan p;
    struct err e;
    engine.verify = IDENTITY_VERIFY_OFF; /* a plan needs only shapes and must be quick */
    int rc = engine_prepare(&g, &engine, &e);
    if (rc) return report_error(&e);
    rc = engine_choose_device(g, &engine, plan, 1, NULL, NULL, &e);
    if (!rc)
        rc = plan_make(&p, g->model, g->retaining, g->gpu, plan, 1, pool_n_threads(g->pool), &e);
    if (!rc && o->json)
        plan_json(&p, g->model, &o->session.recall);
    else if (!rc)
        plan_text(&p, g->model, &o->session.recall);
    engine_close(g);
    return rc ? report_error(&e) : 0;
}

/* ---- info ------------------------------------------------------------------------------------ */

#define GPUS_MAX 16

/* GPUs and the device code that each would run, or why there are none. */
static void gpu_lines(void)
{
    struct cuda_device gpus[GPUS_MAX];
    struct err e;
    int n = cuda_devices(gpus, GPUS_MAX, &e);
    if (n < 0) report_line("         no GPU: %s", e.text);
    for (int i = 0; i < n; i++)
        report_line("         cuda:%d (%s, sm_%d, %d SMs, %.1f GiB%s, CUDA %d.%d): %s",
                    gpus[i].ordinal, gpus[i].name, gpus[i].arch, gpus[i].n_sm,
                    (double)gpus[i].bytes / (1 << 30), gpus[i].integrated ? ", shared" : "",
                    gpus[i].driver / 1000, gpus[i].driver % 1000 / 10,
                    gpus[i].image ? gpus[i].image : "too old");
    char board[120];
    if (board_describe("", board, sizeof board)) report_line("board    %s", board);
    if (!cuda_image_name(0)) return;
    struct str line = {0};
    for (int i = 0; cuda_image_name(i); i++) str_printf(&line, " %s", cuda_image_name(i));
    report_line("gpu code%s", str_get(&line));
    str_release(&line);
}

/* The file that the next start maps the weights from, or why it packs them. */
static void packed_line(struct engine *g, const struct options *o)
{
    struct arena a;
    struct err e;
    if (!o->engine.model) return;
    arena_init_plan(&a, "weights");
    model_plan(g->model, &a);
    if (g->weight_cache.bytes)
        report_line("packed   %.1f MiB in %s", (double)g->weight_cache.bytes / (1 << 20),
                    g->weight_cache.path);
    else if (!o->engine.weight_cache_dir)
        report_line("packed   no copy is kept");
    else if (weight_cache_room(o->engine.weight_cache_dir, a.used, &e))
        report_line("packed   no copy is kept: %s", e.text);
    else
        report_line("packed   no copy yet; a saved chat keeps one of %.1f MiB",
                    (double)a.used / (1 << 20));
}

static void recurrent_line(const struct model *m)
{
    static const char *const kinds[] = {[MODEL_DELTA] = "gated delta rule",
                                        [MODEL_SCAN] = "Mamba-2",
                                        [MODEL_CONVOLUTION] = "short convolution"};
    int n_attention = 0, n_both = 0;
    for (int i = 0; i < m->n_layer; i++) {
        n_attention += !m->layers[i].no_attention;
        n_both += !m->layers[i].no_attention && m->layers[i].is_recurrent;
    }
    const int rest = m->n_layer - n_attention - m->recurrent.n_layer + n_both;
    struct str s = {0};
    if (!m->recurrent.n_layer) return;
    str_printf(&s, "%d with attention, %d recurrent (%s)", n_attention, m->recurrent.n_layer,
               kinds[m->recurrent.kind]);
    if (n_both) str_printf(&s, ", of which %d are both", n_both);
    if (rest) str_printf(&s, ", %d with a feed-forward alone", rest);
    report_line("layers   %s", str_get(&s));
    str_release(&s);
}

static void experts_line(const struct model *m)
{
    const struct model_experts *x = model_experts_of(m);
    int n_layer = 0;
    for (int i = 0; i < m->n_layer; i++) n_layer += m->layers[i].experts.n > 0;
    if (x)
        report_line("experts  %d in each of %d layers, of which a token uses %d%s; %.1f MiB", x->n,
                    n_layer, x->n_used, x->n_ff_shared ? " and the shared ones" : "",
                    (double)model_host_experts_bytes(m) / (1 << 20));
}

static void windows_line(const struct model *m)
{
    const struct model_windowed *w = &m->windowed;
    int n_shared = 0;
    for (int i = 0; i < m->n_layer; i++) n_shared += m->layers[i].shares_kv;
    if (w->n_layer)
        report_line(
            "layers   %d with the newest %d units (%d KV heads x %d), %d with all that are kept",
            w->n_layer, w->n_units, w->n_kv_head, w->head_dim, m->n_kv_layer);
    if (n_shared) report_line("         %d that read the units of one of these", n_shared);
}

static void sampling_line(const struct engine *g)
{
    const struct sampling *s = &g->sampling;
    report_line("sampling temp %g, top-k %d, top-p %g, min-p %g, repeat-penalty %g: %s",
                (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
                (double)s->repeat_penalty, g->sampling_source);
}

static void info_text(struct engine *g, const struct options *o)
{
    const struct model *m = g->model;
    struct str isas = {0};
    for (const char *const *isa = kn_isa_list(); *isa; isa++) str_printf(&isas, " %s", *isa);
    report_line("retain %s", RETAIN_VERSION);
    report_line("devices  cpu (%d threads%s)", pool_n_threads(g->pool),
                o->engine.threads ? "" : ", at most one per physical core");
    gpu_lines();
    report_line("isa     %s", str_get(&isas));
    report_line("memory   %.1f GiB", (double)system_memory_bytes() / (1 << 30));
    bool titled = strcmp(m->title, m->name) != 0;
    report_line("model    %s%s%s%s, family %s%s, %s", m->name, titled ? " (" : "",
                titled ? m->title : "", titled ? ")" : "", m->arch,
                strcmp(m->arch, m->family->arch) != 0 ? " (its text part; pictures are not read)"
                                                      : "",
                m->type);
    str_release(&isas);
    report_line(
        "shape    %d layers, width %d, %d heads, %d KV heads x %d, vocabulary %d, trained on %d "
        "positions",
        m->n_layer, m->n_embd, m->n_head, m->n_kv_head, m->head_dim, m->n_vocab, m->n_ctx);
    recurrent_line(m);
    windows_line(m);
    if (m->mtp.layer) report_line("mtp      a layer proposes tokens");
    experts_line(m);
    packed_line(g, o);
    report_line("template %s", chat_template_name(g->template));
    sampling_line(g);
    report_line("digest   %s", g->model_digest);
    report_line("heads    %s",
                g->retaining ? g->heads_digest : "none: --policy locret is not available");
    paths_print(o);
}

int cmd_info(const struct options *o)
{
    struct engine *g;
    struct err e;
    if (engine_prepare(&g, &o->engine, &e)) return report_error(&e);
    info_text(g, o);
    if (*g->notice) report_note("%s", g->notice);
    engine_close(g);
    return 0;
}

/* ---- verify ---------------------------------------------------------------------------------- */

int cmd_verify(const struct options *o)
{
    struct engine_opts engine = o->engine;
    struct engine *g;
    struct err e;
    engine.verify = IDENTITY_VERIFY_FULL;
    if (engine_prepare(&g, &engine, &e)) return report_error(&e);
    report_line("%s  %s", g->model_digest, gguf_name(g->model->file));
    if (g->retaining) report_line("%s  %s", g->heads_digest, gguf_name(g->retaining->file));
    engine_close(g);
    return 0;
}
