#include "quant/files/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"

int records_open(struct records *r, const char *path, struct err *e)
{
    *r = (struct records){.path = path, .file = file_open(path, FILE_RECORDS, e)};
    return r->file ? 0 : ERR_FAIL;
}

void records_close(struct records *r)
{
    if (r->file) fclose(r->file);
    free(r->text);
    *r = (struct records){0};
}

static int fail(const struct records *r, struct err *e, const char *what, size_t at)
{
    return err_set(e, ERR_FORMAT, "%s:%lld: %s %zu", r->path, (long long)r->line, what, at);
}

static size_t skip_space(const char *s, size_t at, size_t n)
{
    while (at < n && strchr(" \t\r\n", s[at]) && s[at]) at++;
    return at;
}

static int parse(const struct records *r, size_t n, cJSON **out, struct err *e)
{
    const char *stop = r->text;
    size_t invalid = utf8_invalid(r->text, n);
    if (invalid < n) return fail(r, e, "this byte of the line is not UTF-8:", invalid + 1);
    cJSON *o = cJSON_ParseWithLengthOpts(r->text, n, &stop, false);
    size_t end = skip_space(r->text, (size_t)(stop - r->text), n);
    if (!cJSON_IsObject(o) || end < n) {
        cJSON_Delete(o);
        return fail(r, e, "expected a JSON object; it is wrong at byte", end + 1);
    }
    *out = o;
    return 1;
}

int records_next(struct records *r, cJSON **out, struct err *e)
{
    ssize_t n;
    *out = NULL;
    do {
        errno = 0;
        r->line++;
        n = file_line(r->file, FILE_RECORDS, &r->text, &r->cap);
        if (n < 0 && errno)
            return fail(r, e, "the line cannot be read; its bytes must be at most",
                        file_max(FILE_RECORDS));
    } while (n > 0 && skip_space(r->text, 0, (size_t)n) == (size_t)n);
    return n < 0 ? 0 : parse(r, (size_t)n, out, e);
}
