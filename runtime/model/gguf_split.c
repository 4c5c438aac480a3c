/* Opening files: one, or all parts of a split model. The parts are mapped one after another into
 * one range of addresses, each at a multiple of PART_ALIGN with zeros between them, so that a split
 * model has bytes, tensors and a digest like a model in one file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/str.h"
#include "runtime/model/gguf_parts.h"

#define PART_ALIGN ((size_t)64 << 10) /* a multiple of every page size */

/* ---- files ----------------------------------------------------------------------------------- */

static int check_kind(const char *path, const struct stat *st, struct err *e)
{
    if (S_ISDIR(st->st_mode))
        return err_set(e, ERR_FORMAT, "%s: is a folder; name the .gguf file in it", path);
    if (!S_ISREG(st->st_mode)) return err_set(e, ERR_FORMAT, "%s: is not a regular file", path);
    if (st->st_size == 0) return err_set(e, ERR_FORMAT, "%s: is empty: download it again", path);
    if (st->st_size < 0 || (uintmax_t)st->st_size > SIZE_MAX / 2)
        return err_set(e, ERR_FORMAT, "%s: is too large for this system", path);
    return 0;
}

static int open_fd(const char *path, int *fd, size_t *n, struct err *e)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
    if (*fd < 0) return err_set(e, ERR_FORMAT, "%s: %s", path, strerror(errno));
    int rc = fstat(*fd, &st) ? err_set(e, ERR_FORMAT, "%s: %s", path, strerror(errno))
                             : check_kind(path, &st, e);
    if (rc) close(*fd);
    *n = rc ? 0 : (size_t)st.st_size;
    return rc;
}

static int open_file(struct gguf **out, const char *path, struct err *e)
{
    struct gguf_opening o = {.mapped = true};
    int fd;
    int rc = open_fd(path, &fd, &o.n, e);
    if (rc) return rc;
    o.bytes = mmap(NULL, o.n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (o.bytes == MAP_FAILED)
        rc = err_set(e, ERR_FAIL, "%s: cannot be mapped: %s", path, strerror(errno));
    close(fd);
    return rc ? rc : gguf_open_over(out, &o, path, e);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Adds the tensors of `part` to g and frees `part`, but not its bytes. */
static int join(struct gguf *g, struct gguf *part, struct err *e)
{
    size_t n = g->n_tensors + part->n_tensors;
    g->tensors = memory_grow(g->tensors, n + 1, sizeof *g->tensors);
    g->by_name = memory_grow(g->by_name, n + 1, sizeof *g->by_name);
    memcpy(g->tensors + g->n_tensors, part->tensors, part->n_tensors * sizeof *g->tensors);
    g->n_tensors = n;
    const int rc = gguf_index_tensors(g, e);
    part->mapped = false;
    gguf_close(part);
    return rc;
}

/* Whether `part` is number i, from 0, of the model whose first part is g. */
static int check_part(const struct gguf *g, const struct gguf *part, uint32_t i, struct err *e)
{
    uint32_t no = 0, count = 0, expected = 0;
    gguf_get_u32(g, "split.count", &expected);
    if (gguf_get_u32(part, "split.no", &no) && gguf_get_u32(part, "split.count", &count) &&
        no == i && count == expected)
        return 0;
    return err_set(e, ERR_FORMAT, "%s: is not part %u of %u of the model %s", part->name, i + 1,
                   expected, g->name);
}

/* Takes part i of the model *g; the first one is *g. */
static int add_part(struct gguf **g, struct gguf *part, uint32_t i, struct err *e)
{
    int rc = i ? check_part(*g, part, i, e) : 0;
    if (rc)
        gguf_close(part);
    else if (i)
        rc = join(*g, part, e);
    else
        *g = part;
    return rc;
}

int gguf_open_starts(struct gguf **out, const struct gguf_start *parts, int n, struct err *e)
{
    struct gguf *g = NULL, *part;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        const struct gguf_opening o = {
            .bytes = parts[i].bytes, .n = parts[i].n, .start_only = true};
        rc = gguf_open_over(&part, &o, parts[i].name, e);
        if (!rc) rc = add_part(&g, part, (uint32_t)i, e);
    }
    if (rc) gguf_close(g);
    *out = rc ? NULL : g;
    return rc;
}

/* ---- a split model on disk ------------------------------------------------------------------- */

struct split {
    const char *path; /* of the first part */
    uint32_t n;
    uint8_t *base; /* of all bytes */
    size_t bytes;
};

/* Reserves addresses for all parts. */
static int reserve(struct split *s, struct err *e)
{
    struct str path = {0};
    int rc = 0;
    for (uint32_t i = 0; i < s->n && !rc; i++) {
        struct stat st;
        file_part_path(&path, s->path, (int)i);
        if (stat(str_get(&path), &st))
            rc = err_set(e, ERR_FORMAT, "%s: %s; all %u parts of the model must be in one folder",
                         str_get(&path), strerror(errno), s->n);
        else
            rc = check_kind(str_get(&path), &st, e);
        if (!rc && !size_add(s->bytes, size_align((size_t)st.st_size, PART_ALIGN), &s->bytes))
            rc = err_set(e, ERR_FORMAT, "%s: is too large for this system", s->path);
    }
    str_release(&path);
    if (rc) return rc;
    s->base = mmap(NULL, s->bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->base != MAP_FAILED) return 0;
    s->base = NULL;
    return err_set(e, ERR_FAIL, "%s: cannot be mapped: %s", s->path, strerror(errno));
}

/* Maps part i at byte `at` and moves `at` to its end. */
static int map_part(const struct split *s, uint32_t i, size_t *at, struct gguf **out, struct err *e)
{
    struct str path = {0};
    struct gguf_opening o = {0};
    int fd;
    file_part_path(&path, s->path, (int)i);
    int rc = open_fd(str_get(&path), &fd, &o.n, e);
    if (!rc) {
        bool fits = o.n <= s->bytes - *at;
        o.bytes =
            fits ? mmap(s->base + *at, o.n, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) : MAP_FAILED;
        if (o.bytes == MAP_FAILED)
            rc = err_set(e, ERR_FAIL, "%s: cannot be mapped: %s", str_get(&path),
                         fits ? strerror(errno) : "it grew while it was opened");
        close(fd);
    }
    if (!rc) rc = gguf_open_over(out, &o, str_get(&path), e);
    *at += size_align(o.n, PART_ALIGN);
    str_release(&path);
    return rc;
}

static int open_parts(struct gguf **out, struct split *s, struct err *e)
{
    struct gguf *g = NULL, *part;
    size_t at = 0;
    int rc = reserve(s, e);
    for (uint32_t i = 0; i < s->n && !rc; i++) {
        rc = map_part(s, i, &at, &part, e);
        if (!rc) rc = add_part(&g, part, i, e);
    }
    if (!rc) {
        g->n = s->bytes;
        g->mapped = true;
        *out = g;
        return 0;
    }
    gguf_close(g);
    if (s->base) munmap(s->base, s->bytes);
    return rc;
}

int gguf_open(struct gguf **out, const char *path, struct err *e)
{
    struct gguf *g;
    uint32_t no = 0, count = 0;
    *out = NULL;
    int rc = open_file(&g, path, e);
    if (rc) return rc;
    gguf_get_u32(g, "split.no", &no);
    if (!gguf_get_u32(g, "split.count", &count) || count <= 1) {
        *out = g;
        return 0;
    }
    int n_named = file_parts(path);
    gguf_close(g);
    if (no)
        return err_set(e, ERR_FORMAT, "%s: is part %u of %u of a model; name the first part", path,
                       no + 1, count);
    if ((int64_t)n_named != count)
        return err_set(e, ERR_FORMAT,
                       "%s: is the first of %u parts of a model, so its name must end in "
                       "-00001-of-%05u.gguf",
                       path, count, count);
    struct split s = {.path = path, .n = count};
    return open_parts(out, &s, e);
}
