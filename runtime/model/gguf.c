/* The file is read once, front to back, by a cursor that can't leave it. Metadata is kept as
 * pointers into the mapping, sorted by key; tensors stay in file order with an index sorted by
 * name. Lookups use sorting instead of hashing, so that a hostile file can't choose names that make
 * it slow. */
#include "runtime/model/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/size.h"
#include "base/str.h"
#include "runtime/model/gguf_parts.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "GGUF is little endian and read in place");

#define NAME_MAX_BYTES   63 /* ggml keeps names in char[64] */
#define KV_MIN_BYTES     13 /* key length, type, one byte of value */
#define TENSOR_MIN_BYTES 24 /* name length, n_dims, type, offset */

/* ---- types ----------------------------------------------------------------------------------- */

static const uint8_t value_bytes[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

/* Sizes are needed to check a file's layout, so types without a kernel are listed too. Ids 4, 5,
 * 31-33 and 36-38 were withdrawn from ggml. */
static const struct gguf_tensor_type tensor_types[] = {
    {GGUF_T_F32, "F32", 1, 4},
    {GGUF_T_F16, "F16", 1, 2},
    {GGUF_T_Q4_0, "Q4_0", 32, 18},
    {GGUF_T_Q4_1, "Q4_1", 32, 20},
    {GGUF_T_Q5_0, "Q5_0", 32, 22},
    {GGUF_T_Q5_1, "Q5_1", 32, 24},
    {GGUF_T_Q8_0, "Q8_0", 32, 34},
    {9, "Q8_1", 32, 36},
    {GGUF_T_Q2_K, "Q2_K", 256, 84},
    {GGUF_T_Q3_K, "Q3_K", 256, 110},
    {GGUF_T_Q4_K, "Q4_K", 256, 144},
    {GGUF_T_Q5_K, "Q5_K", 256, 176},
    {GGUF_T_Q6_K, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},
    {GGUF_T_IQ2_XXS, "IQ2_XXS", 256, 66},
    {GGUF_T_IQ2_XS, "IQ2_XS", 256, 74},
    {GGUF_T_IQ3_XXS, "IQ3_XXS", 256, 98},
    {GGUF_T_IQ1_S, "IQ1_S", 256, 50},
    {GGUF_T_IQ4_NL, "IQ4_NL", 32, 18},
    {GGUF_T_IQ3_S, "IQ3_S", 256, 110},
    {GGUF_T_IQ2_S, "IQ2_S", 256, 82},
    {GGUF_T_IQ4_XS, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {GGUF_T_IQ1_M, "IQ1_M", 256, 56},
    {GGUF_T_BF16, "BF16", 1, 2},
    {GGUF_T_TQ1_0, "TQ1_0", 256, 54},
    {GGUF_T_TQ2_0, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};
#define N_TENSOR_TYPES (sizeof tensor_types / sizeof *tensor_types)

const struct gguf_tensor_type *gguf_tensor_type(uint32_t id)
{
    for (size_t i = 0; i < N_TENSOR_TYPES; i++)
        if (tensor_types[i].id == id) return &tensor_types[i];
    return NULL;
}

size_t gguf_row_bytes(uint32_t id, int64_t n)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(id);
    return (size_t)n / (size_t)t->block * (size_t)t->block_bytes;
}

/* ---- messages -------------------------------------------------------------------------------- */

struct utf8_shown gguf_show(struct gguf_str s)
{
    return utf8_show(s.data, s.n);
}

static int bad_type(const struct gguf *g, struct gguf_str tensor, uint32_t type, struct err *e)
{
    struct str known = {0};
    for (size_t i = 0; i < N_TENSOR_TYPES; i++)
        str_printf(&known, "%s%s", i ? " " : "", tensor_types[i].name);
    int rc = err_set(e, ERR_FORMAT, "%s: tensor '%s' has unknown type %" PRIu32 "; known are %s",
                     g->name, gguf_show(tensor).text, type, str_get(&known));
    str_release(&known);
    return rc;
}

/* ---- the cursor ------------------------------------------------------------------------------ */

struct cursor {
    const struct gguf *g;
    size_t at;
    struct err *e;
};

static size_t left(const struct cursor *c)
{
    return c->g->n - c->at;
}

static int cut_short(const struct cursor *c, const char *what)
{
    return err_set(c->e, ERR_FORMAT,
                   "%s: ends inside %s (byte %zu of %zu): the file is damaged or not completely "
                   "downloaded",
                   c->g->name, what, c->at, c->g->n);
}

static int take(struct cursor *c, void *out, size_t n, const char *what)
{
    if (left(c) < n) return cut_short(c, what);
    memcpy(out, c->g->bytes + c->at, n);
    c->at += n;
    return 0;
}

static int take_str(struct cursor *c, struct gguf_str *out, const char *what)
{
    uint64_t n = 0;
    int rc = take(c, &n, sizeof n, what);
    if (rc) return rc;
    if (left(c) < n) return cut_short(c, what);
    *out = (struct gguf_str){(const char *)c->g->bytes + c->at, (size_t)n};
    c->at += (size_t)n;
    return 0;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Reads `count` values of one type at the cursor. */
static int take_values(struct cursor *c, struct gguf_str key, uint32_t type, uint64_t count,
                       struct gguf_array *out)
{
    if (type >= GGUF_TYPES || type == GGUF_ARRAY)
        return err_set(c->e, ERR_FORMAT, "%s: key '%s' has %s type %" PRIu32, c->g->name,
                       gguf_show(key).text,
                       type == GGUF_ARRAY ? "elements of the array" : "unknown", type);
    *out = (struct gguf_array){.type = (enum gguf_type)type, .data = c->g->bytes + c->at};
    size_t start = c->at;
    size_t each = type == GGUF_STRING ? 8 : value_bytes[type];
    if (count > left(c) / each) return cut_short(c, "metadata values");
    out->n = (size_t)count;
    if (type == GGUF_STRING) {
        struct gguf_str s;
        for (size_t i = 0; i < out->n; i++) {
            int rc = take_str(c, &s, "metadata strings");
            if (rc) return rc;
        }
    } else {
        c->at += out->n * each;
    }
    out->bytes = c->at - start;
    return 0;
}

static int take_kv(struct cursor *c, struct gguf_kv *kv)
{
    int rc = take_str(c, &kv->key, "a metadata key");
    if (rc) return rc;
    uint32_t type = 0;
    uint64_t count = 1;
    rc = take(c, &type, sizeof type, "a metadata value");
    if (rc) return rc;
    kv->is_array = type == GGUF_ARRAY;
    if (kv->is_array) {
        rc = take(c, &type, sizeof type, "a metadata array");
        if (!rc) rc = take(c, &count, sizeof count, "a metadata array");
        if (rc) return rc;
    }
    return take_values(c, kv->key, type, count, &kv->value);
}

static int compare_str(struct gguf_str a, struct gguf_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n ? memcmp(a.data, b.data, n) : 0;
    return d ? d : (a.n > b.n) - (a.n < b.n);
}

static int compare_kv(const void *a, const void *b)
{
    return compare_str(((const struct gguf_kv *)a)->key, ((const struct gguf_kv *)b)->key);
}

static int read_metadata(struct gguf *g, struct cursor *c, uint64_t n_kvs)
{
    if (n_kvs > left(c) / KV_MIN_BYTES)
        return err_set(c->e, ERR_FORMAT,
                       "%s: claims %" PRIu64 " metadata keys, more than fit into "
                       "its %zu bytes",
                       g->name, n_kvs, g->n);
    g->kvs = memory_new((size_t)n_kvs + 1, sizeof *g->kvs);
    for (; g->n_kvs < n_kvs; g->n_kvs++) {
        int rc = take_kv(c, &g->kvs[g->n_kvs]);
        if (rc) return rc;
    }
    qsort(g->kvs, g->n_kvs, sizeof *g->kvs, compare_kv);
    for (size_t i = 1; i < g->n_kvs; i++)
        if (!compare_kv(&g->kvs[i - 1], &g->kvs[i]))
            return err_set(c->e, ERR_FORMAT, "%s: key '%s' occurs twice", g->name,
                           gguf_show(g->kvs[i].key).text);
    return 0;
}

static const struct gguf_kv *find_kv(const struct gguf *g, const char *key)
{
    struct gguf_kv want = {.key = {key, strlen(key)}};
    return bsearch(&want, g->kvs, g->n_kvs, sizeof *g->kvs, compare_kv);
}

static int read_alignment(struct gguf *g, struct err *e)
{
    g->alignment = 32;
    const struct gguf_kv *kv = find_kv(g, "general.alignment");
    if (!kv) return 0;
    uint32_t a = 0;
    if (!gguf_get_u32(g, "general.alignment", &a) || a == 0 || (a & (a - 1)) != 0)
        return err_set(e, ERR_FORMAT, "%s: general.alignment is %" PRIu32 ", not a power of two",
                       g->name, a);
    g->alignment = a;
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Byte size of a tensor from its shape; every product is checked. */
static int measure(const struct gguf *g, struct gguf_tensor *t, struct err *e)
{
    const struct gguf_tensor_type *type = gguf_tensor_type(t->type);
    if (!type) return bad_type(g, t->name, t->type, e);
    size_t n = 1;
    bool fits = true;
    for (int i = 0; i < 4; i++) {
        if (t->ne[i] <= 0)
            return err_set(e, ERR_FORMAT,
                           "%s: tensor '%s' has %" PRId64 " as dimension %d, expected 1 or more",
                           g->name, gguf_show(t->name).text, t->ne[i], i);
        fits = fits && size_mul(n, (size_t)t->ne[i], &n) && n <= INT64_MAX;
    }
    if (t->ne[0] % type->block)
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' has rows of %" PRId64 " weights, not a multiple of %s's %d",
                       g->name, gguf_show(t->name).text, t->ne[0], type->name, type->block);
    if (!fits || !size_mul(n / (size_t)type->block, (size_t)type->block_bytes, &t->bytes))
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' is larger than any memory", g->name,
                       gguf_show(t->name).text);
    return 0;
}

static int take_tensor(struct cursor *c, struct gguf_tensor *t, uint64_t *offset)
{
    int rc = take_str(c, &t->name, "a tensor's name");
    if (rc) return rc;
    if (t->name.n > NAME_MAX_BYTES)
        return err_set(c->e, ERR_FORMAT,
                       "%s: tensor name '%s…' has %zu bytes, at most %d are allowed", c->g->name,
                       gguf_show(t->name).text, t->name.n, NAME_MAX_BYTES);
    uint32_t n_dims = 0;
    rc = take(c, &n_dims, sizeof n_dims, "a tensor's description");
    if (rc) return rc;
    if (n_dims > 4)
        return err_set(c->e, ERR_FORMAT,
                       "%s: tensor '%s' has %" PRIu32 " dimensions, at most 4 are "
                       "allowed",
                       c->g->name, gguf_show(t->name).text, n_dims);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < 4; i++) t->ne[i] = 1;
    rc = take(c, t->ne, n_dims * sizeof *t->ne, "a tensor's description");
    if (!rc) rc = take(c, &t->type, sizeof t->type, "a tensor's description");
    if (!rc) rc = take(c, offset, sizeof *offset, "a tensor's description");
    if (!rc) rc = measure(c->g, t, c->e);
    return rc;
}

static int compare_tensor(const void *a, const void *b)
{
    return compare_str((*(struct gguf_tensor *const *)a)->name,
                       (*(struct gguf_tensor *const *)b)->name);
}

int gguf_index_tensors(struct gguf *g, struct err *e)
{
    for (size_t i = 0; i < g->n_tensors; i++) g->by_name[i] = &g->tensors[i];
    qsort(g->by_name, g->n_tensors, sizeof *g->by_name, compare_tensor);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (!compare_tensor(&g->by_name[i - 1], &g->by_name[i]))
            return err_set(e, ERR_FORMAT, "%s: tensor '%s' occurs twice", g->name,
                           gguf_show(g->by_name[i]->name).text);
    return 0;
}

static int read_tensors(struct gguf *g, struct cursor *c, uint64_t n_tensors, size_t *data_bytes)
{
    if (n_tensors > left(c) / TENSOR_MIN_BYTES)
        return err_set(c->e, ERR_FORMAT,
                       "%s: claims %" PRIu64 " tensors, more than fit into its %zu "
                       "bytes",
                       g->name, n_tensors, g->n);
    g->tensors = memory_new((size_t)n_tensors + 1, sizeof *g->tensors);
    g->by_name = memory_new((size_t)n_tensors + 1, sizeof *g->by_name);
    size_t expected = 0; /* ggml requires tensors back to back, in file order */
    for (; g->n_tensors < n_tensors; g->n_tensors++) {
        struct gguf_tensor *t = &g->tensors[g->n_tensors];
        uint64_t offset = 0;
        int rc = take_tensor(c, t, &offset);
        if (rc) return rc;
        if (offset != expected)
            return err_set(c->e, ERR_FORMAT,
                           "%s: tensor '%s' starts at byte %" PRIu64 " of the data, expected %zu",
                           g->name, gguf_show(t->name).text, offset, expected);
        if (!size_add(expected, t->bytes, &expected) ||
            !size_add(expected, g->alignment - 1, &expected))
            return err_set(c->e, ERR_FORMAT, "%s: its tensors are larger than any memory", g->name);
        expected &= ~(g->alignment - 1);
    }
    *data_bytes = expected;
    return gguf_index_tensors(g, c->e);
}

/* Sets every tensor's address. A file that ends after its descriptions is a header without data and
 * opens (tensors' data is NULL); one that ends later is an incomplete download. */
static int place_data(struct gguf *g, const struct cursor *c, size_t data_bytes)
{
    size_t end = 0;
    g->data_at = g->n;
    size_t data_at = size_align(c->at, g->alignment);
    if (data_bytes == 0 || g->start_only || c->at == g->n || data_at == g->n) return 0;
    if (!size_add(data_at, data_bytes, &end))
        return err_set(c->e, ERR_FORMAT, "%s: its tensors are larger than any memory", g->name);
    if (end > g->n)
        return err_set(c->e, ERR_FORMAT,
                       "%s: %zu bytes long, but its tensors need %zu: the file is not completely "
                       "downloaded",
                       g->name, g->n, end);
    g->data_at = data_at;
    size_t offset = data_at;
    for (size_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].data = g->bytes + offset;
        offset += size_align(g->tensors[i].bytes, g->alignment);
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Files that users open by mistake. */
static const struct {
    const char *start, *says;
} strangers[] = {
    {"version https://git-lfs", "a Git LFS pointer, not the model: fetch it with 'git lfs pull'"},
    {"<!DOCTYPE", "a web page, not the model: download the file itself"},
    {"<!doctype", "a web page, not the model: download the file itself"},
    {"<html", "a web page, not the model: download the file itself"},
    {"tjgg", "an old GGML model (before GGUF): convert the original model again"},
    {"fmgg", "an old GGML model (before GGUF): convert the original model again"},
    {"lmgg", "an old GGML model (before GGUF): convert the original model again"},
    {"FUGG", "a big-endian GGUF file; only little-endian ones can be read"},
};

static int bad_magic(const struct gguf *g, struct err *e)
{
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        size_t n = strlen(strangers[i].start);
        if (g->n >= n && !memcmp(g->bytes, strangers[i].start, n))
            return err_set(e, ERR_FORMAT, "%s: is %s", g->name, strangers[i].says);
    }
    if (g->n > 9 && g->bytes[8] == '{' && !memcmp(g->bytes + 5, "\0\0\0", 3))
        return err_set(e, ERR_FORMAT,
                       "%s: is a safetensors file: make a GGUF of it with 'retain quantize'",
                       g->name);
    return err_set(e, ERR_FORMAT, "%s: is not a GGUF file (it does not start with GGUF)", g->name);
}

static int check_version(const struct gguf *g, uint32_t version, struct err *e)
{
    if (version == 2 || version == 3) return 0;
    if ((version & 0xffff) == 0 && version != 0)
        return err_set(e, ERR_FORMAT,
                       "%s: is a big-endian GGUF file; only little-endian ones can be read",
                       g->name);
    if (version == 1)
        return err_set(e, ERR_FORMAT,
                       "%s: is GGUF version 1, which is obsolete: convert the original model again",
                       g->name);
    return err_set(e, ERR_FORMAT, "%s: is GGUF version %" PRIu32 "; supported are versions 2 and 3",
                   g->name, version);
}

static int parse(struct gguf *g, struct err *e)
{
    struct cursor c = {.g = g, .e = e};
    uint32_t magic = 0, version = 0;
    uint64_t n_tensors = 0, n_kvs = 0;
    size_t data_bytes = 0;
    if (g->n == 0) return err_set(e, ERR_FORMAT, "%s: is empty", g->name);
    if (g->n < 4 || memcmp(g->bytes, "GGUF", 4)) return bad_magic(g, e);
    int rc = take(&c, &magic, sizeof magic, "the header");
    if (!rc) rc = take(&c, &version, sizeof version, "the header");
    if (!rc) rc = check_version(g, version, e);
    if (!rc) rc = take(&c, &n_tensors, sizeof n_tensors, "the header");
    if (!rc) rc = take(&c, &n_kvs, sizeof n_kvs, "the header");
    if (!rc) rc = read_metadata(g, &c, n_kvs);
    if (!rc) rc = read_alignment(g, e);
    if (!rc) rc = read_tensors(g, &c, n_tensors, &data_bytes);
    if (!rc) rc = place_data(g, &c, data_bytes);
    return rc;
}

/* Takes over only the name: the caller owns `bytes` until g->mapped is set. */
int gguf_open_over(struct gguf **out, const struct gguf_opening *o, const char *name, struct err *e)
{
    *out = NULL;
    struct gguf *g = memory_new(1, sizeof *g);
    struct str copy = {0};
    str_puts(&copy, name);
    g->name = copy.data;
    g->bytes = o->bytes;
    g->n = o->n;
    g->mapped = o->mapped;
    g->start_only = o->start_only;
    int rc = parse(g, e);
    if (rc) {
        gguf_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

int gguf_open_bytes(struct gguf **out, const void *bytes, size_t n, const char *name, struct err *e)
{
    const struct gguf_opening o = {.bytes = bytes, .n = n};
    return gguf_open_over(out, &o, name, e);
}

void gguf_close(struct gguf *g)
{
    if (!g) return;
    if (g->mapped) munmap((void *)(uintptr_t)g->bytes, g->n);
    free(g->name);
    free(g->kvs);
    free(g->tensors);
    free(g->by_name);
    free(g);
}

const char *gguf_name(const struct gguf *g)
{
    return g->name;
}

const void *gguf_bytes(const struct gguf *g, size_t *n)
{
    *n = g->n;
    return g->bytes;
}

bool gguf_is_start(const struct gguf *g)
{
    return g->start_only;
}

void gguf_forget_data(const struct gguf *g)
{
    gguf_forget(g, g->bytes + g->data_at, g->n - g->data_at, false);
}

void gguf_forget(const struct gguf *g, const void *data, size_t n, bool evict)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t at = (size_t)((const char *)data - (const char *)g->bytes);
    const size_t start = size_align(at, page), end = at + n == g->n ? g->n : (at + n) / page * page;
    if (!g->mapped || start >= end) return;
    void *pages = (void *)(uintptr_t)(g->bytes + start);
    if (evict) madvise(pages, end - start, MADV_PAGEOUT);
    madvise(pages, end - start, MADV_DONTNEED);
}

/* ---- reading metadata ------------------------------------------------------------------------ */

/* Element i as an integer; false when the type is not an integer or the value does not fit into
 * int64. */
static bool as_int(const struct gguf_array *a, size_t i, int64_t *out)
{
    const size_t size = value_bytes[a->type], unused = 64 - 8 * size; /* bits */
    uint64_t v = 0;
    if (i >= a->n) return false;
    memcpy(&v, (const uint8_t *)a->data + i * size, size);
    switch (a->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64: *out = (int64_t)v; return v <= INT64_MAX;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: *out = (int64_t)(v << unused) >> unused; return true;
    default: return false;
    }
}

static bool as_float(const struct gguf_array *a, size_t i, float *out)
{
    if (i >= a->n) return false;
    if (a->type == GGUF_F32) {
        memcpy(out, (const uint8_t *)a->data + i * sizeof *out, sizeof *out);
        return true;
    }
    double d;
    int64_t whole = 0;
    if (a->type != GGUF_F64 && !as_int(a, i, &whole)) return false;
    if (a->type == GGUF_F64)
        memcpy(&d, (const uint8_t *)a->data + i * sizeof d, sizeof d);
    else
        d = (double)whole;
    *out = (float)d;
    return true;
}

static const struct gguf_array *find_scalar(const struct gguf *g, const char *key)
{
    const struct gguf_kv *kv = find_kv(g, key);
    return kv && !kv->is_array ? &kv->value : NULL;
}

bool gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out)
{
    const struct gguf_array *v = find_scalar(g, key);
    int64_t i = 0;
    if (!v || !as_int(v, 0, &i) || i < 0 || i > UINT32_MAX) return false;
    *out = (uint32_t)i;
    return true;
}

bool gguf_get_f32(const struct gguf *g, const char *key, float *out)
{
    const struct gguf_array *v = find_scalar(g, key);
    return v && as_float(v, 0, out);
}

bool gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
    const struct gguf_array *v = find_scalar(g, key);
    if (!v || v->type != GGUF_BOOL) return false;
    *out = *(const uint8_t *)v->data != 0;
    return true;
}

bool gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out)
{
    const struct gguf_array *v = find_scalar(g, key);
    size_t cursor = 0;
    return v && v->type == GGUF_STRING && gguf_array_next_str(v, &cursor, out);
}

bool gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out)
{
    const struct gguf_kv *kv = find_kv(g, key);
    if (!kv || !kv->is_array) return false;
    *out = kv->value;
    return true;
}

float gguf_array_f32(const struct gguf_array *a, size_t i)
{
    float f = 0;
    return as_float(a, i, &f) ? f : 0;
}

int32_t gguf_array_i32(const struct gguf_array *a, size_t i)
{
    int64_t v = 0;
    if (a->type == GGUF_BOOL && i < a->n) return ((const uint8_t *)a->data)[i] != 0;
    return as_int(a, i, &v) && v >= INT32_MIN && v <= INT32_MAX ? (int32_t)v : 0;
}

bool gguf_array_next_str(const struct gguf_array *a, size_t *cursor, struct gguf_str *out)
{
    if (a->type != GGUF_STRING || *cursor >= a->bytes) return false;
    uint64_t n;
    const char *p = (const char *)a->data + *cursor; /* take_values has checked the lengths */
    memcpy(&n, p, sizeof n);
    *out = (struct gguf_str){p + sizeof n, (size_t)n};
    *cursor += sizeof n + (size_t)n;
    return true;
}

bool gguf_key_at(const struct gguf *g, size_t i, struct gguf_str *key, struct gguf_array *value,
                 bool *is_array)
{
    if (i >= g->n_kvs) return false;
    *key = g->kvs[i].key;
    *value = g->kvs[i].value;
    *is_array = g->kvs[i].is_array;
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    struct gguf_tensor want = {.name = {name, strlen(name)}};
    const struct gguf_tensor *key = &want;
    struct gguf_tensor **found =
        bsearch(&key, g->by_name, g->n_tensors, sizeof *g->by_name, compare_tensor);
    return found ? *found : NULL;
}
