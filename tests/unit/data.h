/* data: the optional folder of public models and vectors (RETAIN_TEST_DATA). */
#ifndef RETAIN_TESTS_DATA_H
#define RETAIN_TESTS_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Path of a file in the data folder; NULL after printing "skip: …". */
static inline const char *data_path(char *out, size_t n, const char *name)
{
    const char *dir = getenv("RETAIN_TEST_DATA");
    snprintf(out, n, "%s/%s", dir ? dir : "../shared/data", name);
    if (access(out, R_OK) == 0) return out;
    printf("skip: %s is missing\n", name);
    return NULL;
}

#endif
