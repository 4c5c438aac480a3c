#include "quant/eval/task_params.h"

#include <stdio.h>
#include <string.h>

#include "cli/options/options.h"

static int read_number(const char *key, const char *value, int64_t max, int64_t *out, struct err *e)
{
    if (options_size(value, out) && *out >= 1 && *out <= max) return 0;
    return err_set(e, ERR_USAGE, "%s=%s: expected a whole number from 1 to %lld", key, value,
                   (long long)max);
}

/* "facts=8" */
static int read_key(char *text, struct task_params *out, struct err *e)
{
    int64_t n = 0;
    char *value = strchr(text, '=');
    if (!value) return err_set(e, ERR_USAGE, "\"%s\": expected key=value after the task", text);
    *value++ = 0;
    const struct {
        const char *key;
        int64_t max;
        int *out;
    } numbers[] = {{"facts", 64, &out->n_facts}, {"depths", 1000, &out->n_depths}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(text, numbers[i].key)) continue;
        int rc = read_number(text, value, numbers[i].max, &n, e);
        *numbers[i].out = (int)n;
        return rc;
    }
    return err_set(e, ERR_USAGE, "a task has no key %s; known are: facts, depths", text);
}

int task_params_read(const char *text, struct task_params *out, struct err *e)
{
    char item[64];
    const char *keys = strchr(text, ':');
    int rc = 0;
    *out = (struct task_params){0};
    snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(text, ":"), text);
    for (int i = 0; !rc && keys && options_list_item(keys + 1, i, item, sizeof item); i++)
        rc = read_key(item, out, e);
    return rc;
}
