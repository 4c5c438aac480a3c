#include "runtime/model/checksum.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "runtime/model/gguf.h"

#define HEX        (2 * DIGEST_BYTES)
#define PART_BYTES ((size_t)4 << 20) /* between two checks for the end */

struct checksum {
    pthread_t thread;
    bool joined;
    atomic_bool stop;
    const struct gguf *file;
    const uint8_t *bytes;
    size_t n;
    uint8_t digest[DIGEST_BYTES];
};

static void *read_all(void *arg)
{
    struct checksum *c = arg;
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, DIGEST_BYTES);
    for (size_t at = 0; at < c->n && !atomic_load(&c->stop); at += PART_BYTES) {
        size_t n = c->n - at < PART_BYTES ? c->n - at : PART_BYTES;
        crypto_generichash_update(&hash, c->bytes + at, n);
        gguf_forget(c->file, c->bytes + at, n, false);
    }
    crypto_generichash_final(&hash, c->digest, DIGEST_BYTES);
    return NULL;
}

int checksum_begin(struct checksum **out, const struct gguf *g, struct err *e)
{
    *out = NULL;
    if (sodium_init() < 0) return err_set(e, ERR_FAIL, "libsodium cannot start");
    struct checksum *c = memory_new(1, sizeof *c);
    c->file = g;
    c->bytes = gguf_bytes(g, &c->n);
    if (pthread_create(&c->thread, NULL, read_all, c)) {
        free(c);
        return err_set(e, ERR_FAIL, "cannot start a thread to compute the model's digest");
    }
    *out = c;
    return 0;
}

static void join(struct checksum *c)
{
    if (!c->joined) pthread_join(c->thread, NULL);
    c->joined = true;
}

void checksum_end(struct checksum *c, uint8_t digest[DIGEST_BYTES])
{
    join(c);
    memcpy(digest, c->digest, DIGEST_BYTES);
}

void checksum_close(struct checksum *c)
{
    if (!c) return;
    atomic_store(&c->stop, true);
    join(c);
    free(c);
}

/* ---- tensors --------------------------------------------------------------------------------- */

struct tensors {
    const struct gguf *file;
    struct gguf_str *expected; /* [gguf_n_tensors] */
    atomic_size_t bad;         /* index of the first damaged tensor */
};

static bool is_whole(const struct gguf_tensor *t, const struct gguf_str *expected)
{
    uint8_t digest[DIGEST_BYTES];
    char hex[HEX + 1];
    digest_make(digest, t->data, t->data ? t->bytes : 0);
    digest_hex(hex, digest);
    return expected->n == HEX && !memcmp(expected->data, hex, HEX);
}

static void check_tensor(void *ctx, int part, int thread)
{
    (void)thread;
    struct tensors *k = ctx;
    size_t i = (size_t)part, bad = atomic_load(&k->bad);
    if (i > bad || is_whole(gguf_tensor_at(k->file, i), &k->expected[i])) return;
    while (i < bad && !atomic_compare_exchange_weak(&k->bad, &bad, i)) continue;
}

int checksum_tensors(const struct gguf *g, struct pool *p, const struct gguf_tensor **damaged,
                     struct err *e)
{
    struct gguf_array list;
    size_t n = gguf_n_tensors(g), cursor = 0;
    *damaged = NULL;
    if (!gguf_get_array(g, "retain.digest.tensors", &list) || n == 0) return 0;
    if (list.type != GGUF_STRING || list.n != n)
        return err_set(e, ERR_FORMAT, "%s: retain.digest.tensors has %zu digests for %zu tensors",
                       gguf_name(g), list.type == GGUF_STRING ? list.n : 0, n);
    struct tensors k = {.file = g, .expected = memory_new(n, sizeof *k.expected)};
    atomic_init(&k.bad, n);
    for (size_t i = 0; i < n; i++) gguf_array_next_str(&list, &cursor, &k.expected[i]);
    pool_run(p, (int)n, check_tensor, &k);
    size_t bad = atomic_load(&k.bad);
    if (bad < n) *damaged = gguf_tensor_at(g, bad);
    free(k.expected);
    return 0;
}
