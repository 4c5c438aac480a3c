#include "quant/heads/torch_file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "quant/convert/json.h"
#include "runtime/model/gguf.h"

#define PICKLE_MAX (16u << 20) /* bytes; a name and a shape take about a hundred */
/* limit of a tensor's name; the pickle refers to a repeated name in a few bytes */
#define NAME_BYTES 255
#define PATH_BYTES 320   /* of a name with those of the dictionaries around it */
#define DEPTH_MAX  8     /* dictionaries and lists in each other */
#define NAMED_MAX  65536 /* tensors, dictionaries and lists */

struct member { /* a file in the archive */
    const char *name;
    size_t n_name;
    const uint8_t *data;
    size_t bytes;
};

struct torch_file {
    const char *name;
    const uint8_t *bytes;
    size_t n_bytes;
    struct member *members;
    size_t n_members;
    struct safetensors_tensor *tensors;
    size_t n_tensors, tensors_max;
};

/* ---- the archive ----------------------------------------------------------------------------- */

static uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t le32(const uint8_t *p)
{
    return le16(p) | le16(p + 2) << 16;
}

static uint64_t le64(const uint8_t *p)
{
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

static int damaged(const struct torch_file *f, const char *what, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s: %s: not a file written by torch.save, or damaged", f->name,
                   what);
}

bool torch_file_is(const void *bytes, size_t n)
{
    return n >= 4 && !memcmp(bytes, "PK\3\4", 4);
}

enum { LOCAL = 30, CENTRAL = 46, END = 22, END64_LOCATOR = 20, END64 = 56, COMMENT_MAX = 65535 };

/* Finds the archive's list of members and their number. */
static int find_list(const struct torch_file *f, size_t *at, size_t *n, struct err *e)
{
    size_t lowest = f->n_bytes > END + COMMENT_MAX ? f->n_bytes - END - COMMENT_MAX : 0;
    for (size_t p = f->n_bytes >= END ? f->n_bytes - END + 1 : 0; p-- > lowest;) {
        const uint8_t *end = f->bytes + p;
        if (memcmp(end, "PK\5\6", 4)) continue;
        *n = le16(end + 10);
        *at = le32(end + 16);
        if (*at != UINT32_MAX && *n != UINT16_MAX) return 0;
        if (p < END64_LOCATOR || memcmp(end - END64_LOCATOR, "PK\6\7", 4)) break;
        uint64_t at64 = le64(end - END64_LOCATOR + 8);
        if (f->n_bytes < END64 || at64 > f->n_bytes - END64 || memcmp(f->bytes + at64, "PK\6\6", 4))
            break;
        *n = le64(f->bytes + at64 + 32);
        *at = le64(f->bytes + at64 + 48);
        return 0;
    }
    return damaged(f, "the archive has no end", e);
}

/* Size and offset of a member whose 32-bit fields overflow: from the zip64 extra field. */
static bool read_extra(const uint8_t *extra, size_t n, uint64_t *bytes, uint64_t *packed,
                       uint64_t *at)
{
    uint64_t *wanted[] = {bytes, packed, at};
    for (size_t p = 0; p + 4 <= n; p += 4 + le16(extra + p + 2)) {
        size_t q = p + 4, end = q + le16(extra + p + 2);
        if (le16(extra + p) != 1 || end > n) continue;
        for (int i = 0; i < 3; i++) {
            if (*wanted[i] != UINT32_MAX) continue;
            if (q + 8 > end) return false;
            *wanted[i] = le64(extra + q);
            q += 8;
        }
    }
    return true;
}

/* Reads one entry of the list; advances *at. */
static int read_member(const struct torch_file *f, size_t *at, struct member *m, struct err *e)
{
    if (*at > f->n_bytes || f->n_bytes - *at < CENTRAL) return damaged(f, "a member is missing", e);
    const uint8_t *p = f->bytes + *at;
    size_t n_name = le16(p + 28), n_extra = le16(p + 30), n_comment = le16(p + 32);
    uint64_t packed = le32(p + 20), bytes = le32(p + 24), local = le32(p + 42);
    if (memcmp(p, "PK\1\2", 4) || f->n_bytes - *at - CENTRAL < n_name + n_extra + n_comment ||
        !read_extra(p + CENTRAL + n_name, n_extra, &bytes, &packed, &local))
        return damaged(f, "a member of the archive is invalid", e);
    *at += CENTRAL + n_name + n_extra + n_comment;
    if (le16(p + 10) != 0 || le16(p + 8) & 1 || packed != bytes)
        return damaged(f, "a member is compressed or encrypted", e);
    if (local > f->n_bytes || f->n_bytes - local < LOCAL || memcmp(f->bytes + local, "PK\3\4", 4))
        return damaged(f, "a member is outside the file", e);
    uint64_t data = local + LOCAL + le16(f->bytes + local + 26) + le16(f->bytes + local + 28);
    if (data > f->n_bytes || f->n_bytes - data < bytes)
        return damaged(f, "a member is outside the file", e);
    *m = (struct member){(const char *)p + CENTRAL, n_name, f->bytes + data, bytes};
    return 0;
}

static int read_list(struct torch_file *f, struct err *e)
{
    size_t at = 0, n = 0;
    int rc = find_list(f, &at, &n, e);
    if (rc) return rc;
    if (n > f->n_bytes / CENTRAL) return damaged(f, "the archive's list is too long", e);
    f->members = calloc(n + 1, sizeof *f->members);
    if (!f->members) return err_set(e, ERR_FAIL, "out of memory for %s", f->name);
    for (; !rc && f->n_members < n; f->n_members++)
        rc = read_member(f, &at, &f->members[f->n_members], e);
    return rc;
}

/* Finds a member by its name after the archive's folder; NULL = none. */
static const struct member *find_member(const struct torch_file *f, const char *name, size_t n)
{
    for (size_t i = 0; i < f->n_members; i++) {
        const struct member *m = &f->members[i];
        const char *slash = memchr(m->name, '/', m->n_name);
        if (!slash) continue;
        size_t rest = m->n_name - (size_t)(slash + 1 - m->name);
        if (rest == n && !memcmp(slash + 1, name, n)) return m;
    }
    return NULL;
}

/* ---- the pickle's values --------------------------------------------------------------------- */

/* OTHER: a value of an ignored class, such as an array of NumPy */
enum kind { NONE, NUMBER, TEXT, TUPLE, LIST, DICT, CLASS, STORAGE, TENSOR, OTHER, MARK };

enum class {
    ORDERED_DICT,
    REBUILD_TENSOR,
    REBUILD_PARAMETER,
    F32_STORAGE,
    F16_STORAGE,
    BF16_STORAGE,
    IGNORED
};

static const struct {
    const char *name;
    enum class class;
} classes[] = {
    {"collections OrderedDict", ORDERED_DICT},
    {"torch._utils _rebuild_tensor_v2", REBUILD_TENSOR},
    {"torch._utils _rebuild_parameter", REBUILD_PARAMETER},
    {"torch FloatStorage", F32_STORAGE},
    {"torch HalfStorage", F16_STORAGE},
    {"torch BFloat16Storage", BF16_STORAGE},
    {"numpy ndarray", IGNORED},
    {"numpy dtype", IGNORED},
    {"numpy.core.multiarray _reconstruct", IGNORED},
    {"numpy.core.multiarray scalar", IGNORED},
    {"numpy._core.multiarray _reconstruct", IGNORED},
    {"numpy._core.multiarray scalar", IGNORED},
    {"_codecs encode", IGNORED},
};

struct value {
    enum kind kind;
    /* NUMBER: its value; CLASS: its index; STORAGE: a tensor's type */
    int64_t number;
    /* TEXT: offset in the pickle; TUPLE: in items; TENSOR: in found; DICT and LIST: a number */
    size_t at, n;
    const struct member *storage; /* STORAGE */
};

struct found {
    uint32_t type;
    int n_dims;
    int64_t shape[SAFETENSORS_DIMS_MAX];
    const void *data;
    size_t bytes;
};

/* A tensor, dictionary or list in a dictionary or list. */
struct entry {
    size_t in;         /* number of the dictionary or list */
    size_t key, n_key; /* of a dictionary: in the pickle */
    size_t index;      /* in a list; SIZE_MAX in a dictionary */
    size_t order;      /* in the pickle */
    struct value value;
};

struct values {
    struct value *v;
    size_t n, max;
};

struct reader {
    struct torch_file *file;
    const uint8_t *p;
    size_t n, at;
    struct values stack, memo, items;
    struct found *found;
    size_t n_found, found_max;
    struct entry *entries;
    size_t n_entries, entries_max;
    size_t n_containers, n_named;
    struct err *e;
};

static int refuse(const struct reader *r, const char *what)
{
    return err_set(r->e, ERR_FORMAT, "%s: its pickle %s (byte %zu); reading stops there",
                   r->file->name, what, r->at);
}

static int push(const struct reader *r, struct values *to, struct value v)
{
    if (to->n == to->max) {
        size_t max = to->max ? 2 * to->max : 256;
        struct value *p = realloc(to->v, max * sizeof *p);
        if (!p) return err_set(r->e, ERR_FAIL, "out of memory for %s", r->file->name);
        to->v = p;
        to->max = max;
    }
    to->v[to->n++] = v;
    return 0;
}

static int pop(struct reader *r, struct value *out)
{
    if (!r->stack.n) return refuse(r, "pops from an empty stack");
    *out = r->stack.v[--r->stack.n];
    return 0;
}

/* Pops the newest mark; *first: the stack's height above it. */
static int pop_mark(struct reader *r, size_t *first)
{
    for (size_t i = r->stack.n; i-- > 0;)
        if (r->stack.v[i].kind == MARK) {
            *first = i + 1;
            return 0;
        }
    return refuse(r, "needs a mark that is not there");
}

/* Replaces stack[base …] by a tuple of the values from stack[first] on. */
static int make_tuple(struct reader *r, size_t first, size_t base)
{
    struct value t = {.kind = TUPLE, .at = r->items.n, .n = r->stack.n - first};
    for (size_t i = first; i < r->stack.n; i++) {
        int rc = push(r, &r->items, r->stack.v[i]);
        if (rc) return rc;
    }
    r->stack.n = base;
    return push(r, &r->stack, t);
}

static const struct value *item(const struct reader *r, const struct value *tuple, size_t i,
                                enum kind kind)
{
    if (tuple->kind != TUPLE || i >= tuple->n) return NULL;
    const struct value *v = &r->items.v[tuple->at + i];
    return v->kind == kind ? v : NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static size_t number_bytes(uint32_t type)
{
    return type == GGUF_T_F32 ? 4 : 2;
}

/* ("storage", class, key, location, number of elements) */
static int load_storage(struct reader *r)
{
    static const uint32_t types[] = {
        [F32_STORAGE] = GGUF_T_F32, [F16_STORAGE] = GGUF_T_F16, [BF16_STORAGE] = GGUF_T_BF16};
    struct value id = {0};
    char name[80] = "data/";
    int rc = pop(r, &id);
    if (rc) return rc;
    const struct value *class = item(r, &id, 1, CLASS), *key = item(r, &id, 2, TEXT);
    const struct value *n = item(r, &id, 4, NUMBER);
    if (!class || class->number < F32_STORAGE || class->number > BF16_STORAGE || !key ||
        key->n > 64 || !n)
        return refuse(r, "refers to something that is not a storage of floats");
    memcpy(name + 5, r->p + key->at, key->n);
    struct value v = {.kind = STORAGE, .number = types[class->number]};
    v.storage = find_member(r->file, name, 5 + key->n);
    if (!v.storage || n->number < 0 ||
        (uint64_t)n->number != v.storage->bytes / number_bytes((uint32_t)v.number))
        return refuse(r, "refers to a storage that is missing or has another size");
    return push(r, &r->stack, v);
}

/* Accepts dense rows only: stride 1 in the innermost dimension, and in each other one the product
 * of the sizes inside it. */
static bool read_shape(const struct reader *r, const struct value *sizes,
                       const struct value *strides, struct found *t, size_t *count)
{
    int64_t expected = 1;
    t->n_dims = (int)sizes->n;
    *count = 1;
    if (sizes->n < 1 || sizes->n > SAFETENSORS_DIMS_MAX || strides->n != sizes->n) return false;
    for (size_t i = sizes->n; i-- > 0;) {
        const struct value *size = item(r, sizes, i, NUMBER), *stride = item(r, strides, i, NUMBER);
        if (!size || !stride || size->number < 1 ||
            (size->number > 1 && stride->number != expected) ||
            !size_mul(*count, (size_t)size->number, count) || *count > INT64_MAX / 8)
            return false;
        t->shape[i] = size->number;
        expected = (int64_t)*count;
    }
    return true;
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks) */
static int rebuild_tensor(struct reader *r, const struct value *args)
{
    const struct value *s = item(r, args, 0, STORAGE), *offset = item(r, args, 1, NUMBER);
    const struct value *sizes = item(r, args, 2, TUPLE), *strides = item(r, args, 3, TUPLE);
    struct found t = {0};
    size_t count;
    if (!s || !offset || !sizes || !strides || !read_shape(r, sizes, strides, &t, &count))
        return refuse(r, "describes a tensor whose rows are not contiguous");
    t.type = (uint32_t)s->number;
    size_t size = number_bytes(t.type), held = s->storage->bytes / size;
    if (offset->number < 0 || (uint64_t)offset->number > held ||
        held - (size_t)offset->number < count)
        return refuse(r, "describes a tensor that is larger than its storage");
    t.data = s->storage->data + (size_t)offset->number * size;
    t.bytes = count * size;
    if (r->n_found == r->found_max) {
        size_t max = r->found_max ? 2 * r->found_max : 64;
        struct found *p = realloc(r->found, max * sizeof *p);
        if (!p) return err_set(r->e, ERR_FAIL, "out of memory for %s", r->file->name);
        r->found = p;
        r->found_max = max;
    }
    r->found[r->n_found] = t;
    return push(r, &r->stack, (struct value){.kind = TENSOR, .at = r->n_found++});
}

static int push_container(struct reader *r, enum kind kind)
{
    return push(r, &r->stack, (struct value){.kind = kind, .at = r->n_containers++});
}

static int call(struct reader *r)
{
    struct value args = {0}, class = {0};
    int rc = pop(r, &args);
    if (!rc) rc = pop(r, &class);
    if (rc) return rc;
    if (class.kind == CLASS && class.number == ORDERED_DICT) return push_container(r, DICT);
    if (class.kind == CLASS && class.number == IGNORED)
        return push(r, &r->stack, (struct value){.kind = OTHER});
    if (class.kind == CLASS && class.number == REBUILD_TENSOR) return rebuild_tensor(r, &args);
    const struct value *tensor = item(r, &args, 0, TENSOR);
    if (class.kind == CLASS && class.number == REBUILD_PARAMETER && tensor)
        return push(r, &r->stack, *tensor);
    return refuse(r, "calls a function that is not on the list of allowed ones");
}

static int find_class(struct reader *r, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == n && !memcmp(classes[i].name, name, n))
            return push(r, &r->stack, (struct value){.kind = CLASS, .number = classes[i].class});
    return err_set(r->e, ERR_FORMAT,
                   "%s: its pickle uses \"%s\", which is neither a tensor nor a dictionary; "
                   "none of it was executed",
                   r->file->name, utf8_show(name, n).text);
}

/* Only tensors, and what may contain some, matter. */
static int add_entry(struct reader *r, struct entry entry)
{
    const enum kind kind = entry.value.kind;
    if (kind != TENSOR && kind != DICT && kind != LIST) return 0;
    if (entry.n_key > NAME_BYTES) return refuse(r, "names a tensor with a name that is too long");
    if (r->n_entries == r->entries_max) {
        size_t max = r->entries_max ? 2 * r->entries_max : 64;
        struct entry *p = realloc(r->entries, max * sizeof *p);
        if (!p) return err_set(r->e, ERR_FAIL, "out of memory for %s", r->file->name);
        r->entries = p;
        r->entries_max = max;
    }
    entry.order = r->n_entries;
    r->entries[r->n_entries++] = entry;
    return 0;
}

/* Adds the pairs from stack[first] on to the dictionary below stack[base]. */
static int set_items(struct reader *r, size_t first, size_t base)
{
    size_t n = r->stack.n - first;
    if (base < 1 || r->stack.v[base - 1].kind != DICT || n % 2)
        return refuse(r, "fills something that is not a dictionary");
    int rc = 0;
    for (size_t i = first; !rc && i < r->stack.n; i += 2)
        if (r->stack.v[i].kind == TEXT)
            rc = add_entry(r, (struct entry){.in = r->stack.v[base - 1].at,
                                             .key = r->stack.v[i].at,
                                             .n_key = r->stack.v[i].n,
                                             .index = SIZE_MAX,
                                             .value = r->stack.v[i + 1]});
    r->stack.n = base;
    return rc;
}

/* Appends the values from stack[first] on to the list below stack[base], which counts them in n. */
static int append(struct reader *r, size_t first, size_t base)
{
    if (base < 1 || r->stack.v[base - 1].kind != LIST)
        return refuse(r, "appends to something that is not a list");
    struct value *list = &r->stack.v[base - 1];
    int rc = 0;
    for (size_t i = first; !rc && i < r->stack.n; i++)
        rc = add_entry(r,
                       (struct entry){.in = list->at, .index = list->n++, .value = r->stack.v[i]});
    r->stack.n = base;
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int add_tensor(struct reader *r, const char *name, const struct found *t)
{
    struct torch_file *f = r->file;
    if (f->n_tensors == f->tensors_max) {
        size_t max = f->tensors_max ? 2 * f->tensors_max : 64;
        struct safetensors_tensor *p = realloc(f->tensors, max * sizeof *p);
        if (!p) return err_set(r->e, ERR_FAIL, "out of memory for %s", f->name);
        f->tensors = p;
        f->tensors_max = max;
    }
    char *copy = strdup(name);
    if (!copy) return err_set(r->e, ERR_FAIL, "out of memory for %s", f->name);
    struct safetensors_tensor *out = &f->tensors[f->n_tensors++];
    *out = (struct safetensors_tensor){
        .name = copy, .type = t->type, .n_dims = t->n_dims, .data = t->data, .bytes = t->bytes};
    memcpy(out->shape, t->shape, sizeof out->shape);
    return 0;
}

static int by_container(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->in != y->in) return x->in < y->in ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The first of the sorted entries that is in this dictionary or list, or a later one. */
static size_t first_entry(const struct reader *r, size_t in)
{
    size_t lo = 0, hi = r->n_entries;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->entries[mid].in < in)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Names the tensors in a dictionary or list, "module.3.q_proj.weight"; path: its own name, which
 * has n bytes. A value that is stored in several places has several names, so their number is
 * limited. */
static int name_tensors(struct reader *r, size_t in, char path[PATH_BYTES], size_t n, int depth)
{
    if (depth > DEPTH_MAX) return refuse(r, "nests dictionaries too deeply");
    for (size_t i = first_entry(r, in); i < r->n_entries && r->entries[i].in == in; i++) {
        const struct entry *x = &r->entries[i];
        char index[24];
        if (++r->n_named > NAMED_MAX) return refuse(r, "names too many tensors");
        int n_index = snprintf(index, sizeof index, "%zu", x->index);
        const char *key = x->index == SIZE_MAX ? (const char *)r->p + x->key : index;
        size_t n_key = x->index == SIZE_MAX ? x->n_key : (size_t)n_index;
        if (n + n_key + 2 > PATH_BYTES)
            return refuse(r, "names a tensor with a name that is too long");
        memcpy(path + n, key, n_key);
        path[n + n_key] = '\0';
        if (x->value.kind == TENSOR) {
            int rc = add_tensor(r, path, &r->found[x->value.at]);
            if (rc) return rc;
            continue;
        }
        path[n + n_key] = '.';
        int rc = name_tensors(r, x->value.at, path, n + n_key + 1, depth + 1);
        if (rc) return rc;
    }
    return 0;
}

/* ---- the pickle's instructions --------------------------------------------------------------- */

/* n bytes of the instruction's argument. */
static int argument(struct reader *r, size_t n, const uint8_t **out)
{
    if (r->n - r->at < n) return refuse(r, "ends in the middle");
    *out = r->p + r->at;
    r->at += n;
    return 0;
}

static int push_text(struct reader *r, size_t n)
{
    const uint8_t *text = NULL;
    int rc = argument(r, n, &text);
    if (rc) return rc;
    return push(r, &r->stack, (struct value){.kind = TEXT, .at = (size_t)(text - r->p), .n = n});
}

static int skip_bytes(struct reader *r, size_t n)
{
    const uint8_t *bytes = NULL;
    int rc = argument(r, n, &bytes);
    return rc ? rc : push(r, &r->stack, (struct value){.kind = OTHER});
}

static int push_number(struct reader *r, int64_t v)
{
    return push(r, &r->stack, (struct value){.kind = NUMBER, .number = v});
}

/* An integer of up to 8 bytes, two's complement. */
static int push_long(struct reader *r, size_t n)
{
    const uint8_t *p = NULL;
    uint64_t v = 0;
    int rc = argument(r, n, &p);
    if (rc) return rc;
    if (n > 8) return refuse(r, "has a number of more than 64 bits");
    for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    if (n && n < 8 && p[n - 1] & 0x80) v |= ~(uint64_t)0 << (8 * n);
    return push_number(r, (int64_t)v);
}

/* "module\nname\n" */
static int global(struct reader *r)
{
    char name[160];
    size_t n = 0;
    for (int lines = 0; lines < 2;) {
        const uint8_t *c = NULL;
        int rc = argument(r, 1, &c);
        if (rc) return rc;
        if (*c == '\n') lines++;
        if (n < sizeof name) name[n] = *c == '\n' ? ' ' : (char)*c;
        n++;
    }
    n--; /* the last line's end */
    return find_class(r, name, n < sizeof name ? n : sizeof name - 1);
}

static int stack_global(struct reader *r)
{
    char name[160];
    struct value module = {0}, class = {0};
    int rc = pop(r, &class);
    if (!rc) rc = pop(r, &module);
    if (rc) return rc;
    if (module.kind != TEXT || class.kind != TEXT)
        return refuse(r, "names a class by something that is not text");
    int n = snprintf(name, sizeof name, "%.*s %.*s", (int)(module.n < 70 ? module.n : 70),
                     (const char *)r->p + module.at, (int)(class.n < 70 ? class.n : 70),
                     (const char *)r->p + class.at);
    return find_class(r, name, (size_t)n);
}

static int remember(struct reader *r, size_t i)
{
    if (!r->stack.n) return refuse(r, "stores a value from an empty stack");
    /* Writers number stored values from 0 on. */
    if (i > r->memo.n) return refuse(r, "stores values out of order");
    if (i < r->memo.n) r->memo.v[i] = r->stack.v[r->stack.n - 1];
    return i < r->memo.n ? 0 : push(r, &r->memo, r->stack.v[r->stack.n - 1]);
}

static int recall(struct reader *r, size_t i)
{
    if (i >= r->memo.n) return refuse(r, "loads a value that it never stored");
    return push(r, &r->stack, r->memo.v[i]);
}

/* Executes one instruction. *end: it was the last. long on purpose: a switch over the
 * instructions. */
static int run_one(struct reader *r, bool *end)
{
    const uint8_t *p = NULL;
    struct value ignored = {0};
    size_t first = 0;
    int rc = argument(r, 1, &p);
    if (rc) return rc;
    uint8_t op = *p;
    static const uint8_t wide[256] = {
        [0x80] = 1, [0x95] = 8, ['q'] = 1,  ['h'] = 1,  ['r'] = 4, ['j'] = 4, ['K'] = 1, ['M'] = 2,
        ['J'] = 4,  ['X'] = 4,  [0x8c] = 1, [0x8a] = 1, ['G'] = 8, ['C'] = 1, ['B'] = 4,
    };
    if (wide[op] && argument(r, wide[op], &p)) return r->e->code;
    switch (op) {
    case 0x80: return *p >= 2 && *p <= 5 ? 0 : refuse(r, "has an unknown protocol");
    case 0x95: return 0; /* FRAME */
    case '.': *end = true; return 0;
    case '(': return push(r, &r->stack, (struct value){.kind = MARK});
    case ')': return make_tuple(r, r->stack.n, r->stack.n);
    case ']': return push_container(r, LIST);
    case '}': return push_container(r, DICT);
    case 'N': return push(r, &r->stack, (struct value){.kind = NONE});
    case 0x88: return push_number(r, 1);
    case 0x89: return push_number(r, 0);
    case 'K': return push_number(r, *p);
    case 'M': return push_number(r, (int64_t)le16(p));
    case 'J': return push_number(r, (int32_t)le32(p));
    case 'G': return push(r, &r->stack, (struct value){.kind = OTHER}); /* a float */
    case 'C': return skip_bytes(r, *p);
    case 'B': return skip_bytes(r, le32(p));
    case 0x8a: return push_long(r, *p);
    case 'X': return push_text(r, le32(p));
    case 0x8c: return push_text(r, *p);
    case 'c': return global(r);
    case 0x93: return stack_global(r);
    case 'q': return remember(r, *p);
    case 'r': return remember(r, le32(p));
    case 0x94: return remember(r, r->memo.n);
    case 'h': return recall(r, *p);
    case 'j': return recall(r, le32(p));
    case 't': rc = pop_mark(r, &first); return rc ? rc : make_tuple(r, first, first - 1);
    case 0x85:
    case 0x86:
    case 0x87:
        first = (size_t)op - 0x84;
        if (r->stack.n < first) return refuse(r, "pops from an empty stack");
        first = r->stack.n - first;
        return make_tuple(r, first, first);
    case 'Q': return load_storage(r);
    case 'R': return call(r);
    case 's':
        if (r->stack.n < 3) return refuse(r, "pops from an empty stack");
        return set_items(r, r->stack.n - 2, r->stack.n - 2);
    case 'u': rc = pop_mark(r, &first); return rc ? rc : set_items(r, first, first - 1);
    case 'e': rc = pop_mark(r, &first); return rc ? rc : append(r, first, first - 1);
    case 'a':
        if (r->stack.n < 2) return refuse(r, "pops from an empty stack");
        return append(r, r->stack.n - 1, r->stack.n - 1);
    case 'b': return pop(r, &ignored); /* attributes (_metadata) and states are ignored */
    default: return refuse(r, "has an instruction that tensors do not need");
    }
}

static int run(struct reader *r)
{
    char path[PATH_BYTES];
    bool end = false;
    int rc = 0;
    while (!rc && !end) rc = run_one(r, &end);
    if (!rc && (r->stack.n != 1 || r->stack.v[0].kind != DICT))
        rc = refuse(r, "is not a dictionary of tensors");
    if (r->n_entries) qsort(r->entries, r->n_entries, sizeof *r->entries, by_container);
    if (!rc) rc = name_tensors(r, r->stack.v[0].at, path, 0, 0);
    free(r->entries);
    free(r->stack.v);
    free(r->memo.v);
    free(r->items.v);
    free(r->found);
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

int torch_file_open(struct torch_file **out, const void *bytes, size_t n, const char *name,
                    struct err *e)
{
    struct torch_file *f = calloc(1, sizeof *f);
    struct err unseen;
    *out = NULL;
    if (!e) e = &unseen;
    if (!f) return err_set(e, ERR_FAIL, "out of memory for %s", name);
    *f = (struct torch_file){.name = name, .bytes = bytes, .n_bytes = n};
    int rc = read_list(f, e);
    const struct member *pickle = rc ? NULL : find_member(f, "data.pkl", 8);
    const struct member *order = rc ? NULL : find_member(f, "byteorder", 9);
    if (!rc && !pickle) rc = damaged(f, "data.pkl is missing", e);
    if (!rc && pickle->bytes > PICKLE_MAX) rc = damaged(f, "data.pkl is too large", e);
    if (!rc && order && (order->bytes != 6 || memcmp(order->data, "little", 6)))
        rc = err_set(e, ERR_FORMAT, "%s: its numbers are big-endian, which is not supported", name);
    if (!rc) {
        struct reader r = {.file = f, .p = pickle->data, .n = pickle->bytes, .e = e};
        rc = run(&r);
    }
    if (rc)
        torch_file_close(f);
    else
        *out = f;
    return rc;
}

void torch_file_close(struct torch_file *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n_tensors; i++) free((char *)f->tensors[i].name);
    free(f->tensors);
    free(f->members);
    free(f);
}

size_t torch_file_n(const struct torch_file *f)
{
    return f->n_tensors;
}

const struct safetensors_tensor *torch_file_find(const struct torch_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name)) return &f->tensors[i];
    return NULL;
}
