#include "tui/term/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/system.h"
#include "base/utf8.h"
#include "cli/print/sanitize.h"
#include "tui/term/ansi.h"

struct record {
    const char *path;
    FILE *f;
    int failed;       /* errno of the first failed write; nothing is written after it */
    int64_t start_ns; /* time of the first frame; 0 = none yet */
    struct grid shown;
    struct look look;
    struct ansi out;
    struct utf8_join typed;
};

int record_open(struct record **out, const char *path, struct err *e)
{
    *out = NULL;
    struct record *r = memory_new(1, sizeof *r);
    r->path = path;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r->f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!r->f) {
        int rc = err_set(e, ERR_FAIL, "cannot record to %s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        free(r);
        return rc;
    }
    r->look = (struct look){.colors = 256};
    r->out.look = &r->look;
    *out = r;
    return 0;
}

int record_close(struct record *r, struct err *e)
{
    if (!r) return 0;
    if (fclose(r->f) && !r->failed) r->failed = errno;
    int rc = r->failed ? err_set(e, ERR_FAIL, "the recording %s is not complete: %s", r->path,
                                 strerror(r->failed))
                       : 0;
    grid_release(&r->shown);
    str_release(&r->out.bytes);
    free(r);
    return rc;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void put_event(struct record *r, char kind, const char *text, size_t n)
{
    double s = (double)(system_clock_ns() - r->start_ns) / 1e9;
    struct str line = {0};
    if (r->failed) return;
    str_printf(&line, "[%.3f, \"%c\", ", s, kind);
    str_json(&line, text, n);
    fprintf(r->f, "%s]\n", line.data);
    str_release(&line);
    errno = 0;
    /* after a crash the last frame matters most */
    if (fflush(r->f) || ferror(r->f)) r->failed = errno ? errno : EIO;
}

static void put_header(struct record *r, const struct grid *g)
{
    fprintf(r->f,
            "{\"version\": 2, \"width\": %d, \"height\": %d, \"timestamp\": %lld, "
            "\"title\": \"retain\", \"env\": {\"TERM\": \"xterm-256color\"}}\n",
            g->w, g->h, (long long)(system_unix_ms() / 1000));
    r->start_ns = system_clock_ns();
}

/* ---- frames ---------------------------------------------------------------------------------- */

void record_look(struct record *r, const struct look *k)
{
    if (!r) return;
    r->look = *k;
    if (k->colors < 256) r->look.colors = 256; /* a player has them */
    r->shown.w = 0;                            /* every cell is written again */
}

void record_frame(struct record *r, const struct grid *g)
{
    if (!r) return;
    bool first = r->start_ns == 0, resized = r->shown.w != g->w || r->shown.h != g->h;
    str_clear(&r->out.bytes);
    if (first) put_header(r, g);
    if (resized && !first) {
        char size[32];
        int n = snprintf(size, sizeof size, "%dx%d", g->w, g->h);
        put_event(r, 'r', size, (size_t)n);
    }
    if (resized) {
        grid_init(&r->shown, g->w, g->h, g->ascii);
        ansi_begin(&r->out);
        str_puts(&r->out.bytes, "\033[2J");
    }
    for (int y = 0; y < g->h; y++) ansi_row(&r->out, g, &r->shown.cells[y * g->w], y);
    bool moved = g->cursor_x != r->shown.cursor_x || g->cursor_y != r->shown.cursor_y;
    if (r->out.bytes.n == 0 && !moved) return;
    ansi_cursor(&r->out, g);
    put_event(r, 'o', str_get(&r->out.bytes), r->out.bytes.n);
    memcpy(r->shown.cells, g->cells, sizeof *g->cells * (size_t)g->w * (size_t)g->h);
    r->shown.cursor_x = g->cursor_x;
    r->shown.cursor_y = g->cursor_y;
}

void record_input(struct record *r, const char *bytes, size_t n)
{
    char out[512];
    if (!r || !r->start_ns) return;
    /* A character may arrive in parts; a line with half of one would be invalid JSON. */
    for (size_t part; n > 0; bytes += part, n -= part) {
        part = n < 128 ? n : 128;
        size_t m = utf8_join(&r->typed, bytes, part, false, out);
        if (m > 0) put_event(r, 'i', out, m);
    }
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Bytes of the sequence at the beginning of s: ESC [ numbers and m, H, C or J, or the cursor's; 0 =
 * any other sequence. */
static size_t known_sequence(const char *s)
{
    if (strncmp(s, "\033[?25h", 6) == 0 || strncmp(s, "\033[?25l", 6) == 0) return 6;
    if (s[0] != '\033' || s[1] != '[') return 0;
    size_t n = 2 + strspn(s + 2, "0123456789;");
    return s[n] && strchr("mHCJ", s[n]) ? n + 1 : 0;
}

void record_clean(const char *text, bool ascii, struct str *out)
{
    while (*text) {
        size_t n = known_sequence(text);
        if (n > 0) {
            str_append(out, text, n);
        } else {
            n = 1 + strcspn(text + 1, "\033");
            sanitize(text, n, ascii, true, out);
        }
        text += n;
    }
}
