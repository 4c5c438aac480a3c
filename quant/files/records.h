/* records: the JSON objects of a file, one by one, with the line where each begins. A file is JSON
 * lines, or an array of objects, or one object over several lines; it is mapped, not copied. */
#ifndef RETAIN_QUANT_FILES_RECORDS_H
#define RETAIN_QUANT_FILES_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"

struct records { /* zero-initialise */
    const char *path;
    char *data;
    size_t n, at;
    int64_t line;      /* at `at`, from 1 */
    bool lines, array; /* lines: each record is one line */
};

/* `path` is not copied. ERR_FAIL or ERR_FORMAT names the file. */
int records_open(struct records *r, const char *path, struct err *e);
void records_close(struct records *r);

/* 1 and the next object, which the caller frees, and its line; 0 at the end; ERR_FORMAT with file
 * and line when it is no object in UTF-8. */
int records_next(struct records *r, cJSON **out, int64_t *line, struct err *e);

#endif
