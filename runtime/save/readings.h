/* readings: what several models have read of one conversation.
 *
 * Each model needs its own token ids and its own cache. When another one opens the conversation,
 * the ids and the cache of the last one are set aside: a copy of the conversation that shares all
 * bytes and is deleted, so that no list shows it and it is purged as deleted conversations are.
 * When its model is chosen again and its text is a beginning of the conversation's, it is taken
 * back, and only the rest is read. */
#ifndef RETAIN_RUNTIME_SAVE_READINGS_H
#define RETAIN_RUNTIME_SAVE_READINGS_H

#include "runtime/save/save.h"

/* Call before loading, when the saved state is of another model than `model`, a digest. Sets aside
 * what that one read, and takes back what `model` had read. *now gets the list of readings. */
int readings_switch(struct save *s, const char *model, struct save_state *now, struct err *e);

/* Removes what other models have read, and the list in *now. */
int readings_forget(struct store *store, struct save_state *now, struct err *e);

/* Tokens of the conversation, as they are counted now, that a model would have to read. */
int readings_cost(struct store *store, int64_t conversation, const char *model, int64_t *out,
                  struct err *e);

/* ---- copies of stored messages, which a walk through the store shows one by one ---- */

struct messages {
    struct message {
        struct store_message m; /* whose pointers are the next ones */
        char *text, *thought, *settings;
        int32_t *tokens;
    } * all;
    size_t n;
};

/* Appends a copy to the list at ctx; for store_message_each. */
int messages_add(void *ctx, const struct store_message *m);
void messages_release(struct messages *l);

#endif
