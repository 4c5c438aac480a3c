#include "runtime/save/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/save/save_parts.h"

/* ---- copies ---------------------------------------------------------------------------------- */

static char *copy_bytes(const void *p, size_t n)
{
    char *out = memory_grow(NULL, n + 1, 1);
    if (n) memcpy(out, p, n);
    out[n] = 0;
    return out;
}

int messages_add(void *ctx, const struct store_message *m)
{
    struct messages *l = ctx;
    l->all = memory_grow(l->all, l->n + 1, sizeof *l->all);
    struct message *k = &l->all[l->n++];
    *k = (struct message){.m = *m, .text = copy_bytes(m->text, m->n_text)};
    if (m->thought.text) k->thought = copy_bytes(m->thought.text, m->thought.n);
    if (m->settings) k->settings = copy_bytes(m->settings, strlen(m->settings));
    k->tokens = (int32_t *)(void *)copy_bytes(m->tokens, m->n_tokens * sizeof *m->tokens);
    k->m.text = k->text;
    k->m.thought.text = k->thought;
    k->m.settings = k->settings;
    k->m.tokens = k->tokens;
    return 0;
}

void messages_release(struct messages *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->all[i].text);
        free(l->all[i].thought);
        free(l->all[i].settings);
        free(l->all[i].tokens);
    }
    free(l->all);
    *l = (struct messages){0};
}

static bool is_beginning(const struct messages *a, const struct messages *of)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct store_message *x = &a->all[i].m, *y = i < of->n ? &of->all[i].m : NULL;
        if (!y || x->role != y->role || x->n_text != y->n_text || x->seq < 0 || y->seq < 0 ||
            memcmp(x->text, y->text, x->n_text) != 0)
            return false;
    }
    return a->n > 0;
}

/* ---- readings -------------------------------------------------------------------------------- */

static int find(const struct save_state *st, const char *model)
{
    for (int i = 0; i < st->n_readings; i++)
        if (!strcmp(st->readings[i].model, model)) return i;
    return -1;
}

static int forget(struct store *store, struct save_state *st, int i, struct err *e)
{
    int rc = store_conversation_remove(store, st->readings[i].conversation, NULL, e);
    st->n_readings--;
    memmove(&st->readings[i], &st->readings[i + 1],
            (size_t)(st->n_readings - i) * sizeof *st->readings);
    return rc;
}

/* The conversation as it is, for the model that has read it; nothing is kept of a running
 * answer. */
static int set_aside(struct save *s, struct save_state *st, struct err *e)
{
    struct store_conversation copy;
    char name[96];
    int rc = 0, old = find(st, st->model);
    if (old < 0 && st->n_readings == SAVE_READINGS_MAX) old = 0;
    if (old >= 0) rc = forget(s->store, st, old, e);
    if (rc || st->n_run == 0) return rc;
    snprintf(name, sizeof name, "%lld, read by %.12s", (long long)s->conversation, st->model);
    rc = store_conversation_copy(s->store, s->conversation, INT64_MAX - 1, INT64_MAX - 1, s->store,
                                 name, &copy, e);
    if (!rc) rc = store_conversation_delete(s->store, copy.id, e);
    if (rc) return rc;
    struct save_reading *r = &st->readings[st->n_readings++];
    r->conversation = copy.id;
    memcpy(r->model, st->model, sizeof r->model);
    return 0;
}

/* Replaces ids and cache by a reading's; the messages after it stay with the ids that they have,
 * which the session encodes again (session_respell). */
static int take(struct save *s, struct save_state *st, int64_t reading, const struct messages *rest,
                size_t n, struct err *e)
{
    struct save_state then;
    bool found;
    int rc = save_state_of(s->store, reading, &then, &found, e);
    if (!rc) rc = store_conversation_take(s->store, reading, s->conversation, e);
    for (size_t i = n; !rc && i < rest->n; i++) {
        struct store_message m = rest->all[i].m;
        rc = store_message_add(s->store, s->conversation, &m, e);
    }
    st->n_run = found ? then.n_run : 0;
    st->n_units = found ? then.n_units : -1;
    st->budget = then.budget;
    memcpy(st->model, then.model, sizeof st->model);
    memcpy(st->model_name, then.model_name, sizeof st->model_name);
    memcpy(st->heads, then.heads, sizeof st->heads);
    st->heads_from = then.heads_from;
    memcpy(st->kv, then.kv, sizeof st->kv);
    memcpy(st->policy, then.policy, sizeof st->policy);
    save_state_release(&then);
    return rc;
}

static int change(struct save *s, const char *model, struct save_state *st, struct err *e)
{
    struct messages now = {0}, then = {0};
    int rc = store_message_each(s->store, s->conversation, messages_add, &now, e);
    if (!rc) rc = set_aside(s, st, e);
    int i = rc ? -1 : find(st, model);
    if (i >= 0) {
        int64_t reading = st->readings[i].conversation;
        rc = store_message_each(s->store, reading, messages_add, &then, e);
        if (!rc && is_beginning(&then, &now)) rc = take(s, st, reading, &now, then.n, e);
        if (!rc) rc = forget(s->store, st, i, e);
    }
    if (!rc) rc = save_put_state(s, s->conversation, st, e);
    messages_release(&now);
    messages_release(&then);
    return rc;
}

int readings_switch(struct save *s, const char *model, struct save_state *now, struct err *e)
{
    struct save_state st;
    bool found;
    int rc = save_state_of(s->store, s->conversation, &st, &found, e);
    if (rc || !found) return rc;
    rc = store_begin(s->store, e);
    if (!rc) rc = change(s, model, &st, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    memcpy(now->readings, st.readings, sizeof now->readings);
    now->n_readings = rc ? 0 : st.n_readings;
    save_state_release(&st);
    return rc;
}

int readings_forget(struct store *store, struct save_state *now, struct err *e)
{
    int rc = 0;
    while (!rc && now->n_readings) rc = forget(store, now, now->n_readings - 1, e);
    return rc;
}

int readings_cost(struct store *store, int64_t conversation, const char *model, int64_t *out,
                  struct err *e)
{
    struct messages now = {0}, then = {0};
    struct save_state st;
    bool found;
    *out = 0;
    int rc = save_state_of(store, conversation, &st, &found, e);
    int i = rc ? -1 : find(&st, model);
    bool read = !rc && !strcmp(st.model, model);
    if (!rc && !read) rc = store_message_each(store, conversation, messages_add, &now, e);
    if (!rc && i >= 0)
        rc = store_message_each(store, st.readings[i].conversation, messages_add, &then, e);
    size_t from = i >= 0 && is_beginning(&then, &now) ? then.n : 0;
    for (size_t k = from; k < now.n; k++) *out += (int64_t)now.all[k].m.n_tokens;
    messages_release(&now);
    messages_release(&then);
    save_state_release(&st);
    return rc;
}
