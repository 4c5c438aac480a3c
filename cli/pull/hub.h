/* hub: a repository of a Hugging Face hub: its files, and which of them a user means.
 *
 * API: GET /api/models/REPO/refs names the commit of the branch main, GET
 * /api/models/REPO/tree/COMMIT?recursive=true lists files in pages, and /REPO/resolve/COMMIT/PATH
 * is a file, mostly a redirect to another host. A large file's SHA-256 is in the list (lfs.oid). */
#ifndef RETAIN_CLI_PULL_HUB_H
#define RETAIN_CLI_PULL_HUB_H

#include <stdint.h>

#include "cli/pull/address.h"
#include "cli/pull/http.h"

struct hub_file {
    char *path; /* in the repository; address_is_path holds */
    int64_t size;
    char sha256[65]; /* hex; "" = the hub does not tell */
};

struct hub_list {
    char commit[64]; /* of the branch main */
    struct hub_file *files;
    int n;
};

struct hub {
    struct http *http;
    const char *url; /* of the hub, without a slash at the end */
    bool has_token;
};

/* Both requests. *out must be released, on failure too. */
int hub_read(struct hub_list *out, const struct hub *h, const char *repo, struct err *e);
void hub_list_release(struct hub_list *l);

/* The file that the address names, or the first part of a split one: a file by its path; a
 * quantization as a part of a name, without case; without either the first GGUF of Q4_K_M, of
 * Q8_0, or of all. NULL: *e lists the files. */
const struct hub_file *hub_choose(const struct hub_list *l, const struct address *a, struct err *e);
/* The largest model of at most this many bytes, of all its parts: *bytes. NULL = none. */
const struct hub_file *hub_largest(const struct hub_list *l, int64_t bytes_max, int64_t *bytes);
/* By path, as hub_read does and the functions here expect. */
void hub_list_sort(struct hub_list *l);
const struct hub_file *hub_find(const struct hub_list *l, const char *path);

/* The error of an answer that is not a success, one line with what to do. `what`: the repository or
 * address. */
int hub_refused(const struct http_answer *a, const char *what, bool has_token, struct err *e);

#endif
