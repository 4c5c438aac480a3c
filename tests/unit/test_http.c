/* http: plain http reaches this machine only if the hub is on it. (tests/cli/test_pull.sh has the
 * other rules; its hub speaks no https.) */
#include "tests/test.h"

#include "cli/pull/http.h"

static void check_refused(const char *home, const char *why)
{
    const struct http_request closed_port = {.url = "http://127.0.0.1:1/file", .to = -1};
    const char *const hosts[] = {"127.0.0.1"};
    struct http_answer a;
    struct http *h;
    if (http_open(&h, &(struct http_opts){.home = home, .hosts = hosts, .n_hosts = 1}, &err))
        skip(); /* no libcurl */
    refused(http_get(h, &closed_port, &a, &err), ERR_FAIL, why);
    http_close(h);
}

TEST(test_plain_http)
{
    check_refused("https://hub.example", "only https addresses are taken");
    check_refused("http://localhost", "127.0.0.1 cannot be reached");
}
