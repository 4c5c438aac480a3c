#include "quant/eval/picture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "runtime/session/session.h"

enum { LEFT = 60, TOP = 40, WIDTH = 1000, ROW = 10, GAP = 4, BOTTOM = 30 };

static void put_escaped(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"", *text))
            str_printf(out, "&#%d;", *text);
        else
            str_append(out, text, 1);
    }
}

/* Columns of one colour next to each other are one rectangle. */
static void put_row(struct str *out, const struct retention *r, const uint32_t *kept, int y)
{
    double width = (double)WIDTH / r->n_cols;
    for (int from = 0, end; from < r->n_cols; from = end) {
        int64_t last = r->n_pos - (int64_t)(r->n_cols - 1) * r->col_width;
        int shade = 0;
        for (end = from; end < r->n_cols; end++) {
            int64_t all = end == r->n_cols - 1 ? last : r->col_width;
            int next = all > 0 ? (int)(16 * (int64_t)kept[end] / all) : 0;
            if (kept[end] && !next) next = 1;
            if (end > from && next != shade) break;
            shade = next;
        }
        if (!shade) continue;
        str_printf(
            out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill-opacity=\"%.3f\"/>\n",
            LEFT + from * width, y, (end - from) * width, ROW, shade / 16.0);
    }
}

static void draw(struct str *out, const struct retention *r, const char *title)
{
    int height = TOP + r->n_layer * (r->n_head * ROW + GAP) + BOTTOM, y = TOP;
    str_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"22\">",
               LEFT + WIDTH + GAP, height, LEFT);
    put_escaped(out, title);
    str_puts(out, "</text>\n<g fill=\"#1f4e9c\">\n");
    for (int layer = 0; layer < r->n_layer; layer++, y += GAP)
        for (int head = 0; head < r->n_head; head++, y += ROW) {
            const uint32_t *kept = r->kept + (size_t)(layer * r->n_head + head) * RETENTION_COLS;
            if (!head)
                str_printf(out, "<text x=\"4\" y=\"%d\" fill=\"black\">layer %d</text>\n", y + ROW,
                           layer);
            put_row(out, r, kept, y);
        }
    str_printf(out,
               "</g>\n<text x=\"%d\" y=\"%d\">0</text>\n"
               "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld tokens</text>\n</svg>\n",
               LEFT, y + 16, LEFT + WIDTH, y + 16, (long long)r->n_pos);
}

int picture_write(const char *path, const struct session *s, const char *title, struct err *e)
{
    struct retention *r = retention_new(s);
    struct str svg = {0};
    session_retention(s, r);
    if (r->n_cols > 0) draw(&svg, r, title);
    retention_free(r);
    FILE *f = fopen(path, "w");
    bool ok = f && fwrite(str_get(&svg), 1, svg.n, f) == svg.n;
    if (f && fclose(f)) ok = false;
    str_release(&svg);
    return ok ? 0 : err_set(e, ERR_FAIL, "%s: %s", path, strerror(errno));
}
