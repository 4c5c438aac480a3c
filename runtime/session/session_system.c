/* The system text of a conversation, and another one in its place. It is part of the ids of the
 * first message, so all text is encoded and read again; what other models have read of it has the
 * old text, and is forgotten. */
#include <stdlib.h>

#include "base/memory.h"
#include "runtime/save/readings.h"
#include "runtime/session/session_parts.h"
#include "store/store.h"

const char *session_system(const struct session *s)
{
    return s->state.system;
}

struct count {
    const struct session *s;
    int32_t last;
    int64_t n_tokens;
    struct err *e;
};

static int count(void *ctx, const struct store_message *m)
{
    struct count *c = ctx;
    struct tokens ids = {0};
    int rc = session_encode_saved(c->s, m, c->last, &ids, c->e);
    if (ids.n) c->last = ids.ids[ids.n - 1];
    c->n_tokens += (int64_t)ids.n;
    tokens_release(&ids);
    return rc;
}

int session_system_cost(struct session *s, const char *system, int64_t *out, struct err *e)
{
    struct count c = {.s = s, .last = -1, .e = e};
    char *const now = s->state.system;
    *out = 0;
    if (s->n_tokens == 0) return 0;
    if (!s->save)
        return err_set(e, ERR_USAGE,
                       "a private conversation is not saved, so it cannot be read "
                       "again with another system text");
    s->state.system = (char *)(uintptr_t)system; /* only read */
    int rc = store_message_each(save_store(s->save), s->id, count, &c, e);
    s->state.system = now;
    *out = c.n_tokens;
    return rc;
}

void session_system_take(struct session *s)
{
    free(s->state.system);
    s->state.system = s->opts.system ? memory_copy(s->opts.system) : NULL;
}

int session_system_save(struct session *s, struct store *store, struct err *e)
{
    int rc = readings_forget(store, &s->state, e);
    struct save_state state = s->state;
    state.n_run = 0;
    state.n_units = -1;
    return rc ? rc : save_put_state(s->save, s->id, &state, e);
}
