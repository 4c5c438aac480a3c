/* role: who says a message. The numbers are saved (store/schema.c). */
#ifndef RETAIN_BASE_ROLE_H
#define RETAIN_BASE_ROLE_H

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

static inline const char *chat_role_word(enum chat_role role)
{
    static const char *const words[CHAT_ROLES] = {"system", "user", "assistant"};
    return words[role];
}

#endif
