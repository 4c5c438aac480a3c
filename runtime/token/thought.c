#include "runtime/token/thought.h"

#include <ctype.h>
#include <string.h>

#include "runtime/token/tokenizer.h"

struct thought_format {
    const char *name;
    const char *open[2]; /* each begins a thought */
    const char *close;   /* ends it */
    const char *between; /* may follow, is part of neither; NULL = nothing */
    const char *say;     /* begins the answer; NULL = nothing does */
};

static const struct thought_format formats[] = {
    {"harmony",
     {"<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"},
     "<|end|>",
     "<|start|>assistant",
     "<|channel|>final<|message|>"},
    {"gemma", {"<|channel>thought"}, "<channel|>", NULL, NULL},
    {"solar", {"<|think|>"}, "<|end|>", "<|begin|>assistant", "<|content|>"},
    {"command", {"<|START_THINKING|>"}, "<|END_THINKING|>", NULL, "<|START_RESPONSE|>"},
    {"apertus", {"<|inner_prefix|>"}, "<|inner_suffix|>", NULL, NULL},
    {"mistral", {"[THINK]"}, "[/THINK]", NULL, NULL},
    {"seed", {"<seed:think>"}, "</seed:think>", NULL, NULL},
    {"minimax", {"<mm:think>"}, "</mm:think>", NULL, NULL},
    {"kimi", {"\xE2\x97\x81think\xE2\x96\xB7"}, "\xE2\x97\x81/think\xE2\x96\xB7", NULL, NULL},
    {"thought", {"<thought>"}, "</thought>", NULL, NULL},
    {"think", {"<think>"}, "</think>", NULL, "<response>"},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static bool has(const char *source, size_t n, const char *mark)
{
    return source && memmem(source, n, mark, strlen(mark));
}

/* The first special token of a mark's text, as "<|channel|>" of a mark of several tokens. */
static bool knows(const struct tokenizer *t, const char *mark)
{
    char first[64];
    size_t n = strcspn(mark, ">]\xB7") + 1;
    if (n >= sizeof first) return false;
    memcpy(first, mark, n);
    first[n] = 0;
    return tokenizer_special(t, first) >= 0;
}

const struct thought_format *thought_format_find(const char *source, size_t n,
                                                 const struct tokenizer *t)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (has(source, n, formats[i].open[0]) && has(source, n, formats[i].close))
            return &formats[i];
    for (size_t i = 0; i < N_FORMATS; i++) {
        const struct thought_format *f = &formats[i];
        if (knows(t, f->open[0]) && knows(t, f->close) && (!f->between || knows(t, f->say)))
            return f;
    }
    return NULL;
}

const char *thought_before_answer(const struct thought_format *f)
{
    return f->between ? f->say : f->close;
}

bool thought_is_mark(const char *text, size_t n)
{
    for (size_t i = 0; n > 4 && i < N_FORMATS; i++) {
        const struct thought_format *f = &formats[i];
        const char *const marks[] = {f->open[0], f->close};
        for (int k = 0; k < 2; k++)
            if (!strncmp(marks[k], text, n)) return true;
    }
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

static size_t blanks(const struct str *s)
{
    size_t n = 0;
    while (n < s->n && isspace((unsigned char)s->data[n])) n++;
    return n;
}

static void drop_held(struct thought_reader *r, size_t n)
{
    r->held.n -= n;
    r->seen.n -= n;
    memmove(r->held.data, r->held.data + n, r->held.n);
    memmove(r->seen.data, r->seen.data + n, r->seen.n);
}

/* Gives the first n held bytes to a part. */
static void give(struct thought_reader *r, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++)
        if (r->seen.data[i]) str_append(out, r->held.data + i, 1);
    if (n) drop_held(r, n);
}

static void give_thought(struct thought_reader *r, size_t n, struct str *out)
{
    size_t skip = r->begun ? 0 : blanks(&r->held);
    if (skip > n) skip = n;
    if (skip) drop_held(r, skip);
    r->begun = r->begun || n > skip;
    give(r, n - skip, out);
}

enum match { MATCH_NOT, MATCH_PART, MATCH_ALL };

/* Compares the held bytes from `at` on with a mark. last: the newest token. */
static enum match match(const struct thought_reader *r, const char *mark, size_t at, int32_t last)
{
    size_t n_mark = strlen(mark), n = r->held.n - at;
    int32_t id = tokenizer_special(r->tokenizer, mark);
    if (id >= 0)
        return n == n_mark && id == last && !memcmp(r->held.data + at, mark, n) ? MATCH_ALL
                                                                                : MATCH_NOT;
    if (memcmp(r->held.data + at, mark, n < n_mark ? n : n_mark)) return MATCH_NOT;
    return n < n_mark ? MATCH_PART : MATCH_ALL;
}

/* Where nothing was said yet: moves to the state that the held bytes begin. Returns whether that
 * is certain and more bytes may be looked at. */
static bool begin_part(struct thought_reader *r, int32_t last, struct str *answer)
{
    const struct thought_format *f = r->format;
    const struct {
        const char *mark;
        enum thought_state state;
    } next[] = {{f->open[0], THOUGHT_RUNS},
                {f->open[1], THOUGHT_RUNS},
                {f->between, THOUGHT_OVER},
                {f->say, THOUGHT_ANSWER},
                {f->close, THOUGHT_OVER}};
    size_t at = blanks(&r->held);
    bool partly = at == r->held.n;
    for (size_t i = 0; at < r->held.n && i < sizeof next / sizeof *next; i++) {
        enum match m = next[i].mark ? match(r, next[i].mark, at, last) : MATCH_NOT;
        partly = partly || m == MATCH_PART;
        if (m != MATCH_ALL) continue;
        drop_held(r, at + strlen(next[i].mark));
        r->state = next[i].state;
        return r->held.n > 0;
    }
    if (partly) return false;
    if (r->state == THOUGHT_OVER) drop_held(r, at);
    r->state = THOUGHT_ANSWER;
    give(r, r->held.n, answer);
    return false;
}

/* Inside a thought: gives what cannot be part of the closing mark, or of the white space before
 * it. */
static bool run_thought(struct thought_reader *r, int32_t last, struct str *thought)
{
    const struct str *h = &r->held;
    size_t end = h->n;
    for (size_t at = 0; at < h->n; at++) {
        enum match m = match(r, r->format->close, at, last);
        if (m == MATCH_NOT) continue;
        end = at;
        if (m == MATCH_PART) break;
        while (end > 0 && isspace((unsigned char)h->data[end - 1])) end--;
        size_t n_space = at - end;
        give_thought(r, end, thought);
        drop_held(r, n_space + strlen(r->format->close));
        r->state = THOUGHT_OVER;
        return h->n > 0;
    }
    while (end > 0 && isspace((unsigned char)h->data[end - 1])) end--;
    give_thought(r, end, thought);
    return false;
}

/* Whether the ids end with the mark, but for white space. */
static bool ends_with(const struct thought_reader *r, const char *mark, const int32_t *ids,
                      size_t n)
{
    char end[64];
    size_t at = sizeof end, n_mark = strlen(mark);
    const int32_t id = tokenizer_special(r->tokenizer, mark);
    for (size_t i = n; i-- > 0 && sizeof end - at < n_mark;) {
        size_t length;
        const char *bytes = tokenizer_bytes(r->tokenizer, ids[i], true, &length);
        while (at == sizeof end && length && isspace((unsigned char)bytes[length - 1])) length--;
        if (length == 0) continue;
        if (id >= 0) return ids[i] == id;
        if (length > at) break;
        at -= length;
        memcpy(end + at, bytes, length);
    }
    return sizeof end - at >= n_mark && !memcmp(end + sizeof end - n_mark, mark, n_mark);
}

void thought_begin(struct thought_reader *r, const struct thought_format *f,
                   const struct tokenizer *t, const int32_t *ids, size_t n)
{
    str_clear(&r->held);
    str_clear(&r->seen);
    r->format = f;
    r->tokenizer = t;
    r->begun = false;
    r->state = f ? THOUGHT_AWAITED : THOUGHT_ANSWER;
    if (f && ends_with(r, f->open[0], ids, n)) r->state = THOUGHT_RUNS;
    if (f && ends_with(r, f->close, ids, n)) r->state = THOUGHT_OVER;
}

void thought_take(struct thought_reader *r, int32_t id, const char *bytes, size_t n,
                  struct str *thought, struct str *answer)
{
    size_t n_all = n;
    const char *all = bytes;
    if (!r->format || r->state == THOUGHT_ANSWER) {
        str_append(answer, bytes, n);
        return;
    }
    if (n == 0) all = tokenizer_bytes(r->tokenizer, id, true, &n_all);
    str_append(&r->held, all, n_all);
    for (size_t i = 0; i < n_all; i++) str_append(&r->seen, n ? "\1" : "\0", 1);
    for (bool more = n_all > 0; more;) {
        if (r->state == THOUGHT_RUNS)
            more = run_thought(r, id, thought);
        else if (r->state != THOUGHT_ANSWER)
            more = begin_part(r, id, answer);
        else
            more = false;
    }
    if (r->state == THOUGHT_ANSWER) give(r, r->held.n, answer);
}

bool thought_closed_by(const struct thought_reader *r, int32_t id)
{
    bool may_close = r->state == THOUGHT_RUNS || r->state == THOUGHT_OVER;
    return may_close && id == tokenizer_special(r->tokenizer, r->format->close);
}

void thought_end(struct thought_reader *r, struct str *thought, struct str *answer)
{
    size_t n = r->held.n;
    if (r->state == THOUGHT_RUNS) {
        while (n > 0 && isspace((unsigned char)r->held.data[n - 1])) n--;
        give_thought(r, n, thought);
    } else if (n > 0 && (r->state == THOUGHT_AWAITED || blanks(&r->held) < n)) {
        give(r, n, answer);
        r->state = THOUGHT_ANSWER;
    }
    str_clear(&r->held);
    str_clear(&r->seen);
}

void thought_copy(struct thought_reader *to, const struct thought_reader *from)
{
    *to = *from;
    to->held = to->seen = (struct str){0};
    str_append(&to->held, from->held.data, from->held.n);
    str_append(&to->seen, from->seen.data, from->seen.n);
}

void thought_release(struct thought_reader *r)
{
    str_release(&r->held);
    str_release(&r->seen);
}
