#include "base/digest.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- files ----------------------------------------------------------------------------------- */

#define FIRST_PART "-00001-of-"

int file_parts(const char *path)
{
    int n = 0, n_read = 0;
    size_t length = strlen(path), tail = strlen(FIRST_PART "00000.gguf");
    if (length < tail) return 1;
    const char *end = path + length - tail;
    bool named = sscanf(end, FIRST_PART "%5d.gguf%n", &n, &n_read) == 1 && n_read == (int)tail;
    return named && n > 0 ? n : 1;
}

int file_part_number(const char *path)
{
    int no = 1;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *tail = strstr(name, "-of-");
    if (tail && tail - name >= 6) sscanf(tail - 6, "-%5d-of-", &no);
    return no;
}

void file_part_path(struct str *out, const char *path, int i)
{
    size_t tail = strlen("00001-of-00000.gguf");
    str_clear(out);
    str_puts(out, path);
    if (i == 0) return;
    char number[16];
    snprintf(number, sizeof number, "%05d", i + 1);
    memcpy(out->data + out->n - tail, number, 5);
}

static int64_t mtime_ns(const struct stat *st)
{
    return st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec;
}

/* Adds the parts after the first. */
static int add_parts(struct file_identity *out, struct err *e)
{
    struct str path = {0};
    struct stat st;
    int rc = 0;
    for (int i = 1; i < file_parts(out->path) && !rc; i++) {
        file_part_path(&path, out->path, i);
        if (stat(str_get(&path), &st)) {
            rc = err_set(e, ERR_FORMAT, "%s no longer exists", str_get(&path));
            break;
        }
        out->size += st.st_size;
        if (mtime_ns(&st) > out->mtime_ns) out->mtime_ns = mtime_ns(&st);
    }
    str_release(&path);
    return rc;
}

int file_identity_read(struct file_identity *out, const char *path, struct err *e)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (!real || stat(real, &st)) {
        free(real);
        return err_set(e, ERR_FORMAT, "%s no longer exists", path);
    }
    *out = (struct file_identity){
        .size = st.st_size, .mtime_ns = mtime_ns(&st), .inode = (int64_t)st.st_ino};
    snprintf(out->path, sizeof out->path, "%s", real);
    free(real);
    return add_parts(out, e);
}

bool file_identity_same(const struct file_identity *a, const struct file_identity *b)
{
    return a->size == b->size && a->mtime_ns == b->mtime_ns && a->inode == b->inode;
}
