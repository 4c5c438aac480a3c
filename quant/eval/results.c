#include "quant/eval/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/str.h"
#include "quant/files/records.h"

struct entry {
    char *key;
    cJSON *line;
};

struct results {
    char *path;
    int fd;
    struct entry *entries; /* of the file when it was opened, by key */
    size_t n, max;
};

static char *make_key(const cJSON *run, uint64_t item)
{
    struct str key = {0};
    char *text = cJSON_PrintUnformatted(run);
    str_puts(&key, text ? text : "");
    str_printf(&key, "#%llu", (unsigned long long)item);
    cJSON_free(text);
    return key.data;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static int take_line(struct results *r, cJSON *line, int64_t number, struct err *e)
{
    const cJSON *run = cJSON_GetObjectItemCaseSensitive(line, "run");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, "item");
    if (!cJSON_IsObject(run) || !cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble > 9e15) {
        cJSON_Delete(line);
        return err_set(e, ERR_FORMAT, "%s:%lld: no line of results: expected \"run\" and \"item\"",
                       r->path, (long long)number);
    }
    r->entries = memory_more(r->entries, r->n, &r->max, sizeof *r->entries);
    r->entries[r->n++] = (struct entry){make_key(run, (uint64_t)item->valuedouble), line};
    return 0;
}

static int read_lines(struct results *r, struct err *e)
{
    struct records records;
    cJSON *line;
    int rc = records_open(&records, r->path, e);
    while (!rc && (rc = records_next(&records, &line, e)) == 1)
        rc = take_line(r, line, records.line, e);
    records_close(&records);
    qsort(r->entries, r->n, sizeof *r->entries, by_key);
    return rc;
}

/* Cuts a last line that has no end; *size: of the file then. */
static int cut_open_line(struct results *r, off_t *size, struct err *e)
{
    struct stat st;
    bool failed = fstat(r->fd, &st) != 0;
    char c = 0;
    off_t n = failed ? 0 : st.st_size;
    if (!failed && !S_ISREG(st.st_mode))
        return err_set(e, ERR_USAGE, "%s is no file that can be read again", r->path);
    while (!failed && n > 0 && c != '\n') {
        failed = pread(r->fd, &c, 1, n - 1) != 1;
        if (c != '\n') n--;
    }
    if (!failed && n < st.st_size) failed = ftruncate(r->fd, n) != 0;
    *size = n;
    return failed ? err_set(e, ERR_FAIL, "%s: %s", r->path, strerror(errno)) : 0;
}

int results_open(struct results **out, const char *path, struct err *e)
{
    struct results *r = memory_new(1, sizeof *r);
    off_t size = 0;
    r->path = memory_copy(path);
    r->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    int rc = r->fd < 0 ? err_set(e, ERR_FAIL, "%s: %s", path, strerror(errno)) : 0;
    if (!rc) rc = cut_open_line(r, &size, e);
    if (!rc && size) rc = read_lines(r, e);
    if (rc) {
        results_close(r);
        r = NULL;
    }
    *out = r;
    return rc;
}

void results_close(struct results *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->n; i++) {
        free(r->entries[i].key);
        cJSON_Delete(r->entries[i].line);
    }
    if (r->fd >= 0) close(r->fd);
    free(r->entries);
    free(r->path);
    free(r);
}

const cJSON *results_find(const struct results *r, const cJSON *run, uint64_t item)
{
    if (!r || !r->n || !run) return NULL;
    struct entry wanted = {make_key(run, item), NULL};
    const struct entry *found = bsearch(&wanted, r->entries, r->n, sizeof wanted, by_key);
    free(wanted.key);
    return found ? found->line : NULL;
}

double results_number(const cJSON *line, const char *name)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(line, name);
    return cJSON_IsNumber(node) ? node->valuedouble : 0;
}

void results_put_cost(cJSON *line, const struct eval_cost *c)
{
    cJSON_AddNumberToObject(line, "n_units", c->n_units);
    cJSON_AddNumberToObject(line, "cache_bytes", (double)c->cache_bytes);
    cJSON_AddStringToObject(line, "kv", c->kv);
    cJSON_AddNumberToObject(line, "prefill_tok_s", c->prefill_tok_s);
    cJSON_AddNumberToObject(line, "decode_tok_s", c->decode_tok_s);
}

struct eval_cost results_cost(const cJSON *line)
{
    const char *kv = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "kv"));
    struct eval_cost c = {.n_units = results_number(line, "n_units"),
                          .cache_bytes = (int64_t)results_number(line, "cache_bytes"),
                          .prefill_tok_s = results_number(line, "prefill_tok_s"),
                          .decode_tok_s = results_number(line, "decode_tok_s")};
    snprintf(c.kv, sizeof c.kv, "%s", kv ? kv : "");
    return c;
}

int results_add(struct results *r, const cJSON *run, uint64_t item, cJSON *o, struct err *e)
{
    int rc = 0;
    if (r && run) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddItemToObject(line, "run", cJSON_Duplicate(run, true));
        cJSON_AddNumberToObject(line, "item", (double)item);
        for (cJSON *m = o ? o->child : NULL; m; m = o->child)
            cJSON_AddItemToObject(line, m->string, cJSON_DetachItemViaPointer(o, m));
        char *text = cJSON_PrintUnformatted(line);
        struct str all = {0};
        str_puts(&all, text ? text : "");
        str_puts(&all, "\n");
        if (!text || write(r->fd, all.data, all.n) != (ssize_t)all.n || fdatasync(r->fd))
            rc = err_set(e, ERR_FAIL, "%s: %s", r->path, strerror(errno));
        str_release(&all);
        cJSON_free(text);
        cJSON_Delete(line);
    }
    cJSON_Delete(o);
    return rc;
}
