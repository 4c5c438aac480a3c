#include "quant/convert/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/size.h"
#include "base/str.h"
#include "quant/convert/json.h"
#include "runtime/model/gguf.h"

#define HEADER_MAX (16u << 20) /* 100,000 tensors; limits the memory for parsing it */
#define FILES_MAX  1024

struct file {
    char *name; /* path, for messages */
    const uint8_t *bytes;
    size_t n;
    bool mapped;
};

struct entry {
    struct safetensors_tensor tensor;
    char *name;         /* owned */
    const char *source; /* the file that contains it */
    size_t begin, end;  /* offsets in the file's data */
};

struct safetensors {
    struct file *files;
    size_t n_files;
    struct entry *entries; /* sorted by name once all files are read */
    size_t n, cap;
};

static const struct {
    const char *name;
    uint32_t type;
    size_t bytes;
} dtypes[] = {{"F32", GGUF_T_F32, 4},
              {"F16", GGUF_T_F16, 2},
              {"BF16", GGUF_T_BF16, 2},
              {"U8", SAFETENSORS_BYTES, 1}};
#define N_DTYPES (sizeof dtypes / sizeof *dtypes)

/* ---- one tensor of the header ---------------------------------------------------------------- */

static int bad(const struct file *f, const char *name, const char *what, struct err *e)
{
    struct utf8_shown shown = json_show(name);
    return err_set(e, ERR_FORMAT, "%s: tensor '%s' %s: the file is damaged or not safetensors",
                   f->name, shown.text, what);
}

static int read_dtype(const struct file *f, const cJSON *o, struct entry *t, size_t *each,
                      struct err *e)
{
    const char *name = json_text(o, "dtype");
    if (!name) return bad(f, t->name, "has no dtype", e);
    for (size_t i = 0; i < N_DTYPES; i++) {
        if (strcmp(name, dtypes[i].name)) continue;
        t->tensor.type = dtypes[i].type;
        *each = dtypes[i].bytes;
        return 0;
    }
    struct utf8_shown shown = json_show(t->name), type = json_show(name);
    return err_set(e, ERR_FORMAT,
                   "%s: tensor '%s' has dtype %s; supported are F32, F16 and BF16: use the "
                   "original, unquantized model",
                   f->name, shown.text, type.text);
}

static int read_shape(const struct file *f, const cJSON *o, struct entry *t, size_t *n,
                      struct err *e)
{
    const cJSON *shape = json_member(o, "shape"), *item;
    *n = 1;
    if (!cJSON_IsArray(shape)) return bad(f, t->name, "has no shape", e);
    cJSON_ArrayForEach(item, shape)
    {
        int64_t v;
        if (t->tensor.n_dims == SAFETENSORS_DIMS_MAX)
            return bad(f, t->name, "has more than 4 dimensions", e);
        if (!json_is_int(item, 1, INT64_MAX, &v))
            return bad(f, t->name, "has a dimension that is not a positive number", e);
        if (!size_mul(*n, (size_t)v, n)) return bad(f, t->name, "is larger than any memory", e);
        t->tensor.shape[t->tensor.n_dims++] = v;
    }
    return 0;
}

static int read_offsets(const struct file *f, const cJSON *o, struct entry *t, size_t data_bytes,
                        struct err *e)
{
    const cJSON *offsets = json_member(o, "data_offsets");
    int64_t begin, end;
    if (cJSON_GetArraySize(offsets) != 2 ||
        !json_is_int(cJSON_GetArrayItem(offsets, 0), 0, INT64_MAX, &begin) ||
        !json_is_int(cJSON_GetArrayItem(offsets, 1), 0, INT64_MAX, &end))
        return bad(f, t->name, "lacks two data_offsets", e);
    if (begin > end || (uint64_t)end > data_bytes) {
        struct utf8_shown shown = json_show(t->name);
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' is at bytes %" PRId64 " to %" PRId64 " of the data, which "
                       "has %zu: the file is damaged or not completely downloaded",
                       f->name, shown.text, begin, end, data_bytes);
    }
    t->begin = (size_t)begin;
    t->end = (size_t)end;
    return 0;
}

static int read_tensor(const struct file *f, const cJSON *o, const uint8_t *data, size_t data_bytes,
                       struct entry *t, struct err *e)
{
    size_t n, each = 0, bytes = 0;
    if (!cJSON_IsObject(o)) return bad(f, t->name, "is not a JSON object", e);
    int rc = read_dtype(f, o, t, &each, e);
    if (!rc) rc = read_shape(f, o, t, &n, e);
    if (!rc) rc = read_offsets(f, o, t, data_bytes, e);
    if (rc) return rc;
    if (!size_mul(n, each, &bytes) || bytes != t->end - t->begin)
        return bad(f, t->name, "has a shape that doesn't fit its data_offsets", e);
    t->tensor.data = data + t->begin;
    t->tensor.bytes = bytes;
    t->tensor.name = t->name;
    t->source = f->name;
    return 0;
}

/* ---- one file -------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Tensors must be back to back from the first byte of the data to the last. */
static int check_places(const struct file *f, struct entry *first, size_t n, size_t data_bytes,
                        struct err *e)
{
    size_t at = 0;
    qsort(first, n, sizeof *first, by_place);
    for (size_t i = 0; i < n; i++) {
        if (first[i].begin != at)
            return bad(f, first[i].name,
                       first[i].begin < at ? "overlaps another one" : "leaves a hole before it", e);
        at = first[i].end;
    }
    if (at == data_bytes) return 0;
    return err_set(e, ERR_FORMAT,
                   "%s: %zu bytes of data, but its tensors are %zu: the file is damaged", f->name,
                   data_bytes, at);
}

static int read_header(struct safetensors *s, const struct file *f, const cJSON *header,
                       size_t data_at, struct err *e)
{
    const cJSON *o;
    size_t first = s->n;
    if (!cJSON_IsObject(header))
        return err_set(e, ERR_FORMAT, "%s: its header is not a JSON object", f->name);
    cJSON_ArrayForEach(o, header)
    {
        if (!strcmp(o->string, "__metadata__")) continue;
        s->entries = memory_more(s->entries, s->n, &s->cap, sizeof *s->entries);
        struct entry *t = &s->entries[s->n++];
        *t = (struct entry){.name = memory_copy(o->string)};
        int rc = read_tensor(f, o, f->bytes + data_at, f->n - data_at, t, e);
        if (rc) return rc;
    }
    if (s->n == first) return err_set(e, ERR_FORMAT, "%s: holds no tensors", f->name);
    return check_places(f, s->entries + first, s->n - first, f->n - data_at, e);
}

static int bad_length(const struct file *f, uint64_t n_header, struct err *e)
{
    if (f->n >= 2 && (!memcmp(f->bytes, "PK", 2) || !memcmp(f->bytes, "\x80\2", 2)))
        return err_set(e, ERR_FORMAT,
                       "%s was written by torch.save; convert it: "
                       "quant/heads/to_safetensors.py %s heads.safetensors",
                       f->name, f->name);
    if (f->n < sizeof n_header)
        return err_set(e, ERR_FORMAT, "%s: is too short for a safetensors file", f->name);
    return err_set(e, ERR_FORMAT,
                   "%s: claims a header of %" PRIu64
                   " bytes, but the file has %zu and %u are allowed: it is damaged or not a "
                   "safetensors file",
                   f->name, n_header, f->n, HEADER_MAX);
}

static int read_file(struct safetensors *s, const struct file *f, struct err *e)
{
    uint64_t n_header = 0;
    size_t data_at = sizeof n_header;
    cJSON *header;
    if (f->n >= data_at) memcpy(&n_header, f->bytes, sizeof n_header);
    if (f->n < data_at || n_header > f->n - data_at || n_header > HEADER_MAX)
        return bad_length(f, n_header, e);
    int rc = json_parse(&header, (const char *)f->bytes + data_at, (size_t)n_header, f->name, e);
    if (!rc) rc = read_header(s, f, header, data_at + (size_t)n_header, e);
    cJSON_Delete(header);
    return rc;
}

static int map(struct file *f, struct err *e)
{
    struct stat st;
    int fd = open(f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(e, ERR_FORMAT, "%s: %s", f->name, strerror(errno));
    int rc = 0;
    void *p = NULL;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
        rc = err_set(e, ERR_FORMAT, "%s: is empty or not a regular file", f->name);
    if (!rc) {
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            rc = err_set(e, ERR_FAIL, "%s: cannot be mapped: %s", f->name, strerror(errno));
    }
    close(fd);
    if (rc) return rc;
    f->bytes = p;
    f->n = (size_t)st.st_size;
    f->mapped = true;
    return 0;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* name NULL: `folder` is the file. */
static void add_file(struct safetensors *s, const char *folder, const char *name)
{
    struct str path = {0};
    str_puts(&path, folder);
    if (name) str_printf(&path, "/%s", name);
    s->files = memory_grow(s->files, s->n_files + 1, sizeof *s->files);
    s->files[s->n_files++] = (struct file){.name = path.data};
}

static bool has_file(const struct safetensors *s, const char *folder, const char *name)
{
    size_t n = strlen(folder) + 1;
    for (size_t i = 0; i < s->n_files; i++)
        if (!strcmp(s->files[i].name + n, name)) return true;
    return false;
}

/* Shards are files of the folder itself: an index can't name files elsewhere. */
static int list_shards(struct safetensors *s, const char *folder, const char *path,
                       const cJSON *index, struct err *e)
{
    const cJSON *o, *map_of_weights = json_member(index, "weight_map");
    if (!cJSON_IsObject(map_of_weights))
        return err_set(e, ERR_FORMAT, "%s: has no weight_map", path);
    cJSON_ArrayForEach(o, map_of_weights)
    {
        const char *name = cJSON_GetStringValue(o);
        if (!name || !*name || strchr(name, '/') || name[0] == '.') {
            struct utf8_shown shown = json_show(name ? name : "?");
            return err_set(e, ERR_FORMAT,
                           "%s: weight_map names '%s', which is not a file of the folder", path,
                           shown.text);
        }
        if (has_file(s, folder, name)) continue;
        if (s->n_files == FILES_MAX)
            return err_set(e, ERR_FORMAT, "%s: names more than %d files", path, FILES_MAX);
        add_file(s, folder, name);
    }
    if (!s->n_files) return err_set(e, ERR_FORMAT, "%s: names no files", path);
    return 0;
}

/* Every tensor must be in the file that the index names. */
static int check_index(const struct safetensors *s, const char *folder, const char *path,
                       const cJSON *index, struct err *e)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, json_member(index, "weight_map"))
    {
        struct entry want = {.name = o->string};
        const struct entry *t = bsearch(&want, s->entries, s->n, sizeof *t, by_name);
        if (t && !strcmp(t->source + strlen(folder) + 1, o->valuestring)) continue;
        struct utf8_shown shown = json_show(o->string), file = json_show(o->valuestring);
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' is not in %s: a file is missing or damaged",
                       path, shown.text, file.text);
    }
    return 0;
}

static int sort_entries(struct safetensors *s, struct err *e)
{
    qsort(s->entries, s->n, sizeof *s->entries, by_name);
    for (size_t i = 1; i < s->n; i++) {
        if (by_name(&s->entries[i - 1], &s->entries[i])) continue;
        struct utf8_shown shown = json_show(s->entries[i].name);
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' occurs twice", s->entries[i].source,
                       shown.text);
    }
    return 0;
}

/* A folder's files with the tensors, or one file; *index: that of the folder, if it has one. */
static int list_files(struct safetensors *s, const char *path, struct str *index_path,
                      cJSON **index, struct err *e)
{
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
        add_file(s, path, NULL);
        return 0;
    }
    str_printf(index_path, "%s/model.safetensors.index.json", path);
    if (access(index_path->data, F_OK)) {
        add_file(s, path, "model.safetensors");
        return 0;
    }
    int rc = json_read(index, index_path->data, e);
    return rc ? rc : list_shards(s, path, index_path->data, *index, e);
}

static int open_path(struct safetensors *s, const char *path, struct err *e)
{
    struct str index_path = {0};
    cJSON *index = NULL;
    int rc = list_files(s, path, &index_path, &index, e);
    for (size_t i = 0; !rc && i < s->n_files; i++) {
        rc = map(&s->files[i], e);
        if (!rc) rc = read_file(s, &s->files[i], e);
    }
    if (!rc) rc = sort_entries(s, e);
    if (!rc && index) rc = check_index(s, path, index_path.data, index, e);
    cJSON_Delete(index);
    str_release(&index_path);
    return rc;
}

/* Closes it if it could not be opened. */
static int opened(struct safetensors *s, int rc, struct safetensors **out)
{
    if (rc) safetensors_close(s);
    *out = rc ? NULL : s;
    return rc;
}

int safetensors_open(struct safetensors **out, const char *path, struct err *e)
{
    struct safetensors *s = memory_new(1, sizeof *s);
    return opened(s, open_path(s, path, e), out);
}

int safetensors_open_bytes(struct safetensors **out, const void *bytes, size_t n, const char *name,
                           struct err *e)
{
    struct safetensors *s = memory_new(1, sizeof *s);
    add_file(s, name, NULL);
    s->files[0].bytes = bytes;
    s->files[0].n = n;
    int rc = read_file(s, &s->files[0], e);
    return opened(s, rc ? rc : sort_entries(s, e), out);
}

void safetensors_close(struct safetensors *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n; i++) free(s->entries[i].name);
    for (size_t i = 0; i < s->n_files; i++) {
        if (s->files[i].mapped) munmap((void *)(uintptr_t)s->files[i].bytes, s->files[i].n);
        free(s->files[i].name);
    }
    free(s->entries);
    free(s->files);
    free(s);
}

size_t safetensors_n(const struct safetensors *s)
{
    return s->n;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i)
{
    return i < s->n ? &s->entries[i].tensor : NULL;
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct entry want = {.name = (char *)(uintptr_t)name};
    const struct entry *t = bsearch(&want, s->entries, s->n, sizeof *t, by_name);
    return t ? &t->tensor : NULL;
}
