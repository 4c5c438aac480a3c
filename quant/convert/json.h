/* json: queries on the JSON files of a model folder, as cJSON trees. Names in them come from the
 * file and must be printed through json_show. */
#ifndef RETAIN_QUANT_CONVERT_JSON_H
#define RETAIN_QUANT_CONVERT_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/utf8.h"

/* The caller frees *out with cJSON_Delete (NULL on error: ERR_FORMAT, or ERR_FAIL without memory).
 * `name` is used in messages. */
int json_parse(cJSON **out, const char *text, size_t n, const char *name, struct err *e);
int json_read(cJSON **out, const char *path, struct err *e);

/* All accept NULL and values of any kind; names are compared exactly. */
const cJSON *json_member(const cJSON *o, const char *name);
const char *json_text(const cJSON *o, const char *name); /* NULL = not a string */
bool json_bool(const cJSON *o, const char *name, bool otherwise);
bool json_int(const cJSON *o, const char *name, int64_t min, int64_t max, int64_t *out);
bool json_number(const cJSON *o, const char *name, double *out);
/* A whole number within the range that a double holds exactly. */
bool json_is_int(const cJSON *v, int64_t min, int64_t max, int64_t *out);

/* A name from such a file, made safe for messages. */
struct utf8_shown json_show(const char *name);

#endif
