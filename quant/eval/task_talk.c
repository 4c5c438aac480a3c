/* Conversations from a file, in the form of quant/demo/heldout/questions.txt:
 *
 *     == moving
 *     > My new door code is 7716.
 *     < Okay, your door code is 7716.     the reply that the model reads; there is a default
 *     > What is the code of my door?
 *     ? 7716                              a question: its answer must contain this
 *     ~ The rain falls on the roof.       read again and again instead of small talk
 *
 * An empty line or a new "==" ends a conversation, # starts a comment. Seed n is the n-th
 * conversation; after the last one the first follows again. Told messages have even depths, with
 * small talk, or the lines with ~ in turn, between them; a question before the last told message is
 * asked at its place, the others at the end. */
#include <string.h>

#include "quant/eval/task.h"

static const char default_reply[] = "Okay, I will remember that.";

struct line {
    char kind; /* '=', '>', '<', '?', '~'; 0 = an empty line, or the end of the text */
    const char *text;
    int n;
};

/* Reads the next line that is not a comment. false = the end of the text. */
static bool next_line(const char **at, struct line *out)
{
    *out = (struct line){0};
    while (**at) {
        const char *s = *at;
        size_t n = strcspn(s, "\r\n");
        *at = s + n + (s[n] == '\r');
        *at += **at == '\n';
        if (*s == '#') continue;
        out->kind = n ? *s : 0;
        out->text = s + strspn(s, "=><?~ ");
        out->n = (int)(s + n - out->text);
        return true;
    }
    return false;
}

/* The text after the i-th "==" line; NULL = there are fewer. */
static const char *conversation_at(const char *text, uint64_t i)
{
    struct line l;
    while (next_line(&text, &l))
        if (l.kind == '=' && i-- == 0) return text;
    return NULL;
}

static uint64_t count_conversations(const char *text)
{
    struct line l;
    uint64_t n = 0;
    while (next_line(&text, &l)) n += l.kind == '=';
    return n;
}

/* Whether a line may follow one of the kind `before`. */
static bool may_follow(const struct line *l, char before)
{
    switch (l->kind) {
    case 0:
    case '=': return true;
    case '>':
    case '~': return l->n > 0 && before != 0;
    case '<':
    case '?': return l->n > 0 && before == '>';
    default: return false;
    }
}

int task_talk_check(const char *text, struct err *e)
{
    struct line l;
    char before = 0;
    int n_messages = 0, n_conversations = 0;
    for (const char *at = text; next_line(&at, &l); before = l.kind) {
        int number = 0;
        for (const char *s = text; s < at; s++) number += *s == '\n';
        if (!may_follow(&l, before))
            return err_set(
                e, ERR_USAGE,
                "line %d of the conversations: expected \"== name\", then \"> message\", "
                "each with \"< reply\" or \"? value\" below it, or \"~ filler\"",
                number);
        n_conversations += l.kind == '=';
        n_messages = l.kind == '=' ? 0 : n_messages + (l.kind == '>');
        if (n_messages > TASK_QUESTIONS_MAX)
            return err_set(e, ERR_USAGE,
                           "line %d of the conversations: one has more than %d messages", number,
                           TASK_QUESTIONS_MAX);
    }
    if (n_conversations) return 0;
    return err_set(e, ERR_USAGE, "the file has no conversation: expected a line \"== name\"");
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A message with the line below it; `at` is after both. false = the end of the conversation. */
static bool next_message(const char **at, struct line *message, struct line *below)
{
    do
        if (!next_line(at, message)) return false;
    while (message->kind == '~');
    if (message->kind != '>') return false;
    const char *after = *at;
    if (next_line(&after, below) && (below->kind == '<' || below->kind == '?'))
        *at = after;
    else
        *below = (struct line){0};
    return true;
}

static void put(struct str *out, const struct line *l)
{
    str_append(out, l->text, (size_t)l->n);
}

static const char *conversation_of(const struct task_run *s)
{
    const char *all = s->args.essay;
    return conversation_at(all, (s->args.seed - 1) % count_conversations(all));
}

/* The i-th line with ~ of the conversation at `at`; false = there are fewer. */
static bool repeated_line(const char *at, int i, struct line *out)
{
    while (next_line(&at, out) && out->kind && out->kind != '=')
        if (out->kind == '~' && i-- == 0) return true;
    return false;
}

static const char *fill_repeating(struct task_run *s)
{
    struct line l;
    if (!repeated_line(conversation_of(s), s->last, &l)) {
        s->last = 0;
        repeated_line(conversation_of(s), 0, &l);
    }
    s->last++;
    put(&s->user, &l);
    return "I see.";
}

void task_write_talk(struct task_run *s)
{
    struct line message, below;
    const char *text = conversation_of(s);
    int n_told = 0, told = 0;
    for (const char *at = text; next_message(&at, &message, &below);) n_told += below.kind != '?';
    s->filler = repeated_line(text, 0, &message) ? fill_repeating : task_fill_small_talk;
    for (const char *at = text; next_message(&at, &message, &below);) {
        double depth = (double)told / n_told;
        if (below.kind == '?') {
            struct task_question *q = told < n_told ? task_ask_early(s, depth) : task_ask(s);
            put(&q->text, &message);
            put(task_value(q), &below);
            continue;
        }
        struct task_turn *t = task_tell(s, depth, below.kind ? "" : default_reply);
        put(&t->user, &message);
        if (below.kind) put(&t->assistant, &below);
        told++;
    }
}
