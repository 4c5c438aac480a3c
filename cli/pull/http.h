/* http: one GET at a time, the only place that contacts another machine.
 *
 * http_curl.c opens libcurl when the first address is asked for, so that a program that pulls
 * nothing neither loads nor needs it; http_none.c is for builds without its headers. Rules that
 * hold for every request and every redirect:
 *
 *   - https only; http to this machine only (127.0.0.0/8, ::1, localhost), and only if the home
 *     address is of this machine;
 *   - a host must be that of the home address, one of the allowed hosts, or below one of these;
 *   - the token is sent to the origin (scheme, host and port) of the home address only, whatever
 *     led to another one: a redirect, or a list whose next page is there.
 *
 * Proxies are those of curl's environment variables (https_proxy, no_proxy, …). */
#ifndef RETAIN_CLI_PULL_HTTP_H
#define RETAIN_CLI_PULL_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct http;

/* The strings are not copied. */
struct http_opts {
    const char *home;         /* address of the hub, or of the only file */
    const char *const *hosts; /* [n_hosts] that may be contacted, too, with the hosts below them */
    int n_hosts;
    const char *token;       /* NULL = none */
    bool (*stop)(void *ctx); /* polled; true ends a request with ERR_STOP */
    void *ctx;
};

/* ERR_FAIL when this build or this machine has no libcurl, ERR_USAGE when `home` is no address. */
int http_open(struct http **out, const struct http_opts *o, struct err *e);
void http_close(struct http *h);
const char *http_host(const struct http *h); /* of the home address */

struct http_answer {
    long status;
    int64_t length;      /* of the body; -1 = not told */
    int64_t from, total; /* Content-Range: the first byte and the size of the file; -1 = none */
    int retry_after_s;   /* -1 = not told */
    char etag[256];      /* as sent; "" = none, or a weak one */
    char error_code[64]; /* the hub's: "GatedRepo" */
    char next[2048];     /* the next page of a list; "" = this is the last */
    char host[256];      /* that answered */
    char error[256];     /* the answer's own words: JSON {"error": …}; "" = none */
};

struct http_request {
    const char *url;
    int64_t from, to;     /* the bytes wanted, both included; from 0 and to -1: the whole file */
    const char *if_range; /* ETag that the file must still have for `from`; NULL = none */
    /* Called before the first byte of a 200 or 206, if not NULL; non-zero ends the request, and is
     * returned. */
    int (*begin)(void *ctx, const struct http_answer *a, struct err *e);
    int (*body)(void *ctx, const void *bytes, size_t n, struct err *e);
    void *ctx;
};

/* 0 after any complete answer: look at its status. ERR_STOP when interrupted. HTTP_CUT when the
 * connection failed, so that another try may succeed. Else ERR_FAIL. */
#define HTTP_CUT 1
int http_get(struct http *h, const struct http_request *r, struct http_answer *a, struct err *e);

#endif
