#include "base/memory.h"
#include "runtime/cuda/parts.h"

#include "base/pool.h"
#include "kernels/cuda/pack.h"

/* ---- supported models ------------------------------------------------------------------------ */

static const char *type_name(enum kn_type type)
{
    static const char *const names[KN_TYPES] = {
        [KN_F32] = "f32",   [KN_F16] = "f16",  [KN_BF16] = "bf16", [KN_Q4] = "q4",
        [KN_Q8] = "q8",     [KN_Q4A] = "q4a",  [KN_Q5A] = "q5a",   [KN_Q6] = "q6",
        [KN_MX4] = "mxfp4", [KN_NV4] = "nvfp4"};
    return names[type] ? names[type] : "compact";
}

static int supports_matrix(const struct model *m, const struct model_load_item *it, struct err *e)
{
    const struct kn_weight *w = it->weight;
    const bool stack = it->n_stack > 1;
    if (stack && w->n_out / it->n_stack % KN_PANEL)
        return err_set(e, ERR_USAGE, "%s has experts of %d rows; the GPU supports multiples of %d",
                       m->name, w->n_out / it->n_stack, KN_PANEL);
    if (!cuda_packs(w->type) || (w->type == KN_MX4 && !stack))
        return err_set(e, ERR_USAGE, "%s has %s weights, which the GPU does not support", m->name,
                       type_name(w->type));
    if (!kn_is_quantized(w->type) && w->n_in % 8)
        return err_set(e, ERR_USAGE,
                       "%s has a float matrix of %d columns; the GPU supports multiples of 8",
                       m->name, w->n_in);
    return 0;
}

static int supports_heads(const struct model *m, int dim, struct err *e)
{
    const int most = m->latent.rank ? CUDA_LATENT_MAX : CUDA_HEAD_MAX;
    if (m->latent.n_plain > dim)
        return err_set(e, ERR_USAGE,
                       "%s has queries of %d numbers; the GPU supports at most the %d of its "
                       "latent rows",
                       m->name, m->latent.n_plain, dim);
    if (dim % 16 == 0 && dim <= most) return 0;
    return err_set(e, ERR_USAGE, "%s has head size %d; the GPU supports multiples of 16 up to %d",
                   m->name, dim, most);
}

static int supports_model(const struct model *m, struct err *e)
{
    int rc = supports_heads(m, m->head_dim, e);
    if (!rc && m->windowed.n_layer) rc = supports_heads(m, m->windowed.head_dim, e);
    if (rc) return rc;
    if (m->has_factors)
        return err_set(e, ERR_USAGE,
                       "%s has NVFP4 matrices with factors, which run on the CPU only", m->name);
    if (CUDA_RECUR_SHARED(m->recurrent.key_dim) > CUDA_SHARED_MAX)
        return err_set(e, ERR_USAGE, "%s has recurrent keys of %d numbers, too many for the GPU",
                       m->name, m->recurrent.key_dim);
    if (model_is_split(m) && (m->layer_inputs.n || model_has(m).shared_units))
        return err_set(
            e, ERR_USAGE,
            "%s has inputs of layers or layers that share units, which run on the CPU or "
            "all on the GPU",
            m->name);
    if (m->n_embd % KN_GROUP)
        return err_set(e, ERR_USAGE, "%s has rows of %d numbers; the GPU supports multiples of %d",
                       m->name, m->n_embd, KN_GROUP);
    for (int i = 0; !rc && i < m->n_items; i++)
        if (m->items[i].weight && model_on_device(m, &m->items[i]))
            rc = supports_matrix(m, &m->items[i], e);
    return rc;
}

/* key_values reads heads of up to 128 numbers, near_duplicates of at least 32; cache_evict moves
 * units through shared memory. */
static bool shape_known(const struct policy *p, const struct cache_shape *s)
{
    const size_t unit = kn_kv_bytes(s->k_type, s->head_dim) + kn_kv_bytes(s->v_type, s->head_dim);
    return (p->scorer != POLICY_KEYS || s->head_dim <= CUDA_VALUES_DIM) &&
           (s->head_dim >= 32 || !p->near_duplicates) && CUDA_EVICT_SHARED(unit) <= CUDA_SHARED_MAX;
}

bool cuda_runs_heads(const struct retaining *h)
{
    return h->shape.form == RETAINING_SILU && h->layers[0].w1.type == KN_Q8;
}

bool cuda_leaves_eviction(const struct policy *p, const struct cache_shape *s,
                          const struct retaining *h)
{
    const bool scored = p->scorer != POLICY_CIS || !h || cuda_runs_heads(h);
    return !scored || !shape_known(p, s);
}

int cuda_supports(const struct model *m, enum kn_kv k_type, enum kn_kv v_type, struct err *e)
{
    int rc = supports_model(m, e);
    if (rc) return rc;
    if (k_type == KN_KV_F32 || v_type == KN_KV_F32)
        return err_set(e, ERR_USAGE, "the GPU keeps units as --kv q4, q5, q8 or f16, not f32");
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Float matrices stay as they are, and have no scales. */
size_t cuda_quant_bytes(const struct kn_weight *w)
{
    if (!kn_is_quantized(w->type)) return kn_weight_bytes(w->type, w->n_out, w->n_in);
    return (size_t)cuda_panels(w->n_out) * cuda_panel_bytes(w->type, w->n_in);
}

size_t cuda_scale_bytes(const struct kn_weight *w)
{
    if (!kn_is_quantized(w->type)) return 0;
    return (size_t)cuda_panels(w->n_out) * cuda_panel_scale_bytes(w->type, w->n_in);
}

/* Quants of all matrices, then scales of all, then vectors: so q, k and v of one type, which are
 * adjacent in the list, are one matrix. If `a` is backed, the model's weights are there then. */
static void plan_model(const struct model *m, struct arena *a)
{
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < m->n_items; i++) {
            const struct model_load_item *it = &m->items[i];
            struct kn_weight *w = it->weight;
            if ((w != NULL) != (pass < 2) || !model_on_device(m, it)) continue;
            void *p = arena_take(a, 1,
                                 pass == 0   ? cuda_quant_bytes(w)
                                 : pass == 1 ? cuda_scale_bytes(w)
                                             : (size_t)it->n * sizeof(float));
            if (!a->base) continue;
            if (pass == 0)
                w->data = p;
            else if (pass == 1)
                w->scales = p;
            else
                *it->vector = p;
        }
}

static void plan_heads(const struct retaining *h, struct cuda_head *heads, struct arena *a)
{
    for (int i = 0; h && cuda_runs_heads(h) && i < h->shape.n_layer; i++) {
        struct kn_weight w = h->layers[i].w1;
        w.data = arena_take(a, 1, cuda_quant_bytes(&w));
        w.scales = arena_take(a, 1, cuda_scale_bytes(&w));
        void *w2 =
            arena_take(a, (size_t)h->shape.n_head * (size_t)h->shape.n_hidden, sizeof(float));
        if (heads) heads[i] = (struct cuda_head){w, w2};
    }
}

size_t cuda_weights_bytes(const struct model *m)
{
    struct arena a;
    arena_init_plan(&a, "weights");
    plan_model(m, &a);
    return a.used;
}

size_t cuda_heads_bytes(const struct retaining *h)
{
    struct arena a;
    arena_init_plan(&a, "heads");
    plan_heads(h, NULL, &a);
    return a.used;
}

/* ---- loading --------------------------------------------------------------------------------- */

#define PANELS_PER_PART  8
#define PANELS_PER_PIECE 96 /* packed and sent together */

struct pack_job {
    const struct kn_weight *w;
    char *q, *d;
    int first, n; /* panels */
};

static void pack_part(void *ctx, int part, int thread)
{
    (void)thread;
    const struct pack_job *j = ctx;
    int at = part * PANELS_PER_PART, n = j->n - at;
    if (n > PANELS_PER_PART) n = PANELS_PER_PART;
    cuda_pack(j->q + (size_t)at * cuda_panel_bytes(j->w->type, j->w->n_in),
              j->d + (size_t)at * cuda_panel_scale_bytes(j->w->type, j->w->n_in), j->w,
              j->first + at, n);
}

static int send_piece(struct cuda *g, const struct kn_weight *to, const struct pack_job *j,
                      struct pool *p, struct err *e)
{
    const size_t q_bytes = cuda_panel_bytes(j->w->type, j->w->n_in);
    const size_t d_bytes = cuda_panel_scale_bytes(j->w->type, j->w->n_in);
    const size_t first = (size_t)j->first, n = (size_t)j->n;
    pool_run(p, (j->n + PANELS_PER_PART - 1) / PANELS_PER_PART, pack_part, (void *)j);
    int rc = cuda_put(g, (const char *)to->data + first * q_bytes, j->q, n * q_bytes, e);
    if (!rc) rc = cuda_put(g, (const char *)to->scales + first * d_bytes, j->d, n * d_bytes, e);
    return rc ? rc : cuda_wait(g, e);
}

/* Packs a matrix and sends it, piece by piece: on a device that shares the CPU's memory, memory is
 * scarce while a model is loaded. */
static int send_matrix(struct cuda *g, const struct kn_weight *to, const struct kn_weight *w,
                       struct pool *p, struct err *e)
{
    struct arena a;
    const int n = cuda_panels(w->n_out), most = n < PANELS_PER_PIECE ? n : PANELS_PER_PIECE;
    const size_t q_bytes = (size_t)most * cuda_panel_bytes(w->type, w->n_in);
    const size_t d_bytes = (size_t)most * cuda_panel_scale_bytes(w->type, w->n_in);
    int rc = arena_init(&a, "packing a matrix", q_bytes + d_bytes, e);
    if (rc) return rc;
    for (int first = 0; !rc && first < n; first += most) {
        const struct pack_job job = {w, a.base, a.base + q_bytes, first,
                                     n - first < most ? n - first : most};
        rc = send_piece(g, to, &job, p, e);
    }
    arena_release(&a);
    return rc;
}

/* Loads item i of the model into memory that is freed after sending. */
static int send_item(struct cuda *g, struct model *m, int i, struct pool *p, struct err *e)
{
    struct model_load_item *it = &m->items[i];
    struct kn_weight *w = it->weight, to = {0};
    struct arena a;
    if (w)
        to = *w;
    else
        to.data = *it->vector;
    size_t bytes = w ? kn_weight_bytes(w->type, w->n_out, w->n_in) : (size_t)it->n * sizeof(float);
    int rc = arena_init(&a, "loading a matrix", bytes, e);
    if (rc) return rc;
    if (w)
        w->data = a.base;
    else
        *it->vector = (const float *)(const void *)a.base;
    model_load_item(m, i, p);
    if (i + 1 == m->n_items || m->items[i + 1].tensor != it->tensor)
        gguf_forget(m->file, it->tensor->data, it->tensor->bytes, g->device.integrated);
    if (w && kn_is_quantized(w->type))
        rc = send_matrix(g, &to, w, p, e);
    else
        rc = cuda_put(g, to.data, a.base, bytes, e);
    if (!rc) rc = cuda_wait(g, e);
    if (w)
        *w = to;
    else
        *it->vector = to.data;
    arena_release(&a);
    return rc;
}

static int send_heads(struct cuda *g, const struct retaining *h, struct pool *p, struct err *e)
{
    int rc = 0;
    for (int i = 0; !rc && i < h->shape.n_layer; i++) {
        const struct retaining_layer *l = &h->layers[i];
        rc = send_matrix(g, &g->heads[i].w1, &l->w1, p, e);
        if (!rc)
            rc = cuda_put(g, g->heads[i].w2, l->part[RETAINING_W2],
                          (size_t)h->shape.n_head * (size_t)h->shape.n_hidden * sizeof(float), e);
    }
    return rc ? rc : cuda_wait(g, e);
}

static int take_memory(struct cuda *g, struct model *m, const struct retaining *h, struct err *e)
{
    if (h) g->heads = memory_new((size_t)h->shape.n_layer, sizeof *g->heads);
    int rc = cuda_arena_init(g, &g->weights, "weights", cuda_weights_bytes(m), e);
    if (!rc) rc = cuda_arena_init(g, &g->retaining, "heads", cuda_heads_bytes(h), e);
    if (rc) return rc;
    plan_model(m, &g->weights);
    plan_heads(h, g->heads, &g->retaining);
    if (m->tied) m->output = m->embedding;
    return 0;
}

int cuda_load(struct cuda *g, struct model *m, struct retaining *h, struct pool *p,
              int (*progress)(void *, int64_t, int64_t), void *ctx, struct err *e)
{
    int64_t done = 0, total = 0;
    int rc = cuda_enter(g, e);
    if (!rc) rc = take_memory(g, m, h, e);
    for (int i = 0; i < m->n_items; i++) total += model_item_bytes(&m->items[i]);
    for (int i = 0; !rc && i < m->n_items; i++) {
        if (!model_on_device(m, &m->items[i])) continue;
        rc = send_item(g, m, i, p, e);
        done += model_item_bytes(&m->items[i]);
        if (!rc && progress && progress(ctx, done, total))
            rc = err_set(e, ERR_STOP, "loading was interrupted");
    }
    if (!rc) gguf_forget_data(m->file);
    if (!rc && h && cuda_runs_heads(h)) rc = send_heads(g, h, p, e);
    return rc;
}
