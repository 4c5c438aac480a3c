/* retain replay FILE: shows a recorded screen on this terminal. Long pauses are shortened; q, Esc
 * or Ctrl-C ends it. Output to a file or a pipe has no pauses. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/utf8_width.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "tui/term/record.h"
#include "tui/term/term.h"

static const double pause_max_s = 2;

struct replay {
    const char *path;
    FILE *f;
    char *line;
    size_t cap;
    int n_lines, w, h;
    bool tty;
    bool live; /* with the recording's timing, on a terminal that has keys */
    double at_s;
};

static int broken(const struct replay *r, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s, line %d: not an asciicast of version 2", r->path,
                   r->n_lines);
}

/* 1 = a line was read, 0 = the end. */
static int next_line(struct replay *r)
{
    ssize_t n = getline(&r->line, &r->cap, r->f);
    r->n_lines++;
    return n > 0;
}

static int read_header(struct replay *r, struct err *e)
{
    cJSON *o = next_line(r) ? cJSON_Parse(r->line) : NULL;
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(o, "version");
    const cJSON *w = cJSON_GetObjectItemCaseSensitive(o, "width");
    const cJSON *h = cJSON_GetObjectItemCaseSensitive(o, "height");
    int rc = 0;
    if (!cJSON_IsNumber(version) || version->valueint != 2 || !cJSON_IsNumber(w) ||
        !cJSON_IsNumber(h) || w->valueint < 1 || h->valueint < 1)
        rc = broken(r, e);
    if (!rc) r->w = w->valueint;
    if (!rc) r->h = h->valueint;
    cJSON_Delete(o);
    return rc;
}

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

static int play(struct replay *r, struct err *e)
{
    while (next_line(r)) {
        cJSON *event = cJSON_Parse(r->line);
        const cJSON *s = cJSON_GetArrayItem(event, 0), *kind = cJSON_GetArrayItem(event, 1);
        const cJSON *text = cJSON_GetArrayItem(event, 2);
        bool whole = cJSON_IsNumber(s) && cJSON_IsString(kind) && cJSON_IsString(text);
        bool go_on = true;
        if (whole && strcmp(kind->valuestring, "o") == 0) {
            if (r->live) go_on = wait_s(s->valuedouble - r->at_s);
            r->at_s = s->valuedouble;
            put(r, text->valuestring);
        }
        cJSON_Delete(event);
        if (!whole) return broken(r, e);
        if (!go_on) return 0;
    }
    return 0;
}

static int play_live(struct replay *r, struct err *e)
{
    static const char begin[] = "\033[?1049h\033[2J\033[H";
    static const char end[] = "\033[0m\033[?25h\033[?1049l";
    struct termios raw;
    int w, h, rc = term_open(e);
    if (rc) return rc;
    tcgetattr(term_in(), &raw);
    cfmakeraw(&raw);
    tcsetattr(term_in(), TCSADRAIN, &raw);
    if (term_size(&w, &h) && (w < r->w || h < r->h)) {
        rc = err_set(e, ERR_FAIL, "%s is %d x %d, this terminal %d x %d: enlarge the terminal",
                     r->path, r->w, r->h, w, h);
    } else {
        term_write(begin, sizeof begin - 1);
        rc = play(r, e);
        if (!rc) wait_s(pause_max_s); /* the last frame stays visible for a moment, too */
        term_write(end, sizeof end - 1);
    }
    term_close();
    return rc;
}

int cmd_replay(const struct options *o)
{
    struct replay r = {.path = o->n_args == 1 ? o->args[0] : NULL};
    struct err e = {0};
    int rc = r.path ? 0 : err_set(&e, ERR_USAGE, "usage: retain replay FILE");
    if (!rc && !(r.f = fopen(r.path, "re")))
        rc = err_set(&e, ERR_FAIL, "cannot read %s: %s", r.path, strerror(errno));
    if (!rc) rc = read_header(&r, &e);
    r.tty = isatty(STDOUT_FILENO);
    r.live = r.tty && isatty(STDIN_FILENO);
    if (!rc) rc = r.live ? play_live(&r, &e) : play(&r, &e);
    if (r.f) fclose(r.f);
    free(r.line);
    return rc ? report_error(&e) : 0;
}
