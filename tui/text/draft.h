/* draft: the draft and the queue, kept in a file so that a killed program loses nothing. One file
 * per open conversation, locked while it is open. An unlocked file was left by a program that
 * ended, and is adopted when its conversation is opened again. Only its owner can read it. */
#ifndef RETAIN_TUI_TEXT_DRAFT_H
#define RETAIN_TUI_TEXT_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct draft {
    char *path; /* NULL: nothing is saved */
    int fd;
    uint64_t version; /* of the file's content */
    struct str talk;  /* the conversation of the file's content */
};

/* Receives the texts of an adopted file, each once: queued messages in order, then the draft. */
typedef void draft_found(void *ctx, const char *text, size_t n, bool queued);

/* folder: where the files are; NULL = private. */
void draft_open(struct draft *d, const char *folder);
/* Adopts the texts that an ended program left for the conversation `talk`; "" = a new one. */
void draft_adopt(const char *folder, const char *talk, draft_found *found, void *ctx);
/* Save queue[n_queue] and the draft, texts without NULs, if they differ from the file: `version`
 * changes with the texts. talk: the name of their conversation, "" = a new one. */
bool draft_differs(const struct draft *d, const char *talk, uint64_t version);
void draft_save(struct draft *d, const char *talk, uint64_t version, const struct str *queue,
                int n_queue, const struct str *text);
void draft_close(struct draft *d, bool keep); /* keep false: removes the file */

#endif
