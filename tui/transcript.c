#include "tui/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "tui/text.h"

void transcript_clear(struct transcript *t)
{
    for (int i = 0; i < t->n; i++) {
        str_release(&t->messages[i].text);
        free(t->messages[i].lines);
    }
    free(t->messages);
    t->messages = NULL;
    t->n = t->cap = 0;
}

struct message *transcript_add(struct transcript *t, int role, const char *text, size_t n)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->messages = realloc(t->messages, sizeof *t->messages * (size_t)t->cap);
        if (!t->messages) abort();
    }
    struct message *m = &t->messages[t->n++];
    *m = (struct message){.role = role, .gate = {.ascii = t->ascii}, .position = -1};
    transcript_append(m, text, n);
    return m;
}

void transcript_append(struct message *m, const char *text, size_t n)
{
    sanitize_feed(&m->gate, text, n, &m->text);
}

void transcript_close(struct message *m)
{
    sanitize_end(&m->gate, &m->text);
}

static void push_line(struct message *m, size_t from, size_t n)
{
    if (m->n_lines == m->cap_lines) {
        m->cap_lines = m->cap_lines ? 2 * m->cap_lines : 8;
        m->lines = realloc(m->lines, sizeof *m->lines * (size_t)m->cap_lines);
        if (!m->lines) abort();
    }
    m->lines[m->n_lines++] = (struct line){(uint32_t)from, (uint32_t)n};
}

static void cut(struct message *m, int width)
{
    const char *s = str_get(&m->text);
    size_t n = m->text.n;
    if (m->width == width && m->cut_n == n && m->n_lines > 0) return;
    size_t at = 0;
    if (m->width == width && m->n_lines > 0)
        at = m->lines[--m->n_lines].from; /* text grew: only the last line can change */
    else
        m->n_lines = 0;
    while (at < n) {
        size_t shown;
        size_t taken = text_line(s + at, n - at, width, &shown);
        push_line(m, at, shown);
        at += taken;
    }
    if (m->n_lines == 0) push_line(m, 0, 0);
    m->width = width;
    m->cut_n = n;
}

int message_lead(const struct transcript *t, int index)
{
    return index > 0 && t->messages[index].role == CHAT_USER;
}

int message_rows(const struct transcript *t, int index)
{
    return message_lead(t, index) + t->messages[index].n_lines;
}

int transcript_layout(struct transcript *t, int width)
{
    int rows = 0;
    for (int i = 0; i < t->n; i++) {
        cut(&t->messages[i], width);
        rows += message_rows(t, i);
    }
    return rows;
}

int transcript_row(const struct transcript *t, int index, size_t byte)
{
    int row = 0;
    if (index >= t->n) return 0;
    for (int i = 0; i < index; i++) row += message_rows(t, i);
    const struct message *m = &t->messages[index];
    int line = 0;
    while (line + 1 < m->n_lines && m->lines[line + 1].from <= byte) line++;
    return row + message_lead(t, index) + line;
}

void transcript_at_row(const struct transcript *t, int row, int *index, int *line)
{
    *index = *line = 0;
    for (int i = 0; i < t->n; i++) {
        int rows = message_rows(t, i);
        *index = i;
        *line = row - message_lead(t, i);
        if (row < rows) return;
        row -= rows;
    }
}

int transcript_find(const struct transcript *t, int64_t position, size_t *byte)
{
    for (int i = 0; i < t->n; i++) {
        const struct message *m = &t->messages[i];
        if (m->n_tokens <= 0 || position < m->position || position >= m->position + m->n_tokens)
            continue;
        *byte =
            (size_t)((double)(position - m->position) / (double)m->n_tokens * (double)m->text.n);
        return i;
    }
    return -1;
}

void message_positions(const struct message *m, const struct line *l, int64_t *from, int64_t *end)
{
    double per_byte = m->text.n ? (double)m->n_tokens / (double)m->text.n : 0;
    *from = m->position + (int64_t)((double)l->from * per_byte);
    *end = m->position + (int64_t)((double)(l->from + l->n) * per_byte + 0.5);
    if (*end <= *from) *end = *from + 1;
}
