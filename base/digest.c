#include "base/digest.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

void digest_make(uint8_t out[DIGEST_BYTES], const void *bytes, size_t n)
{
    /* Selects the fast implementation; without it the slow one gives the same results. */
    if (sodium_init() < 0) errno = 0;
    crypto_generichash(out, DIGEST_BYTES, bytes, n, NULL, 0);
}

void digest_hex(char out[DIGEST_HEX], const uint8_t digest[DIGEST_BYTES])
{
    sodium_bin2hex(out, DIGEST_HEX, digest, DIGEST_BYTES);
}

int file_identity_read(struct file_identity *out, const char *path, struct err *e)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (!real || stat(real, &st)) {
        free(real);
        return err_set(e, ERR_FORMAT, "%s no longer exists", path);
    }
    *out = (struct file_identity){.size = st.st_size,
                                  .mtime_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec,
                                  .inode = (int64_t)st.st_ino};
    snprintf(out->path, sizeof out->path, "%s", real);
    free(real);
    return 0;
}

bool file_identity_same(const struct file_identity *a, const struct file_identity *b)
{
    return a->size == b->size && a->mtime_ns == b->mtime_ns && a->inode == b->inode;
}
