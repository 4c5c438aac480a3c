/* fuzz: a hub's answers, three pages separated by NUL bytes, and an address in the first line:
 * whatever they say, a chosen path stays below the folder of models. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/pull/hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *at, *end; /* of the answers that were not given yet */

/* In the place of the one in cli/pull/http_curl.c. */
int http_get(struct http *h, const struct http_request *r, struct http_answer *a, struct err *e)
{
    *a = (struct http_answer){.status = 200};
    const char *stop = memchr(at, 0, (size_t)(end - at));
    size_t n = (size_t)((stop ? stop : end) - at);
    const char *body = at;
    at += n + (stop != NULL);
    if (at < end) memcpy(a->next, "https://next", sizeof "https://next");
    return r->body(r->ctx, body, n, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const struct hub h = {.url = "https://hub"};
    struct hub_list l;
    struct address a;
    struct err e;
    char text[256] = "";
    const uint8_t *line = memchr(bytes, '\n', n);
    if (!line || (size_t)(line - bytes) >= sizeof text) return 0;
    memcpy(text, bytes, (size_t)(line - bytes));
    at = (const char *)line + 1;
    end = (const char *)bytes + n;
    if (address_parse(&a, text, &e) || !a.hub) return 0;
    if (!hub_read(&l, &h, a.repo, &e)) {
        const struct hub_file *f = hub_choose(&l, &a, &e);
        int64_t size;
        hub_largest(&l, 1 << 20, &size);
        if (f && (strstr(f->path, "..") == f->path || *f->path == '/' || strstr(f->path, "/../")))
            abort();
    }
    hub_list_release(&l);
    return 0;
}
