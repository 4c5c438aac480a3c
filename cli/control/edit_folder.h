/* edit_folder: a folder for one message while it is in the user's editor, in the state folder. It
 * is locked (flock) while its program runs. After kill -9 or a power cut the next start removes it,
 * with every file that the editor left next to the message. */
#ifndef RETAIN_CLI_CONTROL_EDIT_FOLDER_H
#define RETAIN_CLI_CONTROL_EDIT_FOLDER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct edit_folder {
    struct str path;
    int fd; /* holds the lock */
};

/* After an error nothing need be removed. in_memory: in $XDG_RUNTIME_DIR or /dev/shm, which no disk
 * keeps. */
int edit_folder_make(struct edit_folder *f, bool in_memory, struct err *e);
/* Removes the folder with its files. */
void edit_folder_remove(struct edit_folder *f);

/* Removes the folders that no running program has locked; failures are ignored. */
void edit_folders_clean(void);

#endif
