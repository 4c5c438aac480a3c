/* tokenizer_thread: reads the vocabulary on a thread, because a large one takes as long as the
 * weights. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKENIZER_THREAD_H
#define RETAIN_RUNTIME_TOKEN_TOKENIZER_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "runtime/token/tokenizer.h"

struct tokenizer_thread {
    pthread_t thread;
    bool running, threaded;
    const struct gguf *file;
    struct tokenizer *tokenizer;
    int rc;
    struct err e;
};

/* `file` must stay open until tokenizer_thread_end. */
void tokenizer_thread_begin(struct tokenizer_thread *t, const struct gguf *file);

/* As tokenizer_open. Must be called before the file is closed, also when opening fails; if nothing
 * was started, *out is unchanged. */
int tokenizer_thread_end(struct tokenizer_thread *t, struct tokenizer **out, struct err *e);

#endif
