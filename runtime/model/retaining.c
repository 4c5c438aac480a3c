#include "runtime/model/retaining.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/blocks.h"

static int get(const struct gguf *g, const char *key, int max, int *out, struct err *e)
{
    uint32_t v;
    if (!gguf_get_u32(g, key, &v) || v < 1 || v > (uint32_t)max)
        return err_set(e, ERR_FORMAT, "%s: %s is missing or outside 1 to %d", gguf_name(g), key,
                       max);
    *out = (int)v;
    return 0;
}

static int read_header(struct retaining *h, struct err *e)
{
    const struct gguf *g = h->file;
    struct gguf_str s;
    if (!gguf_get_str(g, "general.type", &s) || s.n != 15 || memcmp(s.data, "retaining-heads", 15))
        return err_set(e, ERR_FORMAT,
                       "%s holds no retaining heads (general.type is not "
                       "\"retaining-heads\")",
                       gguf_name(g));
    if (!gguf_get_str(g, "retain.heads.activation", &s) || s.n != 4 || memcmp(s.data, "silu", 4))
        return err_set(e, ERR_FORMAT, "%s: retain.heads.activation must be \"silu\"", gguf_name(g));
    bool given = gguf_get_str(g, "retain.heads.base_digest", &s);
    if (given && s.n == sizeof h->base_digest - 1) memcpy(h->base_digest, s.data, s.n);
    if (strspn(h->base_digest, "0123456789abcdef") != sizeof h->base_digest - 1)
        return err_set(e, ERR_FORMAT, "%s: retain.heads.base_digest must be 64 hex digits",
                       gguf_name(g));
    int rc = get(g, "retain.heads.block_count", MODEL_LAYERS_MAX, &h->n_layer, e);
    if (!rc) rc = get(g, "retain.heads.input_length", 1 << 20, &h->n_in, e);
    if (!rc) rc = get(g, "retain.heads.hidden_length", 1 << 20, &h->n_hidden, e);
    if (!rc) rc = get(g, "retain.heads.head_count_kv", 4096, &h->n_head, e);
    return rc;
}

static int bind(struct retaining *h, int layer, int which, int n_in, int n_out, struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.retain_%d.weight", layer, which + 1);
    const struct gguf_tensor *t = gguf_tensor_find(h->file, name);
    if (!t || !t->data || t->ne[0] != n_in || t->ne[1] != n_out || !blocks_readable(t->type))
        return err_set(e, ERR_FORMAT, "%s: tensor %s is missing or not %d x %d of a known type",
                       gguf_name(h->file), name, n_in, n_out);
    h->tensors[2 * layer + which] = t;
    return 0;
}

/* One number per head: the mean or the deviation of the labels. */
static int read_labels(const struct retaining *h, const char *key, float **out, struct err *e)
{
    struct gguf_array a;
    size_t n = (size_t)h->n_layer * (size_t)h->n_head;
    if (!gguf_get_array(h->file, key, &a)) return 0;
    if (a.n != n)
        return err_set(e, ERR_FORMAT, "%s: %s has %zu numbers, expected one for each of %zu heads",
                       gguf_name(h->file), key, (size_t)a.n, n);
    *out = calloc(n, sizeof **out);
    if (!*out) return err_set(e, ERR_FAIL, "out of memory for retaining heads");
    for (size_t i = 0; i < n; i++) (*out)[i] = gguf_array_f32(&a, i);
    return 0;
}

static int read_calibration(struct retaining *h, struct err *e)
{
    struct gguf_str label;
    h->label_is_share = gguf_get_str(h->file, "retain.heads.label", &label) && label.n == 5 &&
                        !memcmp(label.data, "share", 5);
    int rc = read_labels(h, "retain.heads.label_mean", &h->label_mean, e);
    if (!rc) rc = read_labels(h, "retain.heads.label_std", &h->label_std, e);
    for (int i = 0; !rc && h->label_std && i < h->n_layer * h->n_head; i++)
        if (!(h->label_std[i] > 0))
            rc = err_set(e, ERR_FORMAT, "%s: retain.heads.label_std must be positive",
                         gguf_name(h->file));
    return rc;
}

int retaining_open(struct retaining **out, struct gguf *file, struct err *e)
{
    struct retaining *h = calloc(1, sizeof *h);
    *out = NULL;
    if (!h) {
        gguf_close(file);
        return err_set(e, ERR_FAIL, "out of memory for retaining heads");
    }
    h->file = file;
    int rc = read_header(h, e);
    if (!rc) rc = read_calibration(h, e);
    if (rc) goto fail;
    h->layers = calloc((size_t)h->n_layer, sizeof *h->layers);
    h->tensors = calloc((size_t)h->n_layer * 2, sizeof(const struct gguf_tensor *));
    if (!h->layers || !h->tensors) {
        rc = err_set(e, ERR_FAIL, "out of memory for retaining heads");
        goto fail;
    }
    for (int i = 0; i < h->n_layer; i++) {
        rc = bind(h, i, 0, h->n_in, h->n_hidden, e);
        if (!rc) rc = bind(h, i, 1, h->n_hidden, h->n_head, e);
        if (rc) goto fail;
        h->layers[i].w1 = (struct kn_weight){
            .type = h->tensors[2 * i]->type == GGUF_T_Q8_0 ? KN_Q8 : KN_F32,
            .n_out = h->n_hidden,
            .n_in = h->n_in,
        };
    }
    *out = h;
    return 0;
fail:
    retaining_close(h);
    return rc;
}

void retaining_close(struct retaining *h)
{
    if (!h) return;
    gguf_close(h->file);
    free(h->layers);
    free(h->tensors);
    free(h->label_mean);
    free(h->label_std);
    free(h);
}

int retaining_check(const struct retaining *h, const struct model *m, const char *digest,
                    struct err *e)
{
    int n_in = (m->n_head + 2 * m->n_kv_head) * m->head_dim;
    if (h->n_layer != m->n_kv_layer || h->n_in != n_in || h->n_head != m->n_kv_head)
        return err_set(
            e, ERR_FORMAT,
            "%s: these heads are for %d layers, input %d, %d KV heads; %s has %d, %d, %d",
            gguf_name(h->file), h->n_layer, h->n_in, h->n_head, m->name, m->n_kv_layer, n_in,
            m->n_kv_head);
    if (digest && strcmp(h->base_digest, digest))
        return err_set(e, ERR_FORMAT,
                       "%s: these heads were trained for another model (digest %.12s…, %s has "
                       "%.12s…); use --heads with the right file or --heads none",
                       gguf_name(h->file), h->base_digest, m->name, digest);
    return 0;
}

void retaining_plan(struct retaining *h, struct arena *a)
{
    for (int i = 0; i < h->n_layer; i++) {
        struct retaining_layer *l = &h->layers[i];
        void *w1 = arena_take(a, 1, kn_weight_bytes(l->w1.type, l->w1.n_out, l->w1.n_in));
        void *w2 = arena_take(a, (size_t)h->n_head * (size_t)h->n_hidden, sizeof(float));
        if (!a->base) continue;
        l->w1.data = w1;
        l->w2 = w2;
    }
}

void retaining_load(struct retaining *h)
{
    for (int i = 0; i < h->n_layer; i++) {
        struct retaining_layer *l = &h->layers[i];
        const struct gguf_tensor *t = h->tensors[2 * i], *t2 = h->tensors[2 * i + 1];
        size_t row = t->bytes / (size_t)h->n_hidden;
        if (l->w1.type == KN_Q8)
            for (int r = 0; r < h->n_hidden; r++)
                kn_pack_q8((void *)l->w1.data, r, h->n_in, (const char *)t->data + (size_t)r * row);
        else
            blocks_to_float((float *)l->w1.data, t->type, t->data,
                            (size_t)h->n_hidden * (size_t)h->n_in);
        blocks_to_float((float *)l->w2, t2->type, t2->data,
                        (size_t)h->n_head * (size_t)h->n_hidden);
    }
}
