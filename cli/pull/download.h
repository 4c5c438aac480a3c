/* download: one file, from an address to a path.
 *
 * The bytes are written to PATH.part, which is locked, so that two programs never write one file;
 * PATH.part.pull describes them (JSON: address, commit, size, sha256, etag). An interrupted
 * download continues where it ended, if the server still has the same file: by its SHA-256, or by
 * its ETag. When the length and the SHA-256 are right, the file is synchronised and both are
 * renamed, to PATH and PATH.pull. */
#ifndef RETAIN_CLI_PULL_DOWNLOAD_H
#define RETAIN_CLI_PULL_DOWNLOAD_H

#include <sodium.h>

#include "base/str.h"
#include "cli/pull/http.h"

struct download_opts {
    struct http *http;
    const char *url;
    const char *path;    /* of the file to make; its folder exists */
    const char *address; /* for messages and PATH.pull */
    const char *commit;  /* "" = none */
    int64_t size;        /* -1 = not known */
    const char *sha256;  /* hex; "" = not known */
    bool has_token;
    bool replace; /* a file that is there, but is another version */
    /* done: bytes of this file; a non-zero return stops */
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

struct download {
    struct download_opts opts;
    struct str part, part_record, record; /* paths */
    int fd;                               /* of the part; -1 = not open */
    int64_t done, size;                   /* size: -1 = not known yet */
    char etag[256];                       /* of the server's file; "" = none */
    crypto_hash_sha256_state hash;        /* of the first `done` bytes */
    bool complete;                        /* the file was there before */
};

/* ERR_FAIL when the disk of the file has no room for so many bytes. */
int download_check_disk(const char *path, int64_t bytes, struct err *e);

/* Looks at the files there: sets `complete`, or locks the part and hashes the bytes it has. */
int download_open(struct download *d, const struct download_opts *o, struct err *e);
/* Until the part has at least n bytes, or all; -1 = all. */
int download_run(struct download *d, int64_t n, struct err *e);
/* After download_run(-1): checks length and SHA-256, and renames. sha256: of the file, in hex. */
int download_finish(struct download *d, char sha256[65], struct err *e);
/* Unlocks; an incomplete part stays, unless it is empty. */
void download_close(struct download *d);
/* Removes an incomplete part, of a file that is not wanted, and folders that are empty then. */
void download_drop(struct download *d);

#endif
