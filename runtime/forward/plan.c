#include "runtime/forward/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/mtp.h"

/* weights are read once per chunk; larger chunks gain little on a CPU */
#define CHUNK_DEFAULT 256
#define CHUNK_GPU     1024 /* a GPU has more rows to keep busy */
#define CHUNK_GPU_MIN 128  /* on a GPU that is short of memory */
/* answers as long as the budget need no eviction, within these limits; the least has room for
 * passages that return (recall.h) */
#define RESERVE_MIN    256
#define RESERVE_MAX    1024
#define BUDGET_DEFAULT 8192
/* more by default where that costs little: each token reads both the cache and the weights */
#define BUDGET_LARGER   (4 * BUDGET_DEFAULT)
#define CACHE_SHARE_MAX 5 /* the cache is at most a fifth of the weights */

size_t plan_total_bytes(const struct plan *p)
{
    return p->weights_bytes + p->heads_bytes + p->cache_bytes + p->state_bytes + p->scratch_bytes;
}

struct plan_opts plan_opts_default(void)
{
    return (struct plan_opts){.policy = policy_choice(NULL)};
}

/* The inputs of a plan. */
struct asked {
    struct model *m;
    struct retaining *h; /* or NULL */
    struct cuda *gpu;    /* it runs all layers; or NULL */
    struct cuda *first;  /* it runs the first layers; or NULL */
    const struct plan_opts *o;
};

/* ---- choices --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum kn_kv type;
} kv_names[] = {{"q4", KN_KV_Q4},   {"q5", KN_KV_Q5}, {"q8", KN_KV_Q8}, {"f16", KN_KV_F16},
                {"f32", KN_KV_F32}, {"q4", KN_KV_S4}, {"q5", KN_KV_S5}};

const char *plan_kv_name(enum kn_kv type)
{
    for (size_t i = 0; i < sizeof kv_names / sizeof *kv_names; i++)
        if (kv_names[i].type == type) return kv_names[i].name;
    return "?";
}

void plan_kv_text(const struct plan *p, char out[16])
{
    const char *k = plan_kv_name(p->k_type);
    const char *v = p->v_type == KN_KV_KEY ? k : plan_kv_name(p->v_type);
    snprintf(out, 16, strcmp(k, v) ? "%s:%s" : "%s", k, v);
}

static bool kv_named(const char *name, size_t n, enum kn_kv *out)
{
    for (size_t i = 0; i < sizeof kv_names / sizeof *kv_names; i++)
        if (strlen(kv_names[i].name) == n && !memcmp(kv_names[i].name, name, n)) {
            *out = kv_names[i].type;
            return true;
        }
    return false;
}

bool plan_kv_named(const char *text, struct plan_kv *out)
{
    size_t n = strcspn(text, ":");
    const char *v = text[n] ? text + n + 1 : text;
    out->given = kv_named(text, n, &out->k) && kv_named(v, strlen(v), &out->v);
    return out->given;
}

static bool in_groups(enum kn_kv type)
{
    return type == KN_KV_Q4 || type == KN_KV_Q5 || type == KN_KV_Q8;
}

/* A head size of the model that groups of numbers do not fit; 0 = none. */
static int odd_head_dim(const struct model *m)
{
    if (m->head_dim % KN_GROUP) return m->head_dim;
    return m->windowed.n_layer && m->windowed.head_dim % KN_GROUP ? m->windowed.head_dim : 0;
}

static int choose_kv(struct plan *p, const struct model *m, const struct plan_kv *kv, struct err *e)
{
    const int odd = odd_head_dim(m);
    if (!kv->given) {
        p->k_type = odd ? KN_KV_F16 : KN_KV_Q5;
        p->v_type = odd ? KN_KV_F16 : KN_KV_Q4;
        if (odd)
            snprintf(p->notice, sizeof p->notice,
                     "cache units are kept as f16: head size %d is not a multiple of %d", odd,
                     KN_GROUP);
        return 0;
    }
    p->k_type = kv->k;
    p->v_type = kv->v;
    if (m->latent.rank && kv->k != kv->v)
        return err_set(e, ERR_USAGE, "--kv %s:%s: %s has keys that are its values: one format fits",
                       plan_kv_name(kv->k), plan_kv_name(kv->v), m->name);
    if (!odd || (!in_groups(p->k_type) && !in_groups(p->v_type))) return 0;
    char text[16];
    plan_kv_text(p, text);
    return err_set(e, ERR_USAGE,
                   "--kv %s: %s has head size %d, not a multiple of %d; only f16 and f32 fit it",
                   text, m->name, odd, KN_GROUP);
}

static int choose_policy(struct plan *p, const struct asked *q, struct err *e)
{
    const struct retaining *h = q->h;
    const struct policy_choice *c = &q->o->policy;
    p->policy =
        c->row ? c->row : policy_named(policy_default(h != NULL, h && retaining_comparable(h)));
    p->rules = *p->policy;
    if (c->recency >= 0) p->rules.recency = c->recency;
    if (c->floor >= 0) p->rules.floor_pct = c->floor;
    const char *name = p->policy->name;
    if (p->policy->scorer == POLICY_CIS && !h)
        return err_set(e, ERR_USAGE,
                       "--policy %s needs retaining heads for this model; give them with --heads "
                       "FILE, or choose --policy %s",
                       name, policy_default(false, false));
    if (c->context >= 0 && p->policy->scorer != POLICY_KEEP_ALL)
        return err_set(e, ERR_USAGE, "--policy: context is a key of full; use --budget");
    bool compares = p->policy->scorer == POLICY_CIS && p->policy->shared;
    if (compares && !retaining_comparable(h))
        return err_set(e, ERR_USAGE,
                       "--policy %s needs retaining heads whose scores are comparable across "
                       "heads, as `retain heads train` and `retain heads calibrate` make them; "
                       "choose --policy locret",
                       name);
    if (p->policy->scorer == POLICY_CIS && p->rules.shared && (!h->label_mean || !h->label_std))
        return err_set(e, ERR_USAGE,
                       "these retaining heads cannot share a budget: their file has no "
                       "retain.heads.label_mean and label_std, which `retain heads calibrate` "
                       "measures; choose --policy locret");
    return 0;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The settings that those who trained the heads recommend, if the policy uses the heads. */
static const struct retaining_settings *recommended(const struct plan *p, const struct asked *q)
{
    static const struct retaining_settings nothing = {-1, -1, -1, -1};
    return q->h && p->policy->scorer == POLICY_CIS ? &q->h->settings : &nothing;
}

/* Most of the tokens of a chunk or a reserve: models with a short trained context have less. */
static int quarter_of(const struct model *m)
{
    return larger(16, m->n_ctx / 4);
}

/* A cache with a small budget needs no long reserve: it would take more memory than the tokens of a
 * short conversation. */
static int reserve_of(const struct asked *a, int budget)
{
    const int given = a->o->policy.reserve;
    const int most = budget < RESERVE_MIN ? RESERVE_MIN : smaller(budget, RESERVE_MAX);
    return given >= 0 ? given : smaller(most, quarter_of(a->m));
}

static void choose_steps(struct plan *p, const struct asked *a)
{
    const struct plan_opts *o = a->o;
    int chunk = recommended(p, a)->chunk;
    if (chunk <= 0) chunk = a->gpu ? CHUNK_GPU : CHUNK_DEFAULT;
    p->chunk = o->chunk ? o->chunk : smaller(chunk, quarter_of(a->m));
    p->reserve = reserve_of(a, RESERVE_MAX); /* of a large budget */
}

/* Recommended stabilizers are a part of the recommended budget, or at most half of another one. */
static int recent_units(const struct plan *p, const struct asked *q)
{
    const struct retaining_settings *s = recommended(p, q);
    if (s->stabilizers >= 0 && s->budget > 0)
        return (int)((int64_t)p->budget * s->stabilizers / s->budget);
    if (s->stabilizers >= 0) return smaller(s->stabilizers, p->budget / 2);
    return (int)((int64_t)p->budget * p->rules.stabilizer_pct / 100);
}

/* Protections follow from the budget. */
static void set_protection(struct plan *p, const struct asked *q)
{
    const struct policy_choice *c = &q->o->policy;
    const int sinks = recommended(p, q)->sinks;
    p->sinks = c->sinks >= 0 ? c->sinks : sinks >= 0 ? sinks : p->rules.sinks;
    p->stabilizers = c->stabilizers >= 0 ? c->stabilizers : recent_units(p, q);
}

static int check_protection(const struct plan *p, struct err *e)
{
    if (p->sinks + p->stabilizers > p->budget)
        return err_set(e, ERR_USAGE,
                       "%d sinks and %d stabilizers do not fit into a budget of %d units per head",
                       p->sinks, p->stabilizers, p->budget);
    return 0;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* If budgets differ, a head's budget is limited to this many means (in real models a few heads find
 * things, and need most of the text), and above the mean to this part of the positions that the
 * model was trained on: with more units it finds less (quant/eval/notes). */
#define HEAD_BUDGETS_MAX          12
#define HEAD_POSITIONS_MAX(n_ctx) ((n_ctx) / 3 * 2)

static void set_budget(struct plan *p, const struct asked *q, int budget)
{
    const struct model *m = q->m;
    p->reserve = reserve_of(q, budget);
    int room = m->n_ctx - p->chunk - p->reserve;
    /* A head that takes budget from others stays within the trained positions; then the mean does
     * too. */
    if (p->rules.shared && budget > room && room >= PLAN_BUDGET_MIN) budget = room;
    p->budget = budget;
    set_protection(p, q);
    p->capacity = p->policy->scorer == POLICY_KEEP_ALL ? budget : budget + p->chunk + p->reserve;
    int most = smaller(HEAD_BUDGETS_MAX * budget, smaller(HEAD_POSITIONS_MAX(m->n_ctx), room));
    p->budget_max = p->rules.shared && most >= budget ? most : budget;
}

/* The most units of one head while it is read. */
static int longest_head(const struct plan *p)
{
    if (p->policy->scorer == POLICY_KEEP_ALL) return p->capacity;
    return larger(p->capacity, p->budget_max + p->chunk + p->reserve);
}

struct cache_shape plan_shape(const struct plan *p, const struct model *m)
{
    return (struct cache_shape){
        .n_layer = m->n_kv_layer,
        .n_head = m->n_kv_head,
        .head_dim = m->head_dim,
        .k_type = p->k_type,
        .v_type = p->v_type,
        .shared = p->rules.shared,
        .capacity = p->capacity,
        .head_max = p->rules.shared ? longest_head(p) : 0,
        .windows = {.n_layer = m->windowed.n_layer,
                    .n_head = m->windowed.n_kv_head,
                    .head_dim = m->windowed.head_dim,
                    .n_units = m->windowed.n_units,
                    .chunk = p->chunk},
    };
}

struct forward_opts plan_forward_opts(const struct plan *p, const struct model *m,
                                      const struct retaining *h, const struct cache_shape *shape)
{
    return (struct forward_opts){
        .model = m,
        .retaining = h,
        .policy = &p->rules,
        .shape = shape,
        .chunk = p->chunk,
        .n_logits = p->n_logits,
        .n_threads = p->n_threads,
        .proposes = p->proposes,
    };
}

struct cuda_context_opts plan_device_opts(const struct plan *p, const struct model *m,
                                          const struct retaining *h,
                                          const struct cache_shape *shape)
{
    const bool all = !model_is_split(m);
    return (struct cuda_context_opts){
        .model = m,
        .retaining = h,
        .policy = &p->rules,
        .shape = shape,
        .chunk = p->chunk,
        .n_logits = all ? p->n_logits : 0,
        .floats = all && p->attention == PLAN_ATTENTION_FLOAT,
    };
}

static size_t state_bytes(const struct model *m)
{
    const struct recurrent_state_shape shape = recurrent_shape_of(m);
    struct recurrent_state state;
    struct arena a;
    arena_init_plan(&a, "state");
    recurrent_state_plan(&state, &shape, &a);
    return a.used;
}

/* Counts with the same calls that will take the memory. */
static void count(struct plan *p, const struct asked *q)
{
    struct arena a;
    struct forward forward;
    struct mtp mtp;
    struct cache_shape shape = plan_shape(p, q->m);
    p->state_bytes = state_bytes(q->m);
    p->unit_bytes = cache_unit_bytes(&shape);
    if (q->gpu) {
        const struct cuda_context_opts co = plan_device_opts(p, q->m, q->h, &shape);
        const struct cuda_bytes n = cuda_context_plan(q->gpu, &co);
        p->cache_bytes = n.cache;
        p->scratch_bytes = n.scratch;
        if (p->proposes) p->scratch_bytes += mtp_device_bytes(q->gpu, q->m).device;
        return;
    }
    p->cache_bytes = cache_plan_bytes(&shape);
    struct cache_shape without = shape;
    without.windows.n_layer = 0;
    p->windows_bytes = p->cache_bytes - cache_plan_bytes(&without);
    const struct forward_opts fo = plan_forward_opts(p, q->m, q->h, &shape);
    arena_init_plan(&a, "scratch");
    forward_plan(&forward, &fo, &a);
    mtp_plan(&mtp, &fo, &a);
    p->scratch_bytes = a.used;
}

/* Total memory that may be used: --memory, or the available memory of the machine or the device
 * minus a margin. Weights that are already loaded are no longer available, but part of the
 * total. */
static int limit_of(const struct plan *p, const struct asked *q, int64_t *limit, struct err *e)
{
    int64_t available = q->o->memory;
    bool loaded = q->gpu ? cuda_has_model(q->gpu) : q->m->embedding.data != NULL;
    *limit = available - q->o->besides;
    if (available > 0) return 0;
    int rc = 0;
    if (q->gpu)
        rc = cuda_free_bytes(q->gpu, &available, e);
    else
        available = system_available_bytes();
    *limit = available - available / 16 - q->o->besides;
    if (available < 0) *limit = INT64_MAX;
    if (available >= 0 && loaded) *limit += (int64_t)(p->weights_bytes + p->heads_bytes);
    return rc;
}

static bool exceeds(struct plan *p, const struct asked *q, int64_t limit, int budget)
{
    set_budget(p, q, budget);
    count(p, q);
    return (int64_t)plan_total_bytes(p) > limit;
}

/* The largest budget up to `max` whose total fits; 0 = none. The cost grows with the budget. */
static int largest_budget(struct plan *p, const struct asked *q, int64_t limit, int max)
{
    int lo = 0, hi = max;
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (exceeds(p, q, limit, mid))
            hi = mid - 1;
        else
            lo = mid;
    }
    return lo;
}

/* On a GPU that is short of memory, units have priority over long chunks. */
static void shorten_chunk(struct plan *p, const struct asked *q, int64_t limit, int budget)
{
    while (q->gpu && !q->o->chunk && p->chunk / 2 >= CHUNK_GPU_MIN &&
           exceeds(p, q, limit, budget)) {
        p->chunk /= 2;
        p->n_logits = smaller(p->n_logits, p->chunk);
    }
}

#define MIB(n) ((double)(n) / (1 << 20))

static int refuse(const struct plan *p, const struct asked *q, int64_t limit, struct err *e)
{
    struct plan best = *p;
    int budget = largest_budget(&best, q, limit, p->budget);
    char advice[128] = "use a smaller model", besides[64] = "";
    if (q->o->besides)
        snprintf(besides, sizeof besides, " next to %.1f for something else", MIB(q->o->besides));
    if (budget >= PLAN_BUDGET_MIN) snprintf(advice, sizeof advice, "--budget %d would fit", budget);
    if (q->gpu)
        snprintf(strchr(advice, '\0'), sizeof advice - strlen(advice), ", or --device cpu");
    else if (model_experts_of(q->m) && !q->m->maps_experts)
        snprintf(strchr(advice, '\0'), sizeof advice - strlen(advice),
                 ", or --experts file, which leaves experts on disk");
    return err_set(e, ERR_FIT,
                   "%s needs %.1f MiB (weights %.1f, heads %.1f, cache %.1f for %d units per head, "
                   "state %.1f, scratch %.1f), %.1f MiB may be used%s%s; %s",
                   q->m->name, MIB(plan_total_bytes(p)), MIB(p->weights_bytes), MIB(p->heads_bytes),
                   MIB(p->cache_bytes), p->budget, MIB(p->state_bytes), MIB(p->scratch_bytes),
                   MIB(limit), q->gpu ? " of the GPU's memory" : "", besides, advice);
}

static void count_weights(struct plan *p, const struct asked *q)
{
    struct arena a;
    if (q->m->maps_experts) p->mapped_bytes = model_host_experts_bytes(q->m);
    if (q->gpu) {
        p->weights_bytes = cuda_weights_bytes(q->m);
        p->heads_bytes = cuda_heads_bytes(q->h);
        return;
    }
    arena_init_plan(&a, "weights");
    model_plan(q->m, &a);
    p->weights_bytes = a.used - p->mapped_bytes;
    arena_init_plan(&a, "heads");
    if (q->h) retaining_plan(q->h, &a);
    p->heads_bytes = a.used;
}

/* The largest default budget: all of the context for policy full; otherwise the limit of the
 * model's trained positions, and without --memory no more units than `most`, or than the heads'
 * makers recommend. */
static int default_budget(const struct plan *p, const struct asked *q, int most)
{
    const struct model *m = q->m;
    const struct plan_opts *o = q->o;
    const int usual = recommended(p, q)->budget;
    if (p->policy->scorer == POLICY_KEEP_ALL)
        return o->policy.context > 0 ? o->policy.context : m->n_ctx;
    int room = m->n_ctx - p->chunk - p->reserve;
    if (o->memory == 0) room = smaller(room, usual > 0 ? usual : most);
    return room < PLAN_BUDGET_MIN ? PLAN_BUDGET_MIN : room;
}

static void note_positions(struct plan *p, const struct model *m)
{
    int longest = longest_head(p);
    if (longest > m->n_ctx)
        snprintf(p->notice, sizeof p->notice,
                 "%s was trained on %d positions, this plan reaches %d: expect weaker answers",
                 m->name, m->n_ctx, longest);
    else if (longest > m->window)
        snprintf(p->notice, sizeof p->notice,
                 "%s was trained to attend to the last %d positions, this plan reaches %d: expect "
                 "weaker answers",
                 m->name, m->window, longest);
}

/* The requested budget, or the largest one up to the default that fits. */
static int choose_budget(struct plan *p, const struct asked *q, int64_t limit)
{
    bool all = p->policy->scorer == POLICY_KEEP_ALL, chosen = !q->o->budget || all;
    int budget = chosen ? default_budget(p, q, BUDGET_DEFAULT) : q->o->budget;
    shorten_chunk(p, q, limit, budget);
    if (!chosen || all) return budget;
    for (int most = BUDGET_LARGER; most > BUDGET_DEFAULT; most /= 2) {
        const int more = default_budget(p, q, most);
        if (more > budget && !exceeds(p, q, limit, more) &&
            p->cache_bytes <= p->weights_bytes / CACHE_SHARE_MAX)
            return more;
    }
    int largest = largest_budget(p, q, limit, budget);
    return largest >= PLAN_BUDGET_MIN ? largest : budget;
}

/* Whether the device has memory for its layers of a split model. */
static int check_first(struct plan *p, const struct asked *q, struct err *e)
{
    const struct cache_shape shape = plan_shape(p, q->m);
    const struct cuda_context_opts o = plan_device_opts(p, q->m, q->h, &shape);
    const size_t weights = cuda_weights_bytes(q->m) + cuda_heads_bytes(q->h);
    int64_t free_bytes;
    if (!q->first) return 0;
    const struct cuda_bytes n = cuda_context_plan(q->first, &o);
    p->device_layers = q->m->n_device;
    p->device_bytes = weights + n.cache + n.scratch;
    int rc = cuda_free_bytes(q->first, &free_bytes, e);
    if (rc) return rc;
    int64_t limit = free_bytes - free_bytes / 16;
    if (cuda_has_model(q->first)) limit += (int64_t)weights;
    if ((int64_t)p->device_bytes <= limit) return 0;
    return err_set(
        e, ERR_FIT,
        "%d layers of %s need %.1f MiB of the GPU's memory, %.1f MiB may be used; choose "
        "fewer with --gpu-layers",
        p->device_layers, q->m->name, MIB(p->device_bytes), MIB(limit));
}

/* Whether this machine has memory for the experts that the CPU computes for a device. Those of a
 * split model are among its weights. */
static int check_host(struct plan *p, const struct asked *q, struct err *e)
{
    const struct forward_opts o = {.model = q->m, .chunk = p->chunk};
    const int64_t available = system_available_bytes(), limit = available - available / 16;
    struct forward forward;
    struct arena a;
    p->host_layers = model_n_host_experts(q->m);
    if (!p->host_layers) return 0;
    arena_init_plan(&a, "scratch");
    experts_plan_alone(&forward, &o, &a);
    p->host_bytes = a.used;
    const size_t experts = q->gpu ? model_host_experts_bytes(q->m) - p->mapped_bytes : 0;
    p->host_bytes += experts;
    const bool loaded = q->gpu && cuda_has_model(q->gpu);
    if (loaded || available < 0 || (int64_t)p->host_bytes <= limit) return 0;
    return err_set(e, ERR_FIT,
                   "the experts of %s need %.1f MiB of host memory, %.1f MiB may be used; "
                   "--experts file leaves them on disk",
                   q->m->name, MIB(p->host_bytes), MIB(limit));
}

/* Rows of logits that speculation needs. */
static int rows_to_try(const struct asked *q)
{
    const struct plan_speculate *s = &q->o->speculate;
    const bool on_gpu = q->gpu || q->first;
    const int most = on_gpu ? CUDA_TRY_MAX - 1 : PLAN_SPECULATE_MAX;
    if (s->off) return 1;
    return 1 + (s->n ? smaller(s->n, most) : most);
}

int plan_make(struct plan *p, struct model *m, struct retaining *h, struct cuda *gpu,
              const struct plan_opts *o, int n_logits, int n_threads, struct err *e)
{
    const bool split = model_is_split(m);
    const struct asked q = {m, h, split ? NULL : gpu, split ? gpu : NULL, o};
    int64_t limit;
    *p = (struct plan){.n_logits = n_logits, .n_threads = n_threads, .attention = o->attention};
    int rc = choose_policy(p, &q, e);
    if (!rc) rc = choose_kv(p, m, &o->kv, e);
    if (m->latent.rank) p->v_type = KN_KV_KEY;
    /* keys of few bits are less than half as wrong with centres */
    if (m->centres && p->k_type == KN_KV_Q4) p->k_type = KN_KV_S4;
    if (m->centres && p->k_type == KN_KV_Q5) p->k_type = KN_KV_S5;
    if (!rc && gpu) rc = cuda_supports(m, p->k_type, p->v_type, e);
    if (rc) return rc;
    choose_steps(p, &q);
    if (p->n_logits < rows_to_try(&q)) p->n_logits = rows_to_try(&q);
    p->n_logits = smaller(p->n_logits, p->chunk);
    p->proposes = m->mtp.layer && !o->speculate.off && p->n_logits > 1;
    count_weights(p, &q);
    rc = limit_of(p, &q, &limit, e);
    if (rc) return rc;
    int budget = choose_budget(p, &q, limit);
    bool fits = !exceeds(p, &q, limit, budget);
    rc = check_protection(p, e);
    if (rc) return rc;
    if (!fits) return refuse(p, &q, limit, e);
    rc = check_first(p, &q, e);
    if (!rc) rc = check_host(p, &q, e);
    if (rc) return rc;
    if (p->budget < budget)
        snprintf(p->notice, sizeof p->notice,
                 "%s was trained on %d positions: budget reduced to %d units per head to stay "
                 "within the trained context",
                 m->name, m->n_ctx, p->budget);
    note_positions(p, m);
    return 0;
}
