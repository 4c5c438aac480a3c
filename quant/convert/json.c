#include "quant/convert/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/file.h"

/* about 64 bytes each once parsed; the largest tokenizers have 2.5 M */
#define VALUES_MAX (8u << 20)

/* An upper bound of the values in a text: each value but the first follows one of these
 * characters. */
static size_t values_at_most(const char *text, size_t n)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++) count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return count;
}

int json_parse(cJSON **out, const char *text, size_t n, const char *name, struct err *e)
{
    const char *end = NULL;
    *out = NULL;
    if (values_at_most(text, n) > VALUES_MAX)
        return err_set(e, ERR_FORMAT, "%s: holds more values than any model description", name);
    errno = 0;
    *out = cJSON_ParseWithLengthOpts(text, n, &end, false);
    if (*out) return 0;
    if (errno == ENOMEM) return err_set(e, ERR_FAIL, "%s: out of memory", name);
    size_t at = end && end >= text && (size_t)(end - text) <= n ? (size_t)(end - text) : 0;
    return err_set(e, ERR_FORMAT, "%s: is not valid JSON from byte %zu on: the file is damaged",
                   name, at);
}

/* Python writes Infinity, which JSON does not have: a number of as many characters becomes it. */
static void replace_infinity(char *text)
{
    static const char name[] = "Infinity", number[] = "1.0e+999";
    bool quoted = false;
    for (; *text; text++) {
        if (*text == '\\' && quoted && text[1])
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && !strncmp(text, name, sizeof name - 1))
            memcpy(text, number, sizeof number - 1);
    }
}

int json_read(cJSON **out, const char *path, struct err *e)
{
    struct str text = {0};
    *out = NULL;
    int rc = file_read(path, FILE_MODEL, &text, e);
    if (rc && e) e->code = ERR_FORMAT; /* an unreadable part of a model */
    if (!rc && text.n) replace_infinity(text.data);
    rc = rc ? ERR_FORMAT : json_parse(out, str_get(&text), text.n, path, e);
    str_release(&text);
    return rc;
}

const cJSON *json_member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

const char *json_text(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(json_member(o, name));
}

bool json_bool(const cJSON *o, const char *name, bool otherwise)
{
    const cJSON *v = json_member(o, name);
    return cJSON_IsBool(v) ? cJSON_IsTrue(v) : otherwise;
}

bool json_is_int(const cJSON *v, int64_t min, int64_t max, int64_t *out)
{
    const double exact = 9007199254740992.0; /* 2^53 */
    if (!cJSON_IsNumber(v)) return false;
    double d = v->valuedouble;
    if (!(fabs(d) < exact) || d != trunc(d)) return false;
    if ((int64_t)d < min || (int64_t)d > max) return false;
    *out = (int64_t)d;
    return true;
}

bool json_int(const cJSON *o, const char *name, int64_t min, int64_t max, int64_t *out)
{
    return json_is_int(json_member(o, name), min, max, out);
}

bool json_number(const cJSON *o, const char *name, double *out)
{
    const cJSON *v = json_member(o, name);
    if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble)) return false;
    *out = v->valuedouble;
    return true;
}

struct utf8_shown json_show(const char *name)
{
    return utf8_show(name, strlen(name));
}
