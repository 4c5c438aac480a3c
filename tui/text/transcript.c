#include "tui/text/transcript.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/attached.h"
#include "base/memory.h"
#include "base/utf8_width.h"

void transcript_cut(struct transcript *t, int n)
{
    for (int i = n; i < t->n; i++) {
        str_release(&t->messages[i].raw);
        str_release(&t->messages[i].text);
        free(t->messages[i].lines);
        free(t->messages[i].spans);
        free(t->messages[i].shifts);
        free(t->messages[i].ends);
    }
    if (n < t->n) t->n = n;
}

void transcript_clear(struct transcript *t)
{
    transcript_cut(t, 0);
    free(t->messages);
    free(t->pieces);
    *t = (struct transcript){.ascii = t->ascii, .raw = t->raw, .unfolded = t->unfolded};
}

struct message *transcript_add(struct transcript *t, int role, const char *text, size_t n)
{
    t->messages = memory_more(t->messages, (size_t)t->n, &t->cap, sizeof *t->messages);
    struct message *m = &t->messages[t->n++];
    *m = (struct message){.role = role, .gate = {.ascii = t->ascii}, .position = -1};
    transcript_append(m, text, n);
    return m;
}

static bool idle(const struct sanitizer *z)
{
    return !z->cr && z->join.n == 0;
}

/* Number of bytes at the start of s that sanitising leaves unchanged. */
static size_t plain_run(const char *s, size_t n)
{
    size_t run = 0;
    while (run < n && ((s[run] >= 0x20 && s[run] < 0x7F) || s[run] == '\n' || s[run] == '\t'))
        run++;
    return run;
}

static void note_shift(struct message *m)
{
    int32_t delta = (int32_t)((int64_t)m->text.n - (int64_t)m->raw.n);
    if (delta == (m->n_shifts > 0 ? m->shifts[m->n_shifts - 1].delta : 0)) return;
    m->shifts = memory_more(m->shifts, (size_t)m->n_shifts, &m->cap_shifts, sizeof *m->shifts);
    m->shifts[m->n_shifts++] = (struct shift){(uint32_t)m->raw.n, delta};
}

void transcript_append(struct message *m, const char *text, size_t n)
{
    m->closed = false; /* an answer may be continued */
    for (size_t at = 0; at < n;) {
        size_t run = idle(&m->gate) ? plain_run(text + at, n - at) : 0;
        if (run == 0) run = 1;
        sanitize_feed(&m->gate, text + at, run, &m->text);
        str_append(&m->raw, text + at, run);
        at += run;
        if (idle(&m->gate)) note_shift(m);
    }
}

void transcript_close(struct message *m)
{
    sanitize_end(&m->gate, &m->text);
    m->closed = m->changed = true;
}

static void push_line(struct message *m, size_t from, size_t n)
{
    m->lines = memory_more(m->lines, (size_t)m->n_lines, &m->cap_lines, sizeof *m->lines);
    m->lines[m->n_lines++] = (struct line){(uint32_t)from, (uint32_t)n, 0, 0, false};
}

/* The lines of the text from byte `at` on. */
static void push_text(struct message *m, size_t at, int width)
{
    while (at < m->text.n) {
        size_t shown;
        size_t taken = utf8_line(m->text.data + at, m->text.n - at, width, &shown);
        push_line(m, at, shown);
        at += taken;
    }
}

static void cut_text(struct message *m, int width, bool again)
{
    size_t at = 0;
    if (again || m->n_lines == 0)
        m->n_lines = 0;
    else
        at = m->lines[--m->n_lines].from; /* text grew: only the last line can change */
    push_text(m, at, width);
}

static void push_markdown(void *ctx, size_t from, size_t n, const struct span *spans, int n_spans)
{
    struct message *m = ctx;
    push_line(m, from, n);
    m->lines[m->n_lines - 1].span = m->n_spans;
    m->lines[m->n_lines - 1].n_spans = n_spans;
    for (int i = 0; i < n_spans; i++) {
        m->spans = memory_more(m->spans, (size_t)m->n_spans, &m->cap_spans, sizeof *m->spans);
        m->spans[m->n_spans++] = spans[i];
    }
}

/* Blocks followed by another block stay unchanged. */
static void cut_markdown(struct message *m, int width, bool again)
{
    if (again) memset(&m->settled, 0, sizeof m->settled);
    m->n_lines = m->settled.n_lines;
    m->n_spans = m->settled.n_spans;
    for (size_t at = m->settled.at; at < m->text.n;) {
        at = markdown_block(m->text.data, m->text.n, at, m->closed, width, push_markdown, m);
        if (at == m->text.n) break;
        m->settled.at = at;
        m->settled.n_lines = m->n_lines;
        m->settled.n_spans = m->n_spans;
    }
}

/* The first line is for its length; the text follows if it is unfolded. */
static void cut_thought(struct message *m, int width, bool unfolded)
{
    m->n_lines = 0;
    push_line(m, 0, 0);
    if (unfolded) push_text(m, 0, width);
}

/* A user's message: each file that it begins with is one line. */
static void cut_files(struct message *m, int width)
{
    size_t at = 0;
    struct attached file;
    m->n_lines = 0;
    for (size_t from = 0; attached_next(str_get(&m->text), m->text.n, &at, &file); from = at) {
        push_line(m, from, file.n);
        m->lines[m->n_lines - 1].file = true;
    }
    push_text(m, at, width);
}

/* The last line left stands for the others. */
static void fold(struct message *m)
{
    m->n_hidden = m->n_lines - TRANSCRIPT_HEAD;
    m->n_lines = TRANSCRIPT_HEAD + 1;
    struct line *last = &m->lines[TRANSCRIPT_HEAD];
    *last = (struct line){last->from, (uint32_t)(m->text.n - last->from), 0, 0, false};
}

static void cut(struct message *m, int width, bool drawn, bool unfolded)
{
    bool again = m->width != width || m->drawn != drawn || m->unfolded != unfolded;
    if (!again && m->cut_n == m->text.n && m->n_lines > 0 && !m->changed) return;
    if (m->role == TRANSCRIPT_THOUGHT)
        cut_thought(m, width, drawn);
    else if (drawn)
        cut_markdown(m, width, again);
    else if (m->role == CHAT_USER && !unfolded)
        cut_files(m, width);
    else
        cut_text(m, width, again);
    if (m->n_lines == 0) push_line(m, 0, 0);
    m->n_hidden = 0;
    if (m->role == CHAT_USER && !unfolded && m->n_lines > TRANSCRIPT_LONG) fold(m);
    m->unfolded = unfolded;
    m->width = width;
    m->drawn = drawn;
    m->cut_n = m->text.n;
    m->changed = false;
}

const char *message_words(const struct message *m)
{
    size_t skip = attached_skip(str_get(&m->text), m->text.n);
    return str_get(&m->text) + (skip < m->text.n ? skip : 0);
}

int message_lead(const struct transcript *t, int index)
{
    return index > 0 && t->messages[index].role == CHAT_USER;
}

static int message_rows(const struct transcript *t, int index)
{
    return message_lead(t, index) + t->messages[index].n_lines;
}

int transcript_layout(struct transcript *t, int width)
{
    int rows = 0;
    for (int i = 0; i < t->n; i++) {
        int role = t->messages[i].role;
        bool thought = role == TRANSCRIPT_THOUGHT && t->unfolded;
        bool drawn = thought || (role == CHAT_ASSISTANT && !t->raw);
        cut(&t->messages[i], width, drawn, t->unfolded);
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

/* ---- tokens --------------------------------------------------------------------------------- */

void transcript_piece(struct transcript *t, int64_t position, uint16_t n_bytes)
{
    if (position < 0) return;
    /* the conversation was rewound: the pieces after it are invalid */
    if (position < t->n_pieces) {
        t->n_pieces = position;
        for (int i = 0; i < t->n; i++) {
            struct message *m = &t->messages[i];
            if (m->n_ends > 0 && m->position + m->n_ends > position) m->n_ends = 0, m->raw_end = 0;
        }
    }
    while (t->n_pieces <= position) {
        t->pieces = memory_more(t->pieces, (size_t)t->n_pieces, &t->cap_pieces, sizeof *t->pieces);
        t->pieces[t->n_pieces++] = 0;
    }
    t->pieces[position] = n_bytes;
}

static uint32_t clean_byte(const struct message *m, size_t raw)
{
    int lo = 0, hi = m->n_shifts;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (m->shifts[mid].raw <= raw)
            lo = mid + 1;
        else
            hi = mid;
    }
    int64_t byte = (int64_t)raw + (lo > 0 ? m->shifts[lo - 1].delta : 0);
    return byte < (int64_t)m->text.n ? (uint32_t)byte : (uint32_t)m->text.n;
}

/* Extends the ends of a message's tokens by the tokens whose text has arrived since. */
static void find_ends(const struct transcript *t, struct message *m)
{
    if (m->position < 0) return;
    while (m->n_ends < m->n_tokens && m->position + m->n_ends < t->n_pieces) {
        size_t raw = m->raw_end + t->pieces[m->position + m->n_ends];
        if (raw > m->raw.n) break;
        m->ends = memory_more(m->ends, (size_t)m->n_ends, &m->cap_ends, sizeof *m->ends);
        m->ends[m->n_ends++] = clean_byte(m, raw);
        m->raw_end = raw;
    }
}

static size_t token_start(const struct message *m, int i)
{
    return i > 0 ? m->ends[i - 1] : 0;
}

/* The bytes of token n of a message; its ends are found. */
static void token_bytes(const struct message *m, int64_t n, size_t *byte, size_t *end)
{
    if (m->raw_end > 0 && n >= m->n_ends) {
        *byte = *end = m->text.n;
    } else if (m->raw_end > 0) {
        *byte = token_start(m, (int)n);
        *end = m->ends[n];
    } else {
        double per_token = (double)m->text.n / (double)m->n_tokens;
        *byte = (size_t)((double)n * per_token);
        *end = (size_t)((double)(n + 1) * per_token);
    }
}

int transcript_find(struct transcript *t, int64_t position, size_t *byte, size_t *end)
{
    for (int i = 0; i < t->n; i++) {
        struct message *m = &t->messages[i];
        int64_t n = position - m->position;
        if (m->position < 0 || n < 0 || n >= m->n_tokens) continue;
        find_ends(t, m);
        token_bytes(m, n, byte, end);
        return i;
    }
    return -1;
}

size_t transcript_token_end(struct transcript *t, int index, int64_t position)
{
    struct message *m = &t->messages[index];
    size_t from, end;
    find_ends(t, m);
    token_bytes(m, position - m->position, &from, &end);
    return end;
}

int64_t transcript_position(struct transcript *t, int index, size_t byte)
{
    struct message *m = &t->messages[index];
    find_ends(t, m);
    if (m->raw_end == 0)
        return m->position +
               (m->text.n ? (int64_t)((double)byte * (double)m->n_tokens / (double)m->text.n) : 0);
    int lo = 0, hi = m->n_ends - 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (m->ends[mid] > byte)
            hi = mid;
        else
            lo = mid + 1;
    }
    return m->position + lo;
}

void transcript_positions(struct transcript *t, int index, size_t byte, size_t n, int64_t *from,
                          int64_t *end)
{
    *from = transcript_position(t, index, byte);
    *end = transcript_position(t, index, byte + (n > 0 ? n - 1 : 0)) + 1;
}
