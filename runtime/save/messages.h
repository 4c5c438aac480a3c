/* messages: copies of stored messages, which a walk through the store shows one by one. */
#ifndef RETAIN_RUNTIME_SAVE_MESSAGES_H
#define RETAIN_RUNTIME_SAVE_MESSAGES_H

#include "runtime/save/save.h"
#include "store/store.h"

/* The same message for the session; its bytes are those of m. */
struct save_message save_message_of(const struct store_message *m);

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
