/* address: the place of a model on the network, as a user writes it.
 *
 *     hf:OWNER/REPO              the repository's best model file (hub.h says which)
 *     hf:OWNER/REPO:Q4_K_M       its file of that quantization, also of several parts
 *     hf:OWNER/REPO:FILE         this file, of any kind
 *     https://HOST/…/FILE        any file; http:// is for this machine only (127.0.0.1, localhost)
 *
 * Every part is checked here, so that none of it can leave the folder of models. */
#ifndef RETAIN_CLI_PULL_ADDRESS_H
#define RETAIN_CLI_PULL_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

#define ADDRESS_MAX 2048

struct address {
    bool hub;
    char repo[200];        /* "OWNER/REPO"; of a plain address the host */
    char file[512];        /* the path of a file in the repository; "" = none */
    char quant[64];        /* "Q4_K_M"; "" = none */
    char url[ADDRESS_MAX]; /* of a plain address */
};

/* Whether the text is meant as an address, not as a path. */
bool address_is(const char *text);

/* ERR_USAGE names the wrong part. */
int address_parse(struct address *out, const char *text, struct err *e);

/* A path of a repository that can be a path below a folder: no "..", no absolute path, nothing that
 * is hidden or not printable. */
bool address_is_path(const char *path);

#endif
