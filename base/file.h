/* file: reads a whole file, or standard input, into a string. */
#ifndef RETAIN_BASE_FILE_H
#define RETAIN_BASE_FILE_H

#include "base/err.h"
#include "base/str.h"

/* Appends the content of `path` ("-" = standard input). ERR_FAIL names the file and the reason. */
int file_read(const char *path, struct str *out, struct err *e);

#endif
