/* retain replay FILE: shows a recorded screen on this terminal. Long pauses are shortened; q, Esc
 * or Ctrl-C ends it. Output to a file or a pipe has no pauses. With --svg its last frame becomes a
 * picture. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "base/utf8_width.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "tui/term/record.h"
#include "tui/term/svg.h"
#include "tui/term/term.h"

static const double pause_max_s = 2;
enum { SIZE_LIMIT = 1000 }; /* columns, rows */

struct replay {
    const char *path;
    FILE *f;
    char *line;
    size_t cap;
    int n_lines, w, h;
    bool tty;
    bool live; /* with the recording's timing, on a terminal that has keys */
    double at_s;
    struct svg *svg; /* draws it instead; NULL = no */
};

static int broken(const struct replay *r, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s, line %d: not an asciicast of version 2", r->path,
                   r->n_lines);
}

/* 1 = a line was read, 0 = the end. */
static int next_line(struct replay *r)
{
    ssize_t n = file_line(r->f, FILE_MESSAGE, &r->line, &r->cap);
    r->n_lines++;
    return n > 0;
}

static bool is_size(int w, int h)
{
    return w >= 1 && h >= 1 && w <= SIZE_LIMIT && h <= SIZE_LIMIT;
}

static int read_header(struct replay *r, struct err *e)
{
    cJSON *o = next_line(r) ? cJSON_Parse(r->line) : NULL;
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(o, "version");
    const cJSON *w = cJSON_GetObjectItemCaseSensitive(o, "width");
    const cJSON *h = cJSON_GetObjectItemCaseSensitive(o, "height");
    int rc = 0;
    if (!cJSON_IsNumber(version) || version->valueint != 2 || !cJSON_IsNumber(w) ||
        !cJSON_IsNumber(h) || !is_size(w->valueint, h->valueint))
        rc = broken(r, e);
    if (!rc) r->w = w->valueint;
    if (!rc) r->h = h->valueint;
    cJSON_Delete(o);
    return rc;
}

/* ---- on a terminal --------------------------------------------------------------------------- */

/* Sleeps; false when a key or a signal ends the sleep. */
static bool wait_s(double s)
{
    char keys[64];
    struct pollfd fds[] = {{.fd = term_in(), .events = POLLIN},
                           {.fd = term_signal_fd(), .events = POLLIN}};
    if (s > pause_max_s) s = pause_max_s;
    if (poll(fds, 2, s > 0 ? (int)(s * 1000) : 0) <= 0) return true;
    if (fds[1].revents) return false;
    ssize_t n = read(term_in(), keys, sizeof keys);
    for (ssize_t i = 0; i < n; i++)
        if (keys[i] == 'q' || keys[i] == '\033' || keys[i] == 3) return false;
    return n > 0;
}

/* Writes unchanged to a file, sanitised to a terminal. */
static void put(const struct replay *r, const char *text)
{
    struct str safe = {0};
    if (r->tty)
        record_clean(text, !utf8_locale(), &safe);
    else
        str_puts(&safe, text);
    if (r->live)
        term_write(str_get(&safe), safe.n);
    else
        fputs(str_get(&safe), stdout);
    str_release(&safe);
}

/* Whether this terminal shows all of the recorded one. */
static int check_size(const struct replay *r, struct err *e)
{
    int w, h;
    if (!r->live || !term_size(&w, &h) || (w >= r->w && h >= r->h)) return 0;
    return err_set(e, ERR_FAIL, "%s is %d x %d, this terminal %d x %d: enlarge the terminal",
                   r->path, r->w, r->h, w, h);
}

static int resize(struct replay *r, const char *text, struct err *e)
{
    int w, h;
    if (sscanf(text, "%dx%d", &w, &h) != 2 || !is_size(w, h)) return 0;
    if (r->svg) svg_resize(r->svg, w, h);
    r->w = w;
    r->h = h;
    return check_size(r, e);
}

/* One event; 1 = the user has ended it. */
static int take_event(struct replay *r, double s, char kind, const char *text, struct err *e)
{
    if (kind == 'r') return resize(r, text, e);
    if (kind != 'o') return 0;
    if (r->svg)
        svg_feed(r->svg, text);
    else if (r->live && !wait_s(s - r->at_s))
        return 1;
    r->at_s = s;
    if (!r->svg) put(r, text);
    return 0;
}

static int play(struct replay *r, struct err *e)
{
    while (next_line(r)) {
        cJSON *event = cJSON_Parse(r->line);
        const cJSON *s = cJSON_GetArrayItem(event, 0), *kind = cJSON_GetArrayItem(event, 1);
        const cJSON *text = cJSON_GetArrayItem(event, 2);
        bool whole = cJSON_IsNumber(s) && cJSON_IsString(kind) && cJSON_IsString(text);
        int rc = whole ? take_event(r, s->valuedouble, kind->valuestring[0], text->valuestring, e)
                       : broken(r, e);
        cJSON_Delete(event);
        if (rc) return rc < 0 ? rc : 0;
    }
    return 0;
}

static int play_live(struct replay *r, struct err *e)
{
    static const char begin[] = "\033[?1049h\033[2J\033[H";
    static const char end[] = "\033[0m\033[?25h\033[?1049l";
    int rc = term_open(e);
    if (rc) return rc;
    term_raw();
    rc = check_size(r, e);
    if (!rc) {
        term_write(begin, sizeof begin - 1);
        rc = play(r, e);
        if (!rc) wait_s(pause_max_s); /* the last frame stays visible for a moment, too */
        term_write(end, sizeof end - 1);
    }
    term_close();
    return rc;
}

/* ---- as a picture ---------------------------------------------------------------------------- */

static int write_file(const char *path, const struct str *text, struct err *e)
{
    FILE *f = fopen(path, "we");
    bool ok = f && fwrite(str_get(text), 1, text->n, f) == text->n;
    if (f && fclose(f)) ok = false;
    return ok ? 0 : err_set(e, ERR_FAIL, "cannot write %s: %s", path, strerror(errno));
}

static int draw(struct replay *r, const char *path, bool light, struct err *e)
{
    struct str out = {0};
    int rc = read_header(r, e);
    if (rc) return rc;
    r->svg = svg_new(r->w, r->h, light);
    rc = play(r, e);
    if (!rc) svg_write(r->svg, &out);
    if (!rc) rc = write_file(path, &out, e);
    svg_free(r->svg);
    r->svg = NULL;
    str_release(&out);
    return rc;
}

static int show(struct replay *r, struct err *e)
{
    int rc = read_header(r, e);
    r->tty = isatty(STDOUT_FILENO);
    r->live = r->tty && isatty(STDIN_FILENO);
    if (rc) return rc;
    return r->live ? play_live(r, e) : play(r, e);
}

int cmd_replay(const struct options *o)
{
    struct replay r = {.path = o->args[0]};
    struct err e = {0};
    int rc = 0;
    if (o->n_args != 1) rc = err_set(&e, ERR_USAGE, "usage: retain replay FILE");
    if (!rc && !(r.f = file_open(r.path, FILE_MESSAGE, &e))) rc = ERR_FAIL;
    if (!rc && o->svg)
        rc = draw(&r, o->svg, !strcmp(o->chat.background, "light"), &e);
    else if (!rc)
        rc = show(&r, &e);
    if (r.f) fclose(r.f);
    free(r.line);
    return rc ? report_error(&e) : 0;
}
