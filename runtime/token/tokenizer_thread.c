#include "runtime/token/tokenizer_thread.h"

static void *read_vocabulary(void *arg)
{
    struct tokenizer_thread *t = arg;
    t->rc = tokenizer_open(&t->tokenizer, t->file, &t->e);
    return NULL;
}

void tokenizer_thread_begin(struct tokenizer_thread *t, const struct gguf *file)
{
    *t = (struct tokenizer_thread){.file = file, .running = true};
    t->threaded = !pthread_create(&t->thread, NULL, read_vocabulary, t);
    if (!t->threaded) read_vocabulary(t);
}

int tokenizer_thread_end(struct tokenizer_thread *t, struct tokenizer **out, struct err *e)
{
    if (!t->running) return 0;
    if (t->threaded) pthread_join(t->thread, NULL);
    t->running = false;
    *out = t->tokenizer;
    return t->rc ? err_set(e, t->rc, "%s", t->e.text) : 0;
}
