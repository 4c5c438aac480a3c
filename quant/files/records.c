#include "quant/files/records.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Skips white space and, between the objects of an array, commas. */
static void skip(struct records *r)
{
    while (r->at < r->n && (is_space(r->data[r->at]) || (r->array && r->data[r->at] == ',')))
        r->line += r->data[r->at++] == '\n';
}

/* The end of the value that begins at `at`: behind the bracket that closes it; n = it is open. */
static size_t value_end(const char *s, size_t at, size_t n)
{
    int depth = 0;
    for (bool quoted = false; at < n; at++) {
        if (quoted) {
            if (s[at] == '\\')
                at++;
            else if (s[at] == '"')
                quoted = false;
        } else if (s[at] == '"') {
            quoted = true;
        } else if (s[at] == '{' || s[at] == '[') {
            depth++;
        } else if ((s[at] == '}' || s[at] == ']') && --depth <= 0) {
            return at + 1;
        }
    }
    return n;
}

static size_t line_end(const struct records *r, size_t at)
{
    const char *end = memchr(r->data + at, '\n', r->n - at);
    return end ? (size_t)(end - r->data) : r->n;
}

int records_open(struct records *r, const char *path, struct err *e)
{
    struct stat st;
    *r = (struct records){.path = path, .line = 1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st)) {
        int rc = err_set(e, ERR_FAIL, "%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return rc;
    }
    bool file = S_ISREG(st.st_mode) && st.st_size > 0;
    void *data = file ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (data == MAP_FAILED)
        return err_set(e, ERR_FORMAT, "%s: expected a file with JSON objects, one on each line",
                       path);
    r->data = data;
    r->n = (size_t)st.st_size;
    skip(r);
    r->array = r->at < r->n && r->data[r->at] == '[';
    if (r->array) r->at++;
    r->lines = !r->array && value_end(r->data, r->at, r->n) <= line_end(r, r->at);
    return 0;
}

void records_close(struct records *r)
{
    if (r->data) munmap(r->data, r->n);
    *r = (struct records){0};
}

/* The first byte that is not UTF-8; n = none. */
static size_t find_invalid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int length = (unsigned char)s[i] < 0x80 ? 1 : utf8_length(s + i, n - i);
        if (length <= 0) return i;
        i += (size_t)length;
    }
    return n;
}

int records_next(struct records *r, cJSON **out, int64_t *line, struct err *e)
{
    skip(r);
    *out = NULL;
    *line = r->line;
    if (r->array && r->at < r->n && r->data[r->at] == ']') return 0;
    if (r->at == r->n)
        return r->array ? err_set(e, ERR_FORMAT, "%s:%lld: the file ends inside a list", r->path,
                                  (long long)r->line)
                        : 0;
    size_t end = r->lines ? line_end(r, r->at) : value_end(r->data, r->at, r->n);
    const char *text = r->data + r->at, *stop = text;
    size_t n = end - r->at, invalid = find_invalid(text, n);
    if (invalid < n)
        return err_set(e, ERR_FORMAT, "%s:%lld: byte %zu is not UTF-8", r->path, (long long)r->line,
                       invalid + 1);
    cJSON *o = cJSON_ParseWithLengthOpts(text, n, &stop, false);
    while (o && stop < text + n && is_space(*stop)) stop++;
    if (!cJSON_IsObject(o) || stop < text + n) {
        cJSON_Delete(o);
        return err_set(e, ERR_FORMAT, "%s:%lld: expected a JSON object; it is wrong at byte %zu",
                       r->path, (long long)r->line, (size_t)(stop - text) + 1);
    }
    for (; r->at < end; r->at++) r->line += r->data[r->at] == '\n';
    *out = o;
    return 1;
}
