/* A small hub for tests/cli/test_pull.sh: hub FOLDER LOG. It listens on two ports of 127.0.0.1,
 * prints "HUB CDN\n" and serves the files of the folder with the API of cli/pull/hub.h, a process
 * for each connection. The owner of a repository decides what goes wrong:
 *
 *   lists      gated private gone busy broken junk, badpath badhash longer shorter huge
 *              otherhost otherport insecure: the second page of files is there
 *              many: 80,000 files in 100 pages; endless: a page without end; badcommit: no commit;
 *              hiccup: the first page ends after a part, once; torch: only files that end in .bin
 *   redirects  elsewhere circle away local named moved, to the second port otherwise
 *   bytes      cut: the connection ends after a part; slow: after the first request half, then
 * silence; whole: ranges are ignored; more: bytes after the end; noetag; stuck: ten bytes, then
 * 416, in turns; shifted: another range; others: as asked
 *
 * "/files/NAME" is a plain file. LOG gets a line for each request: port, path, range, token, host.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <dirent.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static const char *folder;
static int ports[2]; /* the hub's, the other host's */

struct request {
    int fd, port;
    char path[2048], owner[256], range[64], if_range[256], token[256], host[256];
};

static bool is(const struct request *r, const char *owner)
{
    return !strcmp(r->owner, owner);
}

static void send_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, bytes, n);
        if (k <= 0) _exit(0);
        bytes += k;
        n -= (size_t)k;
    }
}

static void answer(const struct request *r, const char *status, const char *headers,
                   const char *body)
{
    struct str out = {0};
    str_printf(&out, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n%s", status,
               strlen(body), headers, body);
    send_all(r->fd, out.data, out.n);
    str_release(&out);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool read_named(const char *name, struct str *out)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = strstr(name, "..") ? NULL : fopen(path, "r"); /* a model may be of any size */
    if (!f) return false;
    static char part[1 << 20];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) str_append(out, part, n);
    fclose(f);
    return true;
}

/* Of the file, whose bytes are in `file`. Large ones are hashed once: the hash is kept
 * beside them. */
#define LARGE ((size_t)64 << 20)

static void sha256_of(const char *name, const struct str *file, char hex[65])
{
    unsigned char hash[32];
    char path[1024];
    struct str kept = {0};
    snprintf(path, sizeof path, "%s/.%s.sha256", folder, name);
    if (file->n >= LARGE && !file_read(path, FILE_DATA, &kept, NULL) && kept.n == 64) {
        memcpy(hex, kept.data, 65);
    } else {
        crypto_hash_sha256(hash, (const unsigned char *)str_get(file), file->n);
        sodium_bin2hex(hex, 65, hash, sizeof hash);
        FILE *f = file->n >= LARGE ? fopen(path, "w") : NULL;
        if (f && (fputs(hex, f) < 0 || fclose(f))) _exit(1);
    }
    str_release(&kept);
}

/* Sends bytes [from, to) the way the owner wants it. */
static void send_bytes(const struct request *r, const struct str *file, size_t from, size_t to)
{
    const char *bytes = file->data + from;
    size_t n = to - from;
    if (is(r, "cut") && n > 4096) n /= 3;
    if (is(r, "stuck") && n > 10) n = 10;
    if (is(r, "slow") && from > 0) n /= 2;
    send_all(r->fd, bytes, n);
    if (is(r, "more")) send_all(r->fd, "extra", 5);
    if (is(r, "slow") && n < to - from)
        poll(&(struct pollfd){.fd = r->fd, .events = POLLRDHUP}, 1, 30000);
}

static void serve_file(const struct request *r, const char *name)
{
    struct str file = {0}, head = {0};
    char hex[65], etag[80] = "";
    long long from = 0, to = -1;
    if (!read_named(name, &file)) {
        answer(r, "404 Not Found", "X-Error-Code: EntryNotFound\r\n",
               "{\"error\":\"Entry not found\"}");
        return;
    }
    sha256_of(name, &file, hex);
    if (!is(r, "noetag")) snprintf(etag, sizeof etag, "\"%s\"", hex);
    bool ranged = sscanf(r->range, "bytes=%lld-%lld", &from, &to) >= 1 && !is(r, "whole");
    if (*r->if_range && strcmp(r->if_range, etag) != 0) ranged = false;
    if (!ranged) from = 0;
    if (!ranged || to < 0 || to >= (long long)file.n) to = (long long)file.n - 1;
    if ((from >= (long long)file.n || is(r, "stuck")) && from > 0) {
        answer(r, "416 Range Not Satisfiable", "", "");
        return;
    }
    str_printf(&head, "HTTP/1.1 %s\r\nConnection: close\r\n",
               ranged ? "206 Partial Content" : "200 OK");
    if (*etag) str_printf(&head, "ETag: %s\r\n", etag);
    if (ranged)
        str_printf(&head, "Content-Range: bytes %lld-%lld/%zu\r\n", from + is(r, "shifted"), to,
                   file.n);
    if (!is(r, "more")) str_printf(&head, "Content-Length: %lld\r\n", to + 1 - from);
    str_puts(&head, "\r\n");
    send_all(r->fd, head.data, head.n);
    send_bytes(r, &file, (size_t)from, (size_t)to + 1);
    str_release(&file);
    str_release(&head);
}

/* ---- the hub --------------------------------------------------------------------------------- */

/* Whether the repository may be seen; otherwise an answer was sent. */
static bool may_see(const struct request *r)
{
    bool good = !strcmp(r->token, "Bearer hf_good");
    if (is(r, "gated") && !good)
        answer(r, *r->token ? "403 Forbidden" : "401 Unauthorized", "X-Error-Code: GatedRepo\r\n",
               "{\"error\":\"Access to model is restricted\"}");
    else if (is(r, "private") && !good)
        answer(r, "401 Unauthorized", "", "{\"error\":\"Invalid username or password.\"}");
    else if (is(r, "gone"))
        answer(r, "404 Not Found", "X-Error-Code: RepoNotFound\r\n",
               "{\"error\":\"Repository not found\"}");
    else if (is(r, "busy"))
        answer(r, "429 Too Many Requests", "Retry-After: 7\r\n", "");
    else if (is(r, "broken"))
        answer(r, "500 Internal Server Error", "", "{\"error\":\"oh\\u001b[31m no\"}");
    else if (is(r, "junk"))
        answer(r, "200 OK", "", "<html>welcome</html>");
    else
        return true;
    return false;
}

static void put_item(const struct request *r, const char *name, struct str *out)
{
    struct str file = {0};
    char hex[65];
    if (!read_named(name, &file)) return;
    sha256_of(name, &file, hex);
    size_t size = file.n + (is(r, "longer") ? 5 : 0) - (is(r, "shorter") ? 5 : 0);
    if (is(r, "huge")) size = 1000000000000000;
    if (is(r, "badhash")) memset(hex, '0', 8);
    str_printf(out, "%s{\"type\":\"file\",\"oid\":\"" COMMIT "\",\"size\":%zu,\"path\":\"%s\"",
               out->n > 1 ? "," : "", size, name);
    str_printf(out, ",\"lfs\":{\"oid\":\"%s\",\"size\":%zu,\"pointerSize\":135}}", hex, size);
    str_release(&file);
}

/* Without the hashes that are kept beside large files, which would move the others between
 * pages. */
static int is_shown(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The next page of the list, in the same folder of the hub or wherever the owner sends readers. */
static void next_page(const struct request *r, int page, char *out, size_t bytes)
{
    const char *host = is(r, "otherhost") ? "localhost" : "127.0.0.1";
    int port = ports[is(r, "otherport")];
    if (is(r, "insecure")) host = "example.org";
    snprintf(out, bytes, "Link: <http://%s:%d%.*s?cursor=%d>; rel=\"next\"\r\n", host, port,
             (int)strcspn(r->path, "?"), r->path, page);
}

static void serve_many(const struct request *r)
{
    struct str body = {0};
    char next[2304] = "";
    const char *cursor = strstr(r->path, "cursor=");
    int page = cursor ? atoi(cursor + 7) : 0;
    str_puts(&body, "[");
    put_item(r, "demo-Q5_1.gguf", &body);
    for (int i = page * 800; i < (page + 1) * 800; i++)
        str_printf(&body, ",{\"type\":\"file\",\"size\":9,\"path\":\"m%d.gguf\"}", i);
    str_puts(&body, "]");
    if (page < 99) next_page(r, page + 1, next, sizeof next);
    answer(r, "200 OK", next, str_get(&body));
    str_release(&body);
}

static void serve_endless(const struct request *r)
{
    send_all(r->fd, "HTTP/1.1 200 OK\r\n\r\n[", 20);
    for (;;) send_all(r->fd, "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,", 32);
}

/* Whether this is the first call for the folder. */
static bool once(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/.once", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Two pages: every second file in each. */
static void serve_tree(const struct request *r)
{
    struct dirent **files;
    struct str body = {0}, head = {0};
    char next[2304] = "";
    bool second = strstr(r->path, "cursor=2") != NULL;
    int n = scandir(folder, &files, is_shown, by_name);
    str_puts(&body, "[");
    if (!second && is(r, "badpath"))
        str_puts(&body, "{\"type\":\"file\",\"size\":9,\"path\":\"../../evil-Q4_K_M.gguf\"},"
                        "{\"type\":\"directory\",\"size\":0,\"path\":\"sub\"}");
    for (int i = 0; i < n; i++)
        if ((i % 2 == 1) == second && (!is(r, "torch") || strstr(files[i]->d_name, ".bin")))
            put_item(r, files[i]->d_name, &body);
    str_puts(&body, "]");
    if (is(r, "hiccup") && once()) {
        str_printf(&head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", body.n);
        send_all(r->fd, head.data, head.n);
        send_all(r->fd, body.data, body.n / 2);
        _exit(0);
    }
    if (!second) next_page(r, 2, next, sizeof next);
    answer(r, "200 OK", next, str_get(&body));
}

static void serve_redirect(const struct request *r, const char *name)
{
    struct str file = {0}, head = {0};
    char hex[65] = "";
    if (read_named(name, &file)) sha256_of(name, &file, hex);
    if (is(r, "circle"))
        str_printf(&head, "Location: %s\r\n", r->path);
    else if (is(r, "away"))
        str_puts(&head, "Location: http://example.org/model.gguf\r\n");
    else if (is(r, "local"))
        str_puts(&head, "Location: file:///etc/passwd\r\n");
    else if (is(r, "named"))
        str_printf(&head, "Location: http://me@127.0.0.1:%d/files/%s\r\n", ports[0], name);
    else if (is(r, "moved"))
        str_printf(&head, "Location: /normal/demo/resolve/" COMMIT "/%s\r\n", name);
    else
        str_printf(&head, "Location: http://%s:%d/cdn/%s/%s?signature=1\r\n",
                   is(r, "elsewhere") ? "localhost" : "127.0.0.1", ports[1], r->owner, name);
    str_printf(&head,
               "X-Repo-Commit: " COMMIT "\r\nX-Linked-Size: %zu\r\nX-Linked-ETag: \"%s\"\r\n",
               file.n, hex);
    answer(r, "302 Found", str_get(&head), "");
}

static void serve(struct request *r)
{
    char path[2048], file[1024];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(r->path, "?"), r->path);
    if (sscanf(path, "/cdn/%255[^/]/%1023s", r->owner, file) == 2) {
        serve_file(r, file);
    } else if (sscanf(path, "/api/models/%255[^/]/demo/%1023s", r->owner, file) == 2) {
        if (!may_see(r)) return;
        if (!strcmp(file, "refs"))
            answer(r, "200 OK", "",
                   is(r, "badcommit")
                       ? "{\"branches\":[{\"name\":\"main\",\"targetCommit\":\"../../x\"}]}"
                       : "{\"tags\":[],\"branches\":[{\"name\":\"main\",\"targetCommit\":\"" COMMIT
                         "\"}]}");
        else if (is(r, "many"))
            serve_many(r);
        else if (is(r, "endless"))
            serve_endless(r);
        else
            serve_tree(r);
    } else if (sscanf(path, "/%255[^/]/demo/resolve/" COMMIT "/%1023s", r->owner, file) == 2) {
        if (may_see(r)) serve_redirect(r, file);
    } else if (sscanf(path, "/%255[^/]/%1023s", r->owner, file) == 2) {
        serve_file(r, file);
    } else {
        answer(r, "404 Not Found", "", "");
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void keep(const char *line, const char *name, char *out, size_t bytes)
{
    size_t n = strlen(name);
    if (!strncasecmp(line, name, n) && line[n] == ':')
        snprintf(out, bytes, "%s", line + n + 1 + strspn(line + n + 1, " "));
}

static bool read_request(struct request *r)
{
    char text[16384];
    size_t n = 0;
    while (!(n >= 4 && !memcmp(text + n - 4, "\r\n\r\n", 4))) {
        if (n == sizeof text - 1 || read(r->fd, text + n, 1) != 1) return false;
        n++;
    }
    text[n] = 0;
    if (sscanf(text, "GET %2047s", r->path) != 1) return false;
    char *save = NULL;
    for (char *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        keep(line, "Range", r->range, sizeof r->range);
        keep(line, "If-Range", r->if_range, sizeof r->if_range);
        keep(line, "Authorization", r->token, sizeof r->token);
        keep(line, "Host", r->host, sizeof r->host);
    }
    return true;
}

static void log_request(const struct request *r, const char *log)
{
    char line[4096];
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int n = snprintf(line, sizeof line, "%s %s range=%s token=%s host=%s\n",
                     r->port == ports[0] ? "hub" : "cdn", r->path, r->range, r->token, r->host);
    if (write(fd, line, (size_t)n) != n) _exit(1);
    close(fd);
}

static int listen_on(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&at, &n))
        exit(1);
    *port = ntohs(at.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3 || sodium_init() < 0) return 2;
    folder = argv[1];
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    struct pollfd listening[2] = {{.events = POLLIN}, {.events = POLLIN}};
    for (int i = 0; i < 2; i++) listening[i].fd = listen_on(&ports[i]);
    printf("%d %d\n", ports[0], ports[1]);
    fflush(stdout);
    for (;;) {
        poll(listening, 2, -1);
        for (int i = 0; i < 2; i++) {
            if (!(listening[i].revents & POLLIN)) continue;
            struct request r = {.fd = accept(listening[i].fd, NULL, NULL), .port = ports[i]};
            if (r.fd >= 0 && fork() == 0) {
                if (read_request(&r)) {
                    log_request(&r, argv[2]);
                    serve(&r);
                }
                shutdown(r.fd, SHUT_WR);
                _exit(0);
            }
            close(r.fd);
        }
    }
}
