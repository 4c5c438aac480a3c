/* records: the JSON objects of a file, one on each line (JSON Lines, jsonlines.org). */
#ifndef RETAIN_QUANT_FILES_RECORDS_H
#define RETAIN_QUANT_FILES_RECORDS_H

#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "base/err.h"

struct records { /* zero-initialise */
    const char *path;
    FILE *file;
    char *text; /* the last line */
    size_t cap;
    int64_t line; /* its number, from 1 */
};

/* `path` is not copied. ERR_FAIL names the file: it must be a regular one. */
int records_open(struct records *r, const char *path, struct err *e);
void records_close(struct records *r);

/* 1 and the next object, which the caller frees; empty lines are skipped. 0 at the end. ERR_FORMAT
 * with file and line when a line is no object in UTF-8 or is too long. */
int records_next(struct records *r, cJSON **out, struct err *e);

#endif
