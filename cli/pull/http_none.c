/* http without libcurl. */
#include "cli/pull/http.h"

int http_open(struct http **out, const struct http_opts *o, struct err *e)
{
    (void)o;
    *out = NULL;
    return err_set(e, ERR_FAIL,
                   "this build cannot download: libcurl's headers were not there (on Debian: apt "
                   "install libcurl4-openssl-dev, then make); download the file with another "
                   "program");
}

void http_close(struct http *h)
{
    (void)h;
}

const char *http_host(const struct http *h)
{
    (void)h;
    return "";
}

int http_get(struct http *h, const struct http_request *r, struct http_answer *a, struct err *e)
{
    (void)h;
    (void)r;
    *a = (struct http_answer){0};
    return err_set(e, ERR_FAIL, "this build cannot download");
}
