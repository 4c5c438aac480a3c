#include "runtime/model/retaining.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/str.h"
#include "runtime/model/blocks.h"

#define RETAINING_SETTING_MAX (1u << 24)

static int get(const struct gguf *g, const char *key, int max, int *out, struct err *e)
{
    uint32_t v;
    if (!gguf_get_u32(g, key, &v) || v < 1 || v > (uint32_t)max)
        return err_set(e, ERR_FORMAT, "%s: %s is missing or outside 1 to %d", gguf_name(g), key,
                       max);
    *out = (int)v;
    return 0;
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define PART(p) (1u << RETAINING_##p)

static const struct {
    const char *name;
    bool reads_hidden;
    unsigned parts;
} forms[RETAINING_FORMS] = {
    [RETAINING_SILU] = {"silu", false, PART(W1) | PART(W2)},
    [RETAINING_GELU] = {"gelu", true, PART(W1) | PART(W2) | PART(BIAS1) | PART(BIAS2)},
    [RETAINING_LINEAR] = {"linear", true, PART(W1) | PART(BIAS1)},
    [RETAINING_GATE] = {"gate", true,
                        PART(W1) | PART(BIAS1) | PART(BIAS2) | PART(NORMS) | PART(BASE)},
};

const char *retaining_form_name(enum retaining_form form)
{
    return forms[form].name;
}

bool retaining_reads_hidden(enum retaining_form form)
{
    return forms[form].reads_hidden;
}

int retaining_n_in(enum retaining_form form, const struct model *m)
{
    return forms[form].reads_hidden ? m->n_embd : model_n_qkv(m);
}

/* W1 has the rows of the queries, head by head, and then those of the keys. */
int retaining_group(const struct retaining_shape *s)
{
    return s->n_hidden / (s->n_head * s->n_rank) - 1;
}

bool retaining_part_shape(const struct retaining_shape *s, enum retaining_part part, int *n_rows,
                          int *n_columns)
{
    const bool gate = s->form == RETAINING_GATE;
    const int n_keys = gate ? s->n_head * s->n_rank : 0;
    const int group = gate ? retaining_group(s) : 0;
    const int sizes[RETAINING_PARTS][2] = {
        [RETAINING_W1] = {s->n_hidden, s->n_in},
        [RETAINING_W2] = {s->n_head, s->n_hidden},
        [RETAINING_BIAS1] = {1, s->n_hidden - n_keys},
        [RETAINING_BIAS2] = {gate ? s->n_head : 1, gate ? group : s->n_head},
        [RETAINING_NORMS] = {2, s->n_rank},
        [RETAINING_BASE] = {s->n_head * s->n_base, s->n_rank},
    };
    *n_rows = sizes[part][0];
    *n_columns = sizes[part][1];
    return forms[s->form].parts & 1u << part;
}

void retaining_part_name(char out[64], int layer, enum retaining_part part)
{
    static const char *const names[RETAINING_PARTS] = {"retain_1.weight",    "retain_2.weight",
                                                       "retain_1.bias",      "retain_2.bias",
                                                       "retain_norm.weight", "retain_base.weight"};
    snprintf(out, 64, "blk.%d.%s", layer, names[part]);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int read_form(struct retaining *h, struct err *e)
{
    struct gguf_str s;
    bool given = gguf_get_str(h->file, "retain.heads.activation", &s);
    for (int i = 0; given && i < RETAINING_FORMS; i++)
        if (s.n == strlen(forms[i].name) && !memcmp(s.data, forms[i].name, s.n)) {
            h->shape.form = (enum retaining_form)i;
            return 0;
        }
    return err_set(e, ERR_FORMAT, "%s: retain.heads.activation must be silu, gelu, linear or gate",
                   gguf_name(h->file));
}

/* The rows of a gate's matrix: rank x (query heads + KV heads). */
static int read_gate(struct retaining *h, struct err *e)
{
    struct retaining_shape *s = &h->shape;
    int rc = get(h->file, "retain.heads.rank", 1024, &s->n_rank, e);
    if (!rc) rc = get(h->file, "retain.heads.base_count", 1024, &s->n_base, e);
    if (rc) return rc;
    int row = s->n_head * s->n_rank;
    if (s->n_hidden % row || s->n_hidden / row < 2)
        return err_set(e, ERR_FORMAT,
                       "%s: retain.heads.hidden_length %d is no multiple of %d heads of rank %d",
                       gguf_name(h->file), s->n_hidden, s->n_head, s->n_rank);
    return 0;
}

int *retaining_setting(struct retaining_settings *s, int i, const char **name)
{
    static const char *const names[] = {"budget", "stabilizers", "sinks", "chunk"};
    int *const values[] = {&s->budget, &s->stabilizers, &s->sinks, &s->chunk};
    if (i >= (int)(sizeof names / sizeof *names)) return NULL;
    *name = names[i];
    return values[i];
}

static void read_settings(struct retaining *h)
{
    const char *name;
    char key[64];
    uint32_t v;
    for (int i = 0, *out; (out = retaining_setting(&h->settings, i, &name)); i++) {
        snprintf(key, sizeof key, "retain.heads.%s", name);
        *out = gguf_get_u32(h->file, key, &v) && v <= RETAINING_SETTING_MAX ? (int)v : -1;
    }
    struct gguf_str author;
    if (gguf_get_str(h->file, "general.author", &author) && author.n < sizeof h->author)
        memcpy(h->author, author.data, author.n);
}

void retaining_key(const struct model *m, char out[65])
{
    uint8_t digest[DIGEST_BYTES];
    struct gguf_str family = {"", 0};
    struct str all = {0};
    gguf_get_str(m->file, "general.architecture", &family);
    str_append(&all, family.data, family.n);
    str_printf(&all, " %d %d %d %d %d %d\n", m->n_layer, m->n_embd, m->n_head, m->n_kv_head,
               m->head_dim, m->n_vocab);
    for (size_t i = 0; i < gguf_n_tensors(m->file); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->file, i);
        if (t->type != GGUF_T_F32 || t->n_dims != 1 || !t->data ||
            !memmem(t->name.data, t->name.n, "norm", 4))
            continue;
        str_append(&all, t->name.data, t->name.n);
        str_append(&all, t->data, t->bytes);
    }
    digest_make(digest, str_get(&all), all.n);
    digest_hex(out, digest);
    str_release(&all);
}

static int read_header(struct retaining *h, struct err *e)
{
    const struct gguf *g = h->file;
    struct retaining_shape *shape = &h->shape;
    struct gguf_str s;
    if (!gguf_get_str(g, "general.type", &s) || s.n != 15 || memcmp(s.data, "retaining-heads", 15))
        return err_set(e, ERR_FORMAT,
                       "%s holds no retaining heads (general.type is not "
                       "\"retaining-heads\")",
                       gguf_name(g));
    int rc = read_form(h, e);
    if (rc) return rc;
    bool given = gguf_get_str(g, "retain.heads.base_digest", &s);
    if (given && s.n == sizeof h->base_digest - 1) memcpy(h->base_digest, s.data, s.n);
    if (gguf_get_str(g, "retain.heads.model_key", &s) && s.n == sizeof h->model_key - 1)
        memcpy(h->model_key, s.data, s.n);
    if (strspn(h->base_digest, "0123456789abcdef") != sizeof h->base_digest - 1 &&
        (given || !*h->model_key))
        return err_set(e, ERR_FORMAT, "%s: retain.heads.base_digest must be 64 hex digits",
                       gguf_name(g));
    rc = get(g, "retain.heads.block_count", MODEL_LAYERS_MAX, &shape->n_layer, e);
    if (!rc) rc = get(g, "retain.heads.input_length", 1 << 20, &shape->n_in, e);
    if (!rc) rc = get(g, "retain.heads.hidden_length", 1 << 20, &shape->n_hidden, e);
    if (!rc) rc = get(g, "retain.heads.head_count_kv", 4096, &shape->n_head, e);
    if (!rc && shape->form == RETAINING_GATE) rc = read_gate(h, e);
    read_settings(h);
    uint32_t n;
    if (!rc && shape->form == RETAINING_SILU && shape->n_hidden == 2 * shape->n_head &&
        gguf_get_u32(g, "retain.heads.unit_length", &n) && n % 2 == 0 &&
        n <= (uint32_t)(shape->n_in / shape->n_head))
        h->n_unit = (int)n;
    return rc;
}

static int bind(struct retaining *h, int layer, enum retaining_part part, struct err *e)
{
    char name[64];
    int n_rows, n_columns;
    if (!retaining_part_shape(&h->shape, part, &n_rows, &n_columns)) return 0;
    retaining_part_name(name, layer, part);
    const struct gguf_tensor *t = gguf_tensor_find(h->file, name);
    if (!t || !t->data || t->ne[0] != n_columns || t->ne[1] != n_rows || t->ne[2] != 1 ||
        !blocks_readable(t->type))
        return err_set(e, ERR_FORMAT, "%s: tensor %s is missing or not %d x %d of a known type",
                       gguf_name(h->file), name, n_columns, n_rows);
    h->tensors[layer][part] = t;
    return 0;
}

/* The kernel that scores silu heads reads int8 and float32; the other forms are products. */
static enum kn_type type_of(const struct retaining *h, const struct gguf_tensor *t)
{
    bool plain = t->type == GGUF_T_F16 || t->type == GGUF_T_BF16;
    if (t->type == GGUF_T_Q8_0) return KN_Q8;
    return plain && h->shape.form != RETAINING_SILU ? blocks_kernel_type(t->type, false) : KN_F32;
}

static int bind_layer(struct retaining *h, int layer, struct err *e)
{
    for (int part = 0; part < RETAINING_PARTS; part++) {
        int rc = bind(h, layer, (enum retaining_part)part, e);
        if (rc) return rc;
    }
    h->layers[layer].w1 = (struct kn_weight){
        .type = type_of(h, h->tensors[layer][RETAINING_W1]),
        .n_out = h->shape.n_hidden,
        .n_in = h->shape.n_in,
    };
    return 0;
}

/* One number per head: the mean or the deviation of the labels. */
static int read_labels(const struct retaining *h, const char *key, float **out, struct err *e)
{
    struct gguf_array a;
    size_t n = (size_t)h->shape.n_layer * (size_t)h->shape.n_head;
    if (!gguf_get_array(h->file, key, &a)) return 0;
    if (a.n != n)
        return err_set(e, ERR_FORMAT, "%s: %s has %zu numbers, expected one for each of %zu heads",
                       gguf_name(h->file), key, (size_t)a.n, n);
    *out = memory_new(n, sizeof **out);
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
    for (int i = 0; !rc && h->label_std && i < h->shape.n_layer * h->shape.n_head; i++)
        if (!(h->label_std[i] > 0))
            rc = err_set(e, ERR_FORMAT, "%s: retain.heads.label_std must be positive",
                         gguf_name(h->file));
    return rc;
}

int retaining_open(struct retaining **out, struct gguf *file, struct err *e)
{
    struct retaining *h = memory_new(1, sizeof *h);
    *out = NULL;
    h->file = file;
    int rc = read_header(h, e);
    if (!rc) rc = read_calibration(h, e);
    if (rc) goto fail;
    h->layers = memory_new((size_t)h->shape.n_layer, sizeof *h->layers);
    h->tensors = memory_new((size_t)h->shape.n_layer, sizeof *h->tensors);
    for (int i = 0; i < h->shape.n_layer; i++) {
        rc = bind_layer(h, i, e);
        if (rc) goto fail;
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
    const struct retaining_shape *s = &h->shape;
    int n_in = retaining_n_in(s->form, m);
    if (s->n_layer != m->n_kv_layer || s->n_in != n_in || s->n_head != m->n_kv_head)
        return err_set(
            e, ERR_FORMAT,
            "%s: these heads are for %d layers, input %d, %d KV heads; %s has %d, %d, %d",
            gguf_name(h->file), s->n_layer, s->n_in, s->n_head, m->name, m->n_kv_layer, n_in,
            m->n_kv_head);
    if (h->n_unit && h->n_unit != 2 * m->head_dim)
        return err_set(e, ERR_FORMAT,
                       "%s: retain.heads.unit_length is %d, expected %d, twice the head size of %s",
                       gguf_name(h->file), h->n_unit, 2 * m->head_dim, m->name);
    if (s->form == RETAINING_GATE && retaining_group(s) != model_group(m))
        return err_set(e, ERR_FORMAT,
                       "%s: these gates have %d query heads for each KV head; %s has %d",
                       gguf_name(h->file), retaining_group(s), m->name, model_group(m));
    char key[DIGEST_HEX];
    retaining_key(m, key);
    if (digest && strcmp(h->base_digest, digest) && strcmp(h->model_key, key))
        return err_set(e, ERR_FORMAT,
                       "%s: these heads were trained for another model (digest %.12s…, %s has "
                       "%.12s…); use --heads with the right file or --heads none",
                       gguf_name(h->file), h->base_digest, m->name, digest);
    return 0;
}

void retaining_plan(struct retaining *h, struct arena *a)
{
    const size_t n_heads = (size_t)h->shape.n_layer * (size_t)h->shape.n_head;
    float *unit = arena_take(a, n_heads * (size_t)h->n_unit, sizeof *unit);
    if (a->base) h->unit = unit;
    for (int i = 0; i < h->shape.n_layer; i++) {
        struct retaining_layer *l = &h->layers[i];
        void *w1 = arena_take(a, 1, kn_weight_bytes(l->w1.type, l->w1.n_out, l->w1.n_in));
        if (a->base) l->w1.data = w1;
        for (int part = RETAINING_W1 + 1; part < RETAINING_PARTS; part++) {
            int n_rows, n_columns;
            if (!retaining_part_shape(&h->shape, (enum retaining_part)part, &n_rows, &n_columns))
                continue;
            float *p = arena_take(a, (size_t)n_rows * (size_t)n_columns, sizeof *p);
            if (a->base) l->part[part] = p;
        }
    }
}

/* A row of W1 has all heads' queries, keys, and values. */
static void load_unit(const struct retaining *h, int layer, int head, const float *row)
{
    const int dim = h->n_unit / 2, n_kv = h->shape.n_head * dim;
    float *out = h->unit + (size_t)(layer * h->shape.n_head + head) * (size_t)h->n_unit;
    const float *k = row + h->shape.n_in - 2 * n_kv + head * dim;
    memcpy(out, k, (size_t)dim * sizeof *out);
    memcpy(out + dim, k + n_kv, (size_t)dim * sizeof *out);
}

static void load_units(const struct retaining *h)
{
    float *row = memory_grow(NULL, (size_t)h->shape.n_in, sizeof *row);
    for (int i = 0; i < h->shape.n_layer * h->shape.n_head; i++) {
        const int layer = i / h->shape.n_head, head = i % h->shape.n_head;
        const struct gguf_tensor *t = h->tensors[layer][RETAINING_W1];
        const size_t bytes = t->bytes / (size_t)h->shape.n_hidden;
        blocks_to_float(row, t->type, (const char *)t->data + (size_t)(2 * head) * bytes,
                        (size_t)h->shape.n_in);
        load_unit(h, layer, head, row);
    }
    free(row);
}

void retaining_load(struct retaining *h)
{
    if (h->n_unit) load_units(h);
    for (int i = 0; i < h->shape.n_layer; i++) {
        struct retaining_layer *l = &h->layers[i];
        const struct gguf_tensor *t = h->tensors[i][RETAINING_W1];
        size_t row = t->bytes / (size_t)h->shape.n_hidden;
        for (int r = 0; r < h->shape.n_hidden; r++)
            blocks_pack(&l->w1, r, t->type, (const char *)t->data + (size_t)r * row);
        for (int part = RETAINING_W1 + 1; part < RETAINING_PARTS; part++) {
            t = h->tensors[i][part];
            if (t)
                blocks_to_float((float *)l->part[part], t->type, t->data,
                                (size_t)t->ne[0] * (size_t)t->ne[1]);
        }
    }
}
