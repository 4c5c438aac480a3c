/* messages: copies of stored messages, which a walk through the store shows one by one. */
#ifndef RETAIN_RUNTIME_SAVE_MESSAGES_H
#define RETAIN_RUNTIME_SAVE_MESSAGES_H

#include "store/store.h"

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
