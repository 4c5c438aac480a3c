/* http by libcurl, opened at run time. Redirects are followed here, not by libcurl, so that each
 * address passes the rules of http.h. */
#include <curl/curl.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cjson/cJSON.h>

#include "base/memory.h"
#include "base/str.h"
#include "cli/pull/http.h"

#define REDIRECTS_MAX   8
#define CONNECT_TIMEOUT 20L /* seconds */
#define SILENCE_TIMEOUT 30L /* seconds without a byte, after which a connection counts as cut */
#define ERROR_BYTES_MAX 4096
#define URL_BYTES       2048

/* ---- libcurl --------------------------------------------------------------------------------- */

#define FUNCTIONS(X)       \
    X(curl_global_init)    \
    X(curl_easy_init)      \
    X(curl_easy_cleanup)   \
    X(curl_easy_reset)     \
    X(curl_easy_setopt)    \
    X(curl_easy_getinfo)   \
    X(curl_easy_perform)   \
    X(curl_easy_strerror)  \
    X(curl_slist_append)   \
    X(curl_slist_free_all) \
    X(curl_url)            \
    X(curl_url_cleanup)    \
    X(curl_url_set)        \
    X(curl_url_get)        \
    X(curl_free)

struct library {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
};

/* The parts of an address that the rules look at. */
struct origin {
    char scheme[16], host[256], port[8];
    bool loopback;
};

struct http {
    struct http_opts opts;
    struct origin home;
    struct library curl;
    void *handle;
    CURL *easy;
};

/* The macros of curl.h that check types call the functions by name. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

static int load(struct http *h, struct err *e)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !h->handle; i++)
        h->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!h->handle)
        return err_set(e, ERR_FAIL,
                       "downloading needs libcurl, which is not installed (on Debian: apt install "
                       "libcurl4)");
#define LOAD(name)                                     \
    *(void **)&h->curl.name = dlsym(h->handle, #name); \
    if (!h->curl.name) return err_set(e, ERR_FAIL, "this machine's libcurl lacks " #name);
    FUNCTIONS(LOAD)
    return 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    unsigned a, b, c, d;
    char end;
    if (!strcasecmp(host, "localhost") || !strcmp(host, "[::1]")) return true;
    return sscanf(host, "%u.%u.%u.%u%c", &a, &b, &c, &d, &end) == 4 && a == 127;
}

static CURLUcode get_part(const struct http *h, CURLU *u, CURLUPart part, char *out, size_t bytes)
{
    char *text = NULL;
    unsigned flags = part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0;
    CURLUcode rc = h->curl.curl_url_get(u, part, &text, flags);
    if (!rc && (!text || strlen(text) >= bytes)) rc = CURLUE_MALFORMED_INPUT;
    snprintf(out, bytes, "%s", rc ? "" : text);
    h->curl.curl_free(text);
    return rc;
}

static CURLUcode split(const struct http *h, const char *url, char out[URL_BYTES], struct origin *o)
{
    CURLU *u = h->curl.curl_url();
    char *user = NULL;
    *o = (struct origin){0};
    CURLUcode rc = h->curl.curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
    if (!rc) rc = get_part(h, u, CURLUPART_URL, out, URL_BYTES);
    if (!rc) rc = get_part(h, u, CURLUPART_SCHEME, o->scheme, sizeof o->scheme);
    if (!rc) get_part(h, u, CURLUPART_HOST, o->host, sizeof o->host); /* it may lack these */
    if (!rc) get_part(h, u, CURLUPART_PORT, o->port, sizeof o->port);
    if (!rc) h->curl.curl_url_get(u, CURLUPART_USER, &user, 0);
    if (!rc && user) rc = CURLUE_USER_NOT_ALLOWED;
    h->curl.curl_free(user);
    h->curl.curl_url_cleanup(u);
    o->loopback = is_loopback(o->host);
    return rc;
}

/* from: the host that redirects to it; NULL = none. */
static int not_split(const char *from, const char *url, struct err *e)
{
    if (!from) return err_set(e, ERR_USAGE, "%.200s is not an address", url);
    return err_set(e, ERR_FAIL, "%s redirects to \"%.200s\", which is not an address", from, url);
}

/* ---- the rules ------------------------------------------------------------------------------- */

static bool same_origin(const struct origin *a, const struct origin *b)
{
    return !strcmp(a->scheme, b->scheme) && !strcasecmp(a->host, b->host) &&
           !strcmp(a->port, b->port);
}

/* Whether the host has this name, or is below it. */
static bool is_below(const char *host, const char *name)
{
    size_t n = strlen(host), n_name = strlen(name);
    if (!n_name || n < n_name || strcasecmp(host + n - n_name, name)) return false;
    return n == n_name || host[n - n_name - 1] == '.';
}

static bool is_allowed(const struct http *h, const char *host)
{
    bool allowed = is_below(host, h->home.host);
    for (int i = 0; i < h->opts.n_hosts; i++) allowed |= is_below(host, h->opts.hosts[i]);
    return allowed;
}

static int check_rules(const struct http *h, const struct origin *to, const char *url,
                       struct err *e)
{
    bool https = !strcmp(to->scheme, "https");
    bool here = !strcmp(to->scheme, "http") && to->loopback && h->home.loopback;
    bool home = same_origin(&h->home, to);
    if (!https && !here)
        return err_set(e, ERR_FAIL, "%s%s%.200s: only https addresses are taken",
                       home ? "" : h->home.host, home ? "" : " leads to ", url);
    if (is_allowed(h, to->host)) return 0;
    return err_set(e, ERR_FAIL,
                   "%s sends the download to %s, which is not among the allowed hosts; "
                   "--allow-host %s allows it",
                   h->home.host, to->host, to->host);
}

/* ---- opening --------------------------------------------------------------------------------- */

int http_open(struct http **out, const struct http_opts *o, struct err *e)
{
    char url[URL_BYTES];
    *out = NULL;
    struct http *h = memory_new(1, sizeof *h);
    h->opts = *o;
    int rc = load(h, e);
    if (!rc &&
        (h->curl.curl_global_init(CURL_GLOBAL_DEFAULT) || !(h->easy = h->curl.curl_easy_init())))
        rc = err_set(e, ERR_FAIL, "libcurl cannot be started");
    if (!rc && split(h, o->home, url, &h->home)) rc = not_split(NULL, o->home, e);
    if (rc)
        http_close(h);
    else
        *out = h;
    return rc;
}

/* The library stays loaded: it may have threads. */
void http_close(struct http *h)
{
    if (!h) return;
    if (h->easy) h->curl.curl_easy_cleanup(h->easy);
    free(h);
}

const char *http_host(const struct http *h)
{
    return h->home.host;
}

/* ---- an answer ------------------------------------------------------------------------------- */

struct transfer {
    struct http *http;
    const struct http_request *request;
    struct http_answer *answer;
    struct err *err;
    int result; /* of begin or body */
    bool begun;
    struct str error; /* the body of an answer that is no success */
};

static void keep_text(char *out, size_t bytes, const char *value)
{
    size_t n = strlen(value);
    if (n < bytes) memcpy(out, value, n + 1);
}

/* Link: <URL>; rel="next" */
static void keep_next(struct http_answer *a, const char *value)
{
    size_t n = strcspn(value, ">");
    if (*value != '<' || !value[n] || !strstr(value + n, "rel=\"next\"")) return;
    snprintf(a->next, sizeof a->next, "%.*s", (int)(n - 1), value + 1);
}

static void keep_header(struct transfer *t, const char *name, const char *value)
{
    struct http_answer *a = t->answer;
    long long from, total;
    if (!strcasecmp(name, "etag") && *value == '"') keep_text(a->etag, sizeof a->etag, value);
    if (!strcasecmp(name, "x-error-code")) keep_text(a->error_code, sizeof a->error_code, value);
    if (!strcasecmp(name, "x-error-message")) keep_text(a->error, sizeof a->error, value);
    if (!strcasecmp(name, "content-length")) a->length = strtoll(value, NULL, 10);
    if (!strcasecmp(name, "retry-after") && isdigit((unsigned char)*value))
        a->retry_after_s = atoi(value);
    if (!strcasecmp(name, "link")) keep_next(a, value);
    if (!strcasecmp(name, "content-range") &&
        sscanf(value, "bytes %lld-%*d/%lld", &from, &total) == 2 && from >= 0 && total >= 0) {
        a->from = from;
        a->total = total;
    }
}

/* A status line begins the headers of an answer, of a proxy or the last one. The hub's own facts
 * come with its redirect, and stay. */
static void begin_headers(struct http_answer *a)
{
    a->length = a->from = a->total = -1;
    a->retry_after_s = -1;
    *a->etag = *a->next = 0;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    char line[2304];
    size_t length = size * n;
    if (length < sizeof line) {
        memcpy(line, bytes, length);
        while (length > 0 && isspace((unsigned char)line[length - 1])) length--;
        line[length] = 0;
        char *value = strchr(line, ':');
        if (!strncmp(line, "HTTP/", 5)) {
            begin_headers(t->answer);
        } else if (value) {
            *value++ = 0;
            keep_header(t, line, value + strspn(value, " \t"));
        }
    }
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    const struct http_request *r = t->request;
    n *= size;
    t->http->curl.curl_easy_getinfo(t->http->easy, CURLINFO_RESPONSE_CODE, &t->answer->status);
    if (t->answer->status != 200 && t->answer->status != 206) {
        if (t->error.n < ERROR_BYTES_MAX) str_append(&t->error, bytes, n);
        return n;
    }
    if (!t->begun && r->begin) t->result = r->begin(r->ctx, t->answer, t->err);
    t->begun = true;
    if (!t->result) t->result = r->body(r->ctx, bytes, n, t->err);
    return t->result ? 0 : n;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct transfer *t = ctx;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return t->http->opts.stop && t->http->opts.stop(t->http->opts.ctx);
}

/* {"error": "…"}, unless a header said more. */
static void keep_error(struct transfer *t)
{
    cJSON *j = t->error.n && !*t->answer->error ? cJSON_Parse(str_get(&t->error)) : NULL;
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(j, "error"));
    if (text) snprintf(t->answer->error, sizeof t->answer->error, "%s", text);
    cJSON_Delete(j);
}

/* ---- one address ----------------------------------------------------------------------------- */

static struct curl_slist *headers(const struct http *h, const struct http_request *r, bool token)
{
    char line[2048];
    struct curl_slist *list = NULL;
    if (token && h->opts.token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", h->opts.token);
        list = h->curl.curl_slist_append(list, line);
    }
    if (r->if_range && r->from > 0) {
        snprintf(line, sizeof line, "If-Range: %s", r->if_range);
        list = h->curl.curl_slist_append(list, line);
    }
    return list;
}

static void set_options(struct transfer *t, const char *url, struct curl_slist *list)
{
    const struct http_request *r = t->request;
    const struct library *c = &t->http->curl;
    CURL *x = t->http->easy;
    char range[64];
    c->curl_easy_reset(x);
    c->curl_easy_setopt(x, CURLOPT_URL, url);
    c->curl_easy_setopt(x, CURLOPT_USERAGENT, "retain/" RETAIN_VERSION);
    c->curl_easy_setopt(x, CURLOPT_HTTPHEADER, list);
    c->curl_easy_setopt(x, CURLOPT_NOSIGNAL, 1L);
    c->curl_easy_setopt(x, CURLOPT_FOLLOWLOCATION, 0L);
    c->curl_easy_setopt(x, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT);
    c->curl_easy_setopt(x, CURLOPT_LOW_SPEED_LIMIT, 1L);
    c->curl_easy_setopt(x, CURLOPT_LOW_SPEED_TIME, SILENCE_TIMEOUT);
    c->curl_easy_setopt(x, CURLOPT_HEADERFUNCTION, on_header);
    c->curl_easy_setopt(x, CURLOPT_HEADERDATA, t);
    c->curl_easy_setopt(x, CURLOPT_WRITEFUNCTION, on_body);
    c->curl_easy_setopt(x, CURLOPT_WRITEDATA, t);
    c->curl_easy_setopt(x, CURLOPT_XFERINFOFUNCTION, on_progress);
    c->curl_easy_setopt(x, CURLOPT_XFERINFODATA, t);
    c->curl_easy_setopt(x, CURLOPT_NOPROGRESS, 0L);
    if (r->to >= 0)
        snprintf(range, sizeof range, "%lld-%lld", (long long)r->from, (long long)r->to);
    else
        snprintf(range, sizeof range, "%lld-", (long long)r->from);
    if (r->from > 0 || r->to >= 0) c->curl_easy_setopt(x, CURLOPT_RANGE, range);
}

static int failed(struct transfer *t, CURLcode code, const char *host, struct err *e)
{
    if (t->result) return t->result;
    if (code == CURLE_ABORTED_BY_CALLBACK) return err_set(e, ERR_STOP, "interrupted");
    const char *why = t->http->curl.curl_easy_strerror(code);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return err_set(e, ERR_FAIL, "%s is not found; is this machine connected?", host);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE: return err_set(e, ERR_FAIL, "%s: %s", host, why);
    case CURLE_COULDNT_CONNECT: return err_set(e, ERR_FAIL, "%s cannot be reached: %s", host, why);
    default: err_set(e, ERR_FAIL, "%s: %s", host, why); return HTTP_CUT;
    }
}

static int get_one(struct transfer *t, const char *url, const struct origin *to, struct err *e)
{
    const struct library *c = &t->http->curl;
    struct curl_slist *list = headers(t->http, t->request, same_origin(&t->http->home, to));
    str_clear(&t->error);
    begin_headers(t->answer);
    set_options(t, url, list);
    snprintf(t->answer->host, sizeof t->answer->host, "%s", to->host);
    CURLcode code = c->curl_easy_perform(t->http->easy);
    c->curl_easy_getinfo(t->http->easy, CURLINFO_RESPONSE_CODE, &t->answer->status);
    c->curl_slist_free_all(list);
    keep_error(t);
    return code ? failed(t, code, to->host, e) : 0;
}

int http_get(struct http *h, const struct http_request *r, struct http_answer *a, struct err *e)
{
    struct transfer t = {.http = h, .request = r, .answer = a, .err = e};
    struct origin to;
    char url[URL_BYTES];
    *a = (struct http_answer){0};
    if (split(h, r->url, url, &to)) return not_split(NULL, r->url, e);
    int rc = check_rules(h, &to, url, e);
    for (int n = 0; !rc; n++) {
        const char *next = NULL; /* where it redirects to */
        rc = get_one(&t, url, &to, e);
        if (!rc) h->curl.curl_easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &next);
        if (rc || !next) break;
        if (n == REDIRECTS_MAX) rc = err_set(e, ERR_FAIL, "%s redirects in a circle", h->home.host);
        if (!rc && split(h, next, url, &to)) rc = not_split(h->home.host, next, e);
        if (!rc) rc = check_rules(h, &to, url, e);
    }
    str_release(&t.error);
    return rc;
}
