/* keymap: the table of keys with the user's changes. `keys = F3=F9,Alt-w=Alt-y` puts the function
 * of each first key on the second one, in every view; keys have the names that the help screen
 * shows. */
#ifndef RETAIN_CLI_CONTROL_KEYMAP_H
#define RETAIN_CLI_CONTROL_KEYMAP_H

#include "base/err.h"
#include "cli/control/keys.h"

#define KEYMAP_LABEL_MAX 24

struct keymap {
    struct binding *rows;             /* like key_table; ends with views 0 */
    char (*labels)[KEYMAP_LABEL_MAX]; /* of the changed rows */
};

/* changes NULL: none. ERR_USAGE: an unknown key, one without a function, one that writes text in
 * the chat, or one with a function that is not moved away. Zero-initialise; release it in any case.
 */
int keymap_open(struct keymap *m, const char *changes, struct err *e);
void keymap_release(struct keymap *m);

enum key_request keymap_request(const struct keymap *m, enum view view, uint32_t key);

/* The key with this name: "F9", "^K", "Alt-x", "Ctrl-Left", "PgUp", "Space", "n"; 0 = unknown. */
uint32_t key_named(const char *name, size_t n);

#endif
