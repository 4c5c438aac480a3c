#include "cli/pull/hub.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cjson/cJSON.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/str.h"

#define ANSWER_MAX ((size_t)1 << 20) /* bytes of one page, of at most 1,000 files */
#define PAGES_MAX  100
#define LISTED_MAX 400 /* bytes of names in an error */
#define FILE_MAX   ((int64_t)1 << 50)

/* ---- errors ---------------------------------------------------------------------------------- */

static int unauthorized(const struct http_answer *a, const char *what, bool has_token,
                        struct err *e)
{
    bool gated = !strcmp(a->error_code, "GatedRepo");
    if (gated && has_token)
        return err_set(e, ERR_FAIL,
                       "%s is gated, and this token has no access (%ld): accept its terms on %s, "
                       "then try again",
                       what, a->status, a->host);
    if (gated)
        return err_set(e, ERR_FAIL,
                       "%s is gated (%ld): accept its terms on %s and set HF_TOKEN to your token",
                       what, a->status, a->host);
    if (has_token)
        return err_set(e, ERR_FAIL, "%s: the token in HF_TOKEN was refused (%ld)", what, a->status);
    return err_set(e, ERR_FAIL,
                   "%s does not exist or is private (%ld): check the name, or set HF_TOKEN to your "
                   "token",
                   what, a->status);
}

int hub_refused(const struct http_answer *a, const char *what, bool has_token, struct err *e)
{
    char wait[48] = "later";
    if (a->retry_after_s >= 0) snprintf(wait, sizeof wait, "in %d s", a->retry_after_s);
    switch (a->status) {
    case 401:
    case 403: return unauthorized(a, what, has_token, e);
    case 404:
        return err_set(e, ERR_FAIL, "%s does not exist on %s (404)%s%s", what, a->host,
                       *a->error ? ": " : "", a->error);
    case 429:
        return err_set(e, ERR_FAIL, "%s answers too many requests now (429); try again %s", a->host,
                       wait);
    default:
        return err_set(e, ERR_FAIL, "%s: %s answers %ld%s%s", what, a->host, a->status,
                       *a->error ? ": " : "", a->error);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static int keep_body(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct str *out = ctx;
    if (out->n + n > ANSWER_MAX)
        return err_set(e, ERR_FORMAT, "the hub's answer is longer than 1 MiB");
    str_append(out, bytes, n);
    return 0;
}

/* Two tries, because a list is short. */
static int get_json(const struct hub *h, const char *url, const char *repo, cJSON **out,
                    struct http_answer *a, struct err *e)
{
    struct str body = {0};
    const struct http_request r = {.url = url, .to = -1, .body = keep_body, .ctx = &body};
    *out = NULL;
    int rc = http_get(h->http, &r, a, e);
    if (rc == HTTP_CUT) {
        str_clear(&body);
        rc = http_get(h->http, &r, a, e);
    }
    if (rc == HTTP_CUT) rc = ERR_FAIL;
    if (!rc && a->status != 200) rc = hub_refused(a, repo, h->has_token, e);
    if (!rc) *out = cJSON_ParseWithLength(str_get(&body), body.n);
    if (!rc && !*out) rc = err_set(e, ERR_FAIL, "%s: the answer of %s is not JSON", repo, a->host);
    str_release(&body);
    return rc;
}

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static bool is_hex(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

static int read_commit(struct hub_list *out, const struct hub *h, const char *repo, struct err *e)
{
    struct str url = {0};
    struct http_answer a;
    cJSON *j;
    const cJSON *branch;
    str_printf(&url, "%s/api/models/%s/refs", h->url, repo);
    int rc = get_json(h, str_get(&url), repo, &j, &a, e);
    cJSON_ArrayForEach(branch, cJSON_GetObjectItemCaseSensitive(
                                   j, "branches")) if (!strcmp(text_of(branch, "name"), "main") &&
                                                       is_hex(text_of(branch, "targetCommit"), 40))
        snprintf(out->commit, sizeof out->commit, "%s", text_of(branch, "targetCommit"));
    cJSON_Delete(j);
    str_release(&url);
    if (!rc && !*out->commit)
        rc = err_set(e, ERR_FAIL, "%s: %s names no commit of its branch main", repo, a.host);
    return rc;
}

/* Leaves out all but files, and paths that could leave the folder. */
static void add_file(struct hub_list *out, const cJSON *item)
{
    const cJSON *lfs = cJSON_GetObjectItemCaseSensitive(item, "lfs");
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(item, "size");
    const char *path = text_of(item, "path"), *sha256 = text_of(lfs, "oid");
    double n = cJSON_IsNumber(size) ? size->valuedouble : -1;
    if (strcmp(text_of(item, "type"), "file") != 0 || !address_is_path(path)) return;
    if (!(n >= 0 && n < (double)FILE_MAX)) return;
    out->files = memory_grow(out->files, (size_t)out->n + 1, sizeof *out->files);
    struct hub_file *f = &out->files[out->n++];
    *f = (struct hub_file){.path = memory_copy(path), .size = (int64_t)n};
    if (is_hex(sha256, 64)) memcpy(f->sha256, sha256, 65);
}

static int read_page(struct hub_list *out, const struct hub *h, const char *repo, struct str *url,
                     struct err *e)
{
    struct http_answer a;
    cJSON *j;
    const cJSON *item;
    int rc = get_json(h, str_get(url), repo, &j, &a, e);
    if (!rc && !cJSON_IsArray(j))
        rc = err_set(e, ERR_FAIL, "%s: %s sent no list of files", repo, a.host);
    if (!rc) cJSON_ArrayForEach(item, j) add_file(out, item);
    cJSON_Delete(j);
    str_clear(url);
    str_puts(url, a.next);
    return rc;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

void hub_list_sort(struct hub_list *l)
{
    if (l->n) qsort(l->files, (size_t)l->n, sizeof *l->files, compare);
}

int hub_read(struct hub_list *out, const struct hub *h, const char *repo, struct err *e)
{
    struct str url = {0};
    *out = (struct hub_list){0};
    int rc = read_commit(out, h, repo, e);
    str_printf(&url, "%s/api/models/%s/tree/%s?recursive=true", h->url, repo, out->commit);
    for (int page = 0; !rc && url.n && page < PAGES_MAX; page++)
        rc = read_page(out, h, repo, &url, e);
    hub_list_sort(out);
    str_release(&url);
    return rc;
}

void hub_list_release(struct hub_list *l)
{
    for (int i = 0; i < l->n; i++) free(l->files[i].path);
    free(l->files);
    *l = (struct hub_list){0};
}

/* ---- choosing -------------------------------------------------------------------------------- */

const struct hub_file *hub_find(const struct hub_list *l, const char *path)
{
    const struct hub_file key = {.path = (char *)(uintptr_t)path};
    return l->n ? bsearch(&key, l->files, (size_t)l->n, sizeof *l->files, compare) : NULL;
}

/* A model's file, and the first of its parts. Projectors of images and importance matrices are GGUF
 * files, too. */
static bool is_model(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    size_t n = strlen(name);
    return n > 5 && !strcasecmp(name + n - 5, ".gguf") && !strcasestr(name, "mmproj") &&
           !strcasestr(name, "imatrix") && file_part_number(name) == 1;
}

/* Whether the quantization ("Q4_K_M") is part of the file's name: "x-Q4_K_M.gguf",
 * "q4_k_m/x-00001-of-00002.gguf". */
static bool has_quant(const char *path, const char *quant)
{
    size_t n = strlen(quant);
    for (const char *at = path; (at = strcasestr(at, quant)); at++) {
        bool begins = at == path || !isalnum((unsigned char)at[-1]);
        bool ends = !at[n] || strchr(".-/", at[n]);
        if (begins && ends) return true;
    }
    return false;
}

static const struct hub_file *with_quant(const struct hub_list *l, const char *quant)
{
    for (int i = 0; i < l->n; i++)
        if (is_model(l->files[i].path) && has_quant(l->files[i].path, quant)) return &l->files[i];
    return NULL;
}

static int none_there(const struct hub_list *l, const struct address *a, struct err *e)
{
    struct str names = {0};
    const char *wanted = *a->file ? a->file : *a->quant ? a->quant : "GGUF";
    for (int i = 0; i < l->n && names.n < LISTED_MAX; i++)
        if (is_model(l->files[i].path))
            str_printf(&names, "%s%s", names.n ? ", " : "", l->files[i].path);
    int rc = names.n
                 ? err_set(e, ERR_FAIL, "%s has no file %s; its models: %.*s%s", a->repo, wanted,
                           LISTED_MAX / 2, str_get(&names), names.n > LISTED_MAX / 2 ? "…" : "")
                 : err_set(e, ERR_FAIL,
                           "%s has no GGUF file%s%s; look for a repository with GGUF in its "
                           "name, or convert this one with `retain quantize`",
                           a->repo, *a->file ? ", and no file " : "", a->file);
    str_release(&names);
    return rc;
}

const struct hub_file *hub_choose(const struct hub_list *l, const struct address *a, struct err *e)
{
    const struct hub_file *f = NULL;
    if (*a->file) {
        f = hub_find(l, a->file);
    } else if (*a->quant) {
        f = with_quant(l, a->quant);
    } else {
        f = with_quant(l, "Q4_K_M");
        if (!f) f = with_quant(l, "Q8_0");
        for (int i = 0; i < l->n && !f; i++)
            if (is_model(l->files[i].path)) f = &l->files[i];
    }
    if (!f) none_there(l, a, e);
    return f;
}

/* Of all parts; -1 when one is missing. */
static int64_t model_bytes(const struct hub_list *l, const struct hub_file *first)
{
    struct str path = {0};
    int64_t bytes = 0;
    for (int i = 0; i < file_parts(first->path) && bytes >= 0; i++) {
        file_part_path(&path, first->path, i);
        const struct hub_file *f = hub_find(l, str_get(&path));
        bytes = f ? bytes + f->size : -1;
    }
    str_release(&path);
    return bytes;
}

const struct hub_file *hub_largest(const struct hub_list *l, int64_t bytes_max, int64_t *bytes)
{
    const struct hub_file *best = NULL;
    *bytes = 0;
    for (int i = 0; i < l->n; i++) {
        if (!is_model(l->files[i].path)) continue;
        int64_t n = model_bytes(l, &l->files[i]);
        if (n > bytes_max || n <= *bytes) continue;
        *bytes = n;
        best = &l->files[i];
    }
    return best;
}
