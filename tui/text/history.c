#include "tui/text/history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

static void push(struct history *h, const char *text, size_t n)
{
    if (h->n == HISTORY_MAX) {
        str_release(&h->rows[0]);
        memmove(h->rows, h->rows + 1, sizeof *h->rows * (size_t)(HISTORY_MAX - 1));
        h->n--;
        memset(&h->rows[h->n], 0, sizeof *h->rows);
    }
    str_append(&h->rows[h->n++], text, n);
    h->at = h->n;
}

static void unescape(const char *line, size_t n, struct str *out)
{
    str_clear(out);
    for (size_t i = 0; i < n; i++) {
        char c = line[i];
        if (c == '\\' && i + 1 < n) c = line[++i] == 'n' ? '\n' : line[i];
        str_append(out, &c, 1);
    }
}

static void escape(const char *text, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n')
            str_puts(out, "\\n");
        else if (text[i] == '\\')
            str_puts(out, "\\\\");
        else
            str_append(out, text + i, 1);
    }
    str_puts(out, "\n");
}

static void load(struct history *h)
{
    FILE *f = file_open(h->path, FILE_SETTINGS, NULL);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    struct str text = {0};
    if (!f) return;
    while ((n = file_line(f, FILE_MESSAGE, &line, &cap)) > 0) {
        if (line[n - 1] == '\n') n--;
        unescape(line, (size_t)n, &text);
        if (text.n) push(h, text.data, text.n);
    }
    str_release(&text);
    free(line);
    fclose(f);
}

void history_init(struct history *h, const char *path)
{
    memset(h, 0, sizeof *h);
    h->rows = memory_new(HISTORY_MAX, sizeof *h->rows);
    if (!path) return;
    h->path = memory_copy(path);
    load(h);
}

void history_release(struct history *h)
{
    for (int i = 0; h->rows && i < h->n; i++) str_release(&h->rows[i]);
    free(h->rows);
    free(h->path);
    str_release(&h->draft);
    memset(h, 0, sizeof *h);
}

/* One write of one line, so that two programs can append at once. */
static void save(const struct history *h, const char *text, size_t n)
{
    struct str line = {0};
    int fd = open(h->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    escape(text, n, &line);
    /* history is a convenience: a full disk must not stop a chat */
    ssize_t written = write(fd, line.data, line.n);
    (void)written;
    close(fd);
    str_release(&line);
}

void history_add(struct history *h, const char *text, size_t n)
{
    const struct str *last = h->n ? &h->rows[h->n - 1] : NULL;
    h->at = h->n;
    str_clear(&h->draft);
    if (n == 0) return;
    if (last && last->n == n && memcmp(last->data, text, n) == 0) return;
    push(h, text, n);
    if (h->path && n <= HISTORY_SAVED_BYTES) save(h, text, n);
}

const struct str *history_older(struct history *h, const struct str *text)
{
    if (h->at == 0) return NULL;
    if (h->at == h->n) {
        str_clear(&h->draft);
        str_append(&h->draft, str_get(text), text->n);
    }
    return &h->rows[--h->at];
}

const struct str *history_newer(struct history *h)
{
    if (h->at >= h->n) return NULL;
    h->at++;
    return h->at == h->n ? &h->draft : &h->rows[h->at];
}

int history_find(const struct history *h, const struct str *text, int at)
{
    for (int i = at < h->n ? at : h->n - 1; text->n && i >= 0; i--)
        if (memmem(h->rows[i].data, h->rows[i].n, text->data, text->n)) return i;
    return -1;
}
