/* fuzz: bytes as an exported conversation, JSON or a database, imported into a fresh store, which
 * must stay whole; what was imported is exported again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/save/conversations.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void export_one(void *ctx, const char *name)
{
    struct str *last = ctx;
    str_clear(last);
    str_puts(last, name);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char folder[] = "/dev/shm/retain_fuzz_XXXXXX", path[64], source[64];
    struct conversations *l;
    struct str name = {0}, text = {0};
    struct err e;
    int64_t n_damaged;
    int fd = memfd_create("export", 0);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || !mkdtemp(folder)) abort();
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    snprintf(path, sizeof path, "%s/retain.db", folder);
    if (conversations_open(&l, path, NULL, &e)) abort();
    conversations_import(l, source, NULL, export_one, &name, &e);
    if (name.n) conversations_export(l, str_get(&name), &text, &n_damaged, &e);
    if (conversations_check(l, &e)) abort(); /* an import is all or nothing */
    conversations_close(l);
    close(fd);
    for (int i = 0; i < 4; i++) {
        static const char *const ends[] = {"", "-wal", "-shm", ".lock"};
        snprintf(path, sizeof path, "%s/retain.db%s", folder, ends[i]);
        unlink(path);
    }
    rmdir(folder);
    str_release(&name);
    str_release(&text);
    return 0;
}
