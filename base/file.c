#include "base/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int file_read(const char *path, struct str *out, struct err *e)
{
    char part[65536];
    size_t n;
    bool standard = !strcmp(path, "-");
    FILE *f = standard ? stdin : fopen(path, "re");
    if (!f) return err_set(e, ERR_FAIL, "%s cannot be opened: %s", path, strerror(errno));
    while ((n = fread(part, 1, sizeof part, f)) > 0) str_append(out, part, n);
    int failed = ferror(f) ? errno : 0;
    if (!standard) fclose(f);
    if (failed) return err_set(e, ERR_FAIL, "%s cannot be read: %s", path, strerror(failed));
    return 0;
}
