/* data: public models and vectors to test with: from the folder RETAIN_TEST_DATA where it exists,
 * else the small stand-ins in tests/golden/data, which have the same layout (make_data.py), or what
 * make draws from the recipes there. */
#ifndef RETAIN_TESTS_DATA_H
#define RETAIN_TESTS_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Path of a file or folder in the data folder, or NULL after "skip: …" was printed. */
static inline const char *data_path(char *out, size_t n, const char *name)
{
    const char *dir = getenv("RETAIN_TEST_DATA");
    snprintf(out, n, "%s/%s", dir && *dir ? dir : "../shared/data", name);
    if (access(out, R_OK)) snprintf(out, n, "tests/golden/data/%s", name);
    if (access(out, R_OK)) snprintf(out, n, "build/golden/data/%s", name);
    if (access(out, R_OK) == 0) return out;
    printf("skip: %s is missing\n", name);
    return NULL;
}

#endif
