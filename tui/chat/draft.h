/* draft: the draft and the queue, kept in a file so that a killed program loses nothing. One file
 * per running program, locked while it runs; an unlocked file was left by a program that died, and
 * is taken over by the next one that starts. Only its owner can read it. */
#ifndef RETAIN_TUI_CHAT_DRAFT_H
#define RETAIN_TUI_CHAT_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct draft {
    char *path; /* NULL: nothing is saved */
    int fd;
    uint64_t version; /* of the file's content */
};

/* Texts of dead programs: queued messages in order, then the draft ("" = none). Each is passed
 * once; `found` counts them. */
typedef void draft_found(void *ctx, const char *text, size_t n, bool queued);

/* folder: where the files are; NULL = private. */
void draft_open(struct draft *d, const char *folder, draft_found *found, void *ctx);
/* queue[n_queue] and the draft, without NULs; `version` differs when they do. */
void draft_save(struct draft *d, uint64_t version, const struct str *queue, int n_queue,
                const struct str *text);
void draft_close(struct draft *d, bool keep); /* keep false: removes the file */

#endif
