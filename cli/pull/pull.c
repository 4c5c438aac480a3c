#include "cli/pull/pull.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "cli/pull/address.h"
#include "cli/pull/ahead.h"
#include "cli/pull/download.h"
#include "cli/pull/hub.h"

#define HUB_URL     "https://huggingface.co"
#define HOSTS_MAX   16
#define PARTS_MAX   1000
#define START_BYTES ((int64_t)1 << 20)  /* asked for first */
#define START_MAX   ((int64_t)64 << 20) /* a header that is longer is refused */

/* One file of the model. */
struct part {
    struct download download;
    struct str url, path;
    const char *sha256;
    int64_t size; /* -1 = not known */
};

struct pull {
    const struct options *options;
    const char *text; /* the address as given */
    struct address address;
    struct http *http;
    struct hub hub;
    struct hub_list list;
    const char *hosts[HOSTS_MAX];
    int n_hosts;
    struct str host_texts; /* that some of them point into */
    struct part *parts;
    int n_parts;
    int64_t begun_ns, begun_bytes; /* of the transfer, for its rate */
    int64_t shown_ns;
};

/* ---- who may be contacted -------------------------------------------------------------------- */

static void allow(struct pull *p, const char *host)
{
    if (*host && p->n_hosts < HOSTS_MAX) p->hosts[p->n_hosts++] = memory_copy(host);
}

static void set_hosts(struct pull *p)
{
    char host[256];
    if (p->address.hub) {
        allow(p, "huggingface.co");
        allow(p, "hf.co");
    }
    const char *more = p->options->pull.allow_host;
    for (int i = 0; more && options_list_item(more, i, host, sizeof host); i++) allow(p, host);
}

/* A token is printable, so that it cannot add a header. */
static const char *token(void)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *t = getenv(names[i]);
        if (!t || !*t || strlen(t) > 1000) continue;
        const char *c = t;
        while (*c > 0x20 && *c < 0x7f) c++;
        if (!*c) return t;
    }
    return NULL;
}

static bool on_stop(void *ctx)
{
    (void)ctx;
    return report_interrupted();
}

static int connect_to(struct pull *p, struct err *e)
{
    const char *url = getenv("HF_ENDPOINT");
    size_t n = url ? strlen(url) : 0;
    while (n && url[n - 1] == '/') n--;
    if (n) str_append(&p->host_texts, url, n);
    p->hub.url = n ? str_get(&p->host_texts) : HUB_URL;
    set_hosts(p);
    const char *t = p->address.hub ? token() : NULL;
    p->hub.has_token = t != NULL;
    const struct http_opts ho = {.home = p->address.hub ? p->hub.url : p->address.url,
                                 .hosts = p->hosts,
                                 .n_hosts = p->n_hosts,
                                 .token = t,
                                 .stop = on_stop};
    int rc = http_open(&p->http, &ho, e);
    p->hub.http = p->http;
    if (!rc) report_status("asking %s ...", http_host(p->http));
    return rc;
}

/* ---- what to download ------------------------------------------------------------------------ */

static struct part *add_part(struct pull *p)
{
    p->parts = memory_grow(p->parts, (size_t)p->n_parts + 1, sizeof *p->parts);
    struct part *part = &p->parts[p->n_parts++];
    *part = (struct part){.download = {.fd = -1}, .sha256 = "", .size = -1};
    return part;
}

/* Appends a path of a repository to an address: bytes that need it as %XX. */
static void put_escaped(struct str *out, const char *path)
{
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        bool plain =
            (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-_.~/", c);
        str_printf(out, plain ? "%c" : "%%%02X", c);
    }
}

static int find_in_hub(struct pull *p, struct err *e)
{
    int rc = hub_read(&p->list, &p->hub, p->address.repo, e);
    const struct hub_file *first = rc ? NULL : hub_choose(&p->list, &p->address, e);
    if (!first) return rc ? rc : ERR_FAIL;
    struct str path = {0};
    int n = file_parts(first->path);
    for (int i = 0; i < n && !rc; i++) {
        file_part_path(&path, first->path, i);
        const struct hub_file *f = n <= PARTS_MAX ? hub_find(&p->list, str_get(&path)) : NULL;
        if (!f) {
            rc = err_set(e, ERR_FAIL, "%s lacks %s, a part of its model", p->address.repo,
                         str_get(&path));
            break;
        }
        struct part *part = add_part(p);
        str_printf(&part->url, "%s/%s/resolve/%s/", p->hub.url, p->address.repo, p->list.commit);
        put_escaped(&part->url, f->path);
        part->sha256 = f->sha256;
        part->size = f->size;
        str_puts(&part->path, f->path);
    }
    str_release(&path);
    return rc;
}

/* The other parts of a split model are next to the first. */
static int find_at_address(struct pull *p, struct err *e)
{
    int n = file_parts(p->address.file);
    char *name = strstr(p->address.url, p->address.file);
    if (n > PARTS_MAX || (n > 1 && !name))
        return err_set(e, ERR_USAGE, "\"%.200s\" has too many parts", p->text);
    for (int i = 0; i < n; i++) {
        struct part *part = add_part(p);
        file_part_path(&part->path, p->address.file, i);
        str_puts(&part->url, p->address.url);
        if (n > 1) memcpy(part->url.data + (name - p->address.url), part->path.data, part->path.n);
    }
    return 0;
}

/* Makes part->path a path below the folder of models. */
static int place(const struct pull *p, struct part *part, struct err *e)
{
    struct str folder = {0};
    int rc = path_find(PATH_DATA, "models", &folder, e);
    if (!rc) {
        str_printf(&folder, "/%s/%s", p->address.repo, str_get(&part->path));
        rc = file_make_folders(folder.data, e);
        str_clear(&part->path);
        str_puts(&part->path, str_get(&folder));
    }
    str_release(&folder);
    return rc;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Bytes here, and of all parts; *total -1 if one is not known. */
static int64_t sum(const struct pull *p, int64_t *total)
{
    int64_t done = 0;
    *total = 0;
    for (int i = 0; i < p->n_parts; i++) {
        const struct download *d = &p->parts[i].download;
        int64_t size = d->fd >= 0 || d->complete ? d->size : p->parts[i].size;
        done += d->done;
        *total = *total < 0 || size < 0 ? -1 : *total + size;
    }
    return done;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The rate is the mean since the transfer began. */
static int on_progress(void *ctx, int64_t unused, int64_t unused_total)
{
    struct pull *p = ctx;
    int64_t total, done = sum(p, &total), now = system_clock_ns();
    char a[NUM_MAX], b[NUM_MAX];
    struct str line = {0};
    (void)unused;
    (void)unused_total;
    if (report_interrupted()) return 1;
    if (now - p->shown_ns < 200000000 && done != total) return 0;
    p->shown_ns = now;
    double s = (double)(now - p->begun_ns) / 1e9;
    double rate = p->begun_ns && s > 1 ? (double)(done - p->begun_bytes) / s : 0;
    str_printf(&line, "%s  %s", file_name(str_get(&p->parts[0].path)), num_bytes(done, a));
    if (total > 0)
        str_printf(&line, " of %s  %d %%", num_bytes(total, b), (int)(done * 100 / total));
    if (rate > 0) str_printf(&line, "  %s/s", num_bytes((int64_t)rate, a));
    if (rate > 0 && total > done)
        str_printf(&line, "  %s", num_left((double)(total - done) / rate, a));
    report_status("%s", str_get(&line));
    str_release(&line);
    return 0;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Maps the bytes of a part that are here. */
static int map_start(struct part *part, struct gguf_start *out, struct err *e)
{
    int fd = part->download.complete ? open(str_get(&part->path), O_RDONLY | O_CLOEXEC)
                                     : part->download.fd;
    out->n = (size_t)part->download.done;
    out->name = file_name(str_get(&part->path));
    out->bytes = out->n && fd >= 0 ? mmap(NULL, out->n, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (part->download.complete && fd >= 0) close(fd);
    if (out->bytes != MAP_FAILED) return 0;
    out->bytes = NULL;
    return err_set(e, ERR_FAIL, "%s: cannot be read", str_get(&part->path));
}

/* Downloads and maps the descriptions: more and more, until they are complete. */
static int get_start(struct part *part, struct gguf_start *out, struct err *e)
{
    struct download *d = &part->download;
    for (int64_t want = START_BYTES;; want *= 2) {
        struct gguf *file;
        int rc = download_run(d, want, e);
        if (!rc) rc = map_start(part, out, e);
        if (rc) return rc;
        rc = gguf_open_starts(&file, out, 1, e);
        gguf_close(file);
        bool more = d->done < d->size && want < START_MAX && !memcmp(out->bytes, "GGUF", 4);
        if (!rc || !more) return rc;
        munmap((void *)(uintptr_t)out->bytes, out->n);
        out->bytes = NULL;
    }
}

static int look_ahead(struct pull *p, struct ahead *out, struct err *e)
{
    struct gguf_start *starts = memory_new((size_t)p->n_parts, sizeof *starts);
    int64_t total;
    int rc = 0;
    for (int i = 0; i < p->n_parts && !rc; i++) rc = get_start(&p->parts[i], &starts[i], e);
    sum(p, &total);
    if (!rc) rc = ahead_read(out, starts, p->n_parts, total, p->options, e);
    for (int i = 0; i < p->n_parts; i++)
        if (starts[i].bytes) munmap((void *)(uintptr_t)starts[i].bytes, starts[i].n);
    free(starts);
    return rc;
}

static int tell_misfit(const struct pull *p, const struct ahead *a, const char *what, struct err *e)
{
    char needs[NUM_MAX], has[NUM_MAX], size[NUM_MAX];
    int64_t bytes = 0;
    const struct hub_file *f = hub_largest(&p->list, a->file_bytes_max, &bytes);
    struct str advice = {0};
    if (f)
        str_printf(&advice, "%s (%s) would fit", f->path, num_bytes(bytes, size));
    else
        str_puts(&advice, "a smaller model or quantization may fit");
    int rc = err_set(e, ERR_FIT,
                     "%s does not fit: it needs %s of memory, and %s may be used; %s; --force "
                     "downloads it anyway",
                     what, num_bytes(a->plan_bytes, needs), num_bytes(a->limit_bytes, has),
                     str_get(&advice));
    str_release(&advice);
    return rc;
}

static int tell_plan(const struct pull *p, const struct ahead *a, struct err *e)
{
    char size[NUM_MAX], needs[NUM_MAX], has[NUM_MAX], units[NUM_MAX];
    struct str what = {0};
    int64_t total;
    sum(p, &total);
    str_printf(&what, "%s, %s: %s", a->name, a->type, num_bytes(total, size));
    int rc = 0;
    if (!a->budget && !p->options->force)
        rc = tell_misfit(p, a, str_get(&what), e);
    else if (!a->budget)
        report_note("%s; it does not fit into this machine's memory", str_get(&what));
    else
        report_note("%s; fits with %s units per head: %s of %s of memory", str_get(&what),
                    num_exact(a->budget, units), num_bytes(a->plan_bytes, needs),
                    num_bytes(a->limit_bytes, has));
    str_release(&what);
    return rc;
}

/* Asks on the terminal; without one the command itself is the agreement. */
static int agree(const struct pull *p, struct err *e)
{
    char line[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return 0;
    report_aside("download it now? [Y/n] ");
    ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);
    if (n > 0 && *line != 'n' && *line != 'N') return 0;
    return err_set(e, ERR_STOP, "%s was not downloaded", p->text);
}

/* ---- the pull -------------------------------------------------------------------------------- */

static int open_parts(struct pull *p, bool *complete, struct err *e)
{
    *complete = true;
    for (int i = 0; i < p->n_parts; i++) {
        struct part *part = &p->parts[i];
        int rc = place(p, part, e);
        if (rc) return rc;
        const struct download_opts o = {.http = p->http,
                                        .url = str_get(&part->url),
                                        .path = str_get(&part->path),
                                        .address = p->text,
                                        .commit = p->list.commit,
                                        .size = part->size,
                                        .sha256 = part->sha256,
                                        .has_token = p->hub.has_token,
                                        .replace = p->options->force,
                                        .progress = on_progress,
                                        .ctx = p};
        rc = download_open(&part->download, &o, e);
        if (rc) return rc;
        *complete &= part->download.complete;
    }
    return 0;
}

static int check_disk(const struct pull *p, struct err *e)
{
    int64_t total, done = sum(p, &total);
    return total < 0 ? 0 : download_check_disk(str_get(&p->parts[0].path), total - done, e);
}

static int run_parts(struct pull *p, struct err *e)
{
    char sha256[65];
    int64_t total;
    int rc = 0;
    p->begun_ns = system_clock_ns();
    p->begun_bytes = sum(p, &total);
    for (int i = 0; i < p->n_parts && !rc; i++) {
        rc = download_run(&p->parts[i].download, -1, e);
        if (!rc) rc = download_finish(&p->parts[i].download, sha256, e);
    }
    report_status_end();
    return rc;
}

/* Of a model that is not wanted; larger parts are of an earlier run, when it was. */
static void drop_starts(struct pull *p)
{
    for (int i = 0; i < p->n_parts; i++) {
        struct download *d = &p->parts[i].download;
        if (d->done <= START_BYTES) download_drop(d);
    }
}

static int transfer(struct pull *p, bool ask, struct err *e)
{
    struct ahead a;
    int rc = check_disk(p, e);
    bool model = str_ends(str_get(&p->parts[0].path), ".gguf");
    if (!rc && model) rc = look_ahead(p, &a, e);
    report_status_end();
    if (!rc && model) rc = tell_plan(p, &a, e);
    if (!rc && ask) rc = agree(p, e);
    if (rc == ERR_FORMAT || rc == ERR_FIT) drop_starts(p);
    return rc ? rc : run_parts(p, e);
}

static int stopped(const struct pull *p, struct err *e)
{
    char done[NUM_MAX];
    int64_t total, bytes = sum(p, &total);
    report_status_end();
    if (!bytes) return err_set(e, ERR_STOP, "stopped before the first byte");
    return err_set(e, ERR_STOP, "stopped after %s; the same command continues there",
                   num_bytes(bytes, done));
}

static void release(struct pull *p)
{
    for (int i = 0; i < p->n_parts; i++) {
        download_close(&p->parts[i].download);
        str_release(&p->parts[i].url);
        str_release(&p->parts[i].path);
    }
    for (int i = 0; i < p->n_hosts; i++) free((char *)(uintptr_t)p->hosts[i]);
    free(p->parts);
    hub_list_release(&p->list);
    http_close(p->http);
    str_release(&p->host_texts);
}

int pull_get(const struct options *o, const char *address, bool ask, struct str *path, bool *fresh,
             struct err *e)
{
    struct pull p = {.options = o, .text = address};
    bool complete = false;
    report_catch_interrupt();
    int rc = address_parse(&p.address, address, e);
    if (!rc) rc = connect_to(&p, e);
    if (!rc) rc = p.address.hub ? find_in_hub(&p, e) : find_at_address(&p, e);
    if (!rc) rc = open_parts(&p, &complete, e);
    if (!rc && complete) report_note("%s is here already", str_get(&p.parts[0].path));
    if (!rc && !complete) rc = transfer(&p, ask, e);
    if (rc == ERR_STOP && report_interrupted()) stopped(&p, e);
    report_status_end();
    if (!rc) str_puts(path, str_get(&p.parts[0].path));
    *fresh = !complete;
    release(&p);
    return rc;
}

/* ---- pulled files --------------------------------------------------------------------------- */

/* Paths are relative to the folder that is walked. */
struct here {
    struct hub_list list;
    size_t root; /* bytes of the folder's path, with its slash */
};

static void add_here(void *ctx, const char *path, int64_t size)
{
    struct here *h = ctx;
    struct hub_list *l = &h->list;
    l->files = memory_grow(l->files, (size_t)l->n + 1, sizeof *l->files);
    l->files[l->n++] = (struct hub_file){.path = memory_copy(path + h->root), .size = size};
}

bool pull_find(const char *address, struct str *path)
{
    struct address a;
    struct str folder = {0};
    struct here here = {0};
    struct file_identity all;
    bool found = false;
    str_clear(path);
    if (!address_parse(&a, address, NULL) && !path_find(PATH_DATA, "models", &folder, NULL)) {
        str_printf(&folder, "/%s", a.repo);
        here.root = folder.n + 1;
        path_walk(str_get(&folder), add_here, &here);
        hub_list_sort(&here.list);
        const struct hub_file *f = hub_choose(&here.list, &a, NULL);
        if (f) str_printf(path, "%s/%s", str_get(&folder), f->path);
        found = f && !file_identity_read(&all, str_get(path), NULL); /* all its parts are here */
    }
    if (!found) str_clear(path);
    hub_list_release(&here.list);
    str_release(&folder);
    return found;
}

int pull_model(const struct options *o, const char **model, struct str *path, struct err *e)
{
    if (!*model || !address_is(*model)) return 0;
    bool fresh;
    int rc = pull_find(*model, path) ? 0 : pull_get(o, *model, true, path, &fresh, e);
    if (!rc) *model = str_get(path);
    return rc;
}
