/* file: opens a file for reading and reads it whole, into a string, with a limit for each use; and
 * writes files.
 *
 * docs/security.md lists the limits. Bytes beyond one end the reading with an error; memory is
 * taken as bytes arrive. A named pipe that no program opens to write ends after a few seconds. */
#ifndef RETAIN_BASE_FILE_H
#define RETAIN_BASE_FILE_H

#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum file_use {
    FILE_SETTINGS, /* configuration, records of the program: regular files only */
    FILE_ATTACHED, /* a regular file that goes into a message */
    FILE_MESSAGE,  /* a prompt, a history, a conversation's text or export */
    FILE_MODEL,    /* a file that describes a model: tokenizer.json, tokenizer.model, an index */
    FILE_RECORDS,  /* a line of JSON; the file is read twice: regular files only */
    FILE_DATA,     /* texts to train with */
};

size_t file_max(enum file_use use); /* bytes */

/* Appends the content of `path` ("-" = standard input). ERR_FAIL names the file and the reason. */
int file_read(const char *path, enum file_use use, struct str *out, struct err *e);

/* NULL: *e names the file and the reason. */
FILE *file_open(const char *path, enum file_use use, struct err *e);
/* Reads a line and its end into *line, of *cap bytes, as getline does; -1 at the end of the file,
 * on an error, and with errno EMSGSIZE when the line is longer than the use allows. */
ssize_t file_line(FILE *f, enum file_use use, char **line, size_t *cap);

/* Writes all n bytes; -1 = failed, see errno. */
int file_write(int fd, const char *bytes, size_t n);
/* Makes the folders that a path names before its last slash, for their owner only. */
int file_make_folders(const char *path, struct err *e);
/* Opens a file to read and write, and makes it if it is missing. It is locked by this program until
 * it is closed. -1, see errno: EWOULDBLOCK = another program has it, ESTALE = it is no regular
 * file, or was renamed meanwhile. */
int file_open_locked(const char *path, mode_t mode);
/* A file in it that was renamed is on the disk then. Not every file system can. */
void file_sync_folder(const char *path); /* of a file */
/* Makes a file (0600) of these bytes, which is on the disk then. ERR_FAIL: it exists already, or it
 * cannot be written whole, and is removed. */
int file_make(const char *path, const char *bytes, size_t n, struct err *e);

#endif
