/* thought: divides a model's answer into a thought and the text after it.
 *
 * Models that think write their thought first, between marks such as <think> and </think>. A row of
 * a table has the marks of each kind. The reader takes the answer's tokens one by one and gives the
 * text of both parts without the marks and without the white space around them. A mark that is one
 * token of the vocabulary is only that token: the same characters in other tokens are text. */
#ifndef RETAIN_RUNTIME_TOKEN_THOUGHT_H
#define RETAIN_RUNTIME_TOKEN_THOUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct thought_format;
struct tokenizer;

/* The row whose marks are in a chat template's source or among the special tokens of the
 * vocabulary; NULL = none, the model does not think. */
const struct thought_format *thought_format_find(const char *source, size_t n,
                                                 const struct tokenizer *t);

/* The mark directly before the text of an answer that follows a thought. */
const char *thought_before_answer(const struct thought_format *f);

/* Whether this token's text is a mark, or the beginning of one. */
bool thought_is_mark(const char *text, size_t n);

enum thought_state {
    THOUGHT_AWAITED, /* no text yet: a thought or the answer may begin */
    THOUGHT_RUNS,
    THOUGHT_OVER,   /* between a thought and the answer */
    THOUGHT_ANSWER, /* all further text is the answer's */
};

struct thought_reader {
    const struct thought_format *format; /* NULL: everything is the answer */
    const struct tokenizer *tokenizer;
    enum thought_state state;
    bool begun;            /* the thought has text */
    struct str held, seen; /* bytes that may belong to a mark; seen[i] 1 = byte i is text */
};

/* Before the first token of an answer; ids are the tokens of the prompt, which may open a thought,
 * or close an empty one. */
void thought_begin(struct thought_reader *r, const struct thought_format *f,
                   const struct tokenizer *t, const int32_t *ids, size_t n);
/* Appends the text that token `id` adds to *thought and *answer. bytes [n]: its own text, "" for a
 * control token. */
void thought_take(struct thought_reader *r, int32_t id, const char *bytes, size_t n,
                  struct str *thought, struct str *answer);
/* Whether token `id` closes the running thought, or closed the one that was read last: some formats
 * end a thought with the token that ends an answer, too. */
bool thought_closed_by(const struct thought_reader *r, int32_t id);
/* After the last token: the held bytes are text. */
void thought_end(struct thought_reader *r, struct str *thought, struct str *answer);
/* A reader in the same state; release both. */
void thought_copy(struct thought_reader *to, const struct thought_reader *from);
void thought_release(struct thought_reader *r);

#endif
