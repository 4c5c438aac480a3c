/* tokenizer_kit: tokenizers of model files and of vocabularies in memory, and the text of ids. */
#ifndef RETAIN_TESTS_TOKENIZER_KIT_H
#define RETAIN_TESTS_TOKENIZER_KIT_H

#include "tests/test.h"

#include "runtime/token/tokenizer.h"
#include "tests/unit/data.h"
#include "tests/unit/make_vocab.h"

/* The file is not needed afterwards. */
static inline struct tokenizer *tokenizer_of(struct gguf *g)
{
    struct tokenizer *t;
    ok(tokenizer_open(&t, g, &err));
    gguf_close(g);
    return t;
}

static inline struct tokenizer *open_file(const char *path)
{
    struct gguf *g;
    ok(gguf_open(&g, path, &err));
    return tokenizer_of(g);
}

/* A vocabulary of the test data, or NULL. */
static inline struct tokenizer *open_data(const char *name)
{
    char path[2048];
    return data_path(path, sizeof path, name) ? open_file(path) : NULL;
}

static inline struct tokenizer *open_made(struct maker *m)
{
    struct gguf *g;
    maker_end(m);
    ok(gguf_open_bytes(&g, m->file.data, m->file.n, "made", &err));
    struct tokenizer *t = tokenizer_of(g);
    maker_release(m);
    return t;
}

static inline struct tokenizer *open_bpe(const char *pre)
{
    struct maker m;
    make_bpe(&m, pre);
    return open_made(&m);
}

static inline struct str spell(const struct tokenizer *t, const struct tokens *ids, bool special)
{
    struct str out = {0};
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(t, ids->ids[i], special, &n);
        str_append(&out, bytes, n);
    }
    return out;
}

#endif
