/* Encryption at rest. A random key seals the data; the passphrase only seals that key, so that the
 * passphrase can be changed without rewriting anything. Digests are made of the bytes on the disk:
 * damage is found without the passphrase, and no digest reveals anything about a text.
 *
 * A sealed column is nonce, ciphertext, tag. Nonces are random (24 bytes: collisions are not a
 * concern); table, keys and column are authenticated too, so that rows cannot be exchanged. */
#include "store/db.h"

#include <sodium.h>
#include <string.h>

#define KEY_BYTES   crypto_aead_xchacha20poly1305_ietf_KEYBYTES
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define SALT_BYTES  crypto_pwhash_SALTBYTES
/* libsodium's recommendation for keys that guard files: a quarter of a second and 256 MiB. */
#define OPS    crypto_pwhash_OPSLIMIT_MODERATE
#define MEMORY crypto_pwhash_MEMLIMIT_MODERATE

static const char opening[] = "opening the saved conversations";

struct secret {
    uint8_t salt[SALT_BYTES];
    uint64_t ops, memory;
    uint8_t key[NONCE_BYTES + KEY_BYTES + TAG_BYTES]; /* sealed by the passphrase */
};

size_t db_sealed_extra(const struct store *s)
{
    return s->key ? NONCE_BYTES + TAG_BYTES : 0;
}

static void authenticated(uint8_t out[DB_HEAD_BYTES + 1], const struct db_row *row, int column)
{
    struct db_row key = *row;
    key.bytes.n = key.more.n = 0; /* the lengths are not known before sealing */
    db_head(out, &key);
    out[DB_HEAD_BYTES] = (uint8_t)column;
}

struct db_part db_seal(struct store *s, const struct db_row *row, int column, const void *bytes,
                       size_t n)
{
    if (!s->key) return (struct db_part){n ? bytes : "", n};
    struct str *out = &s->sealed[column];
    uint8_t ad[DB_HEAD_BYTES + 1];
    authenticated(ad, row, column);
    str_clear(out);
    str_reserve(out, n + NONCE_BYTES + TAG_BYTES);
    uint8_t *p = (uint8_t *)out->data;
    randombytes_buf(p, NONCE_BYTES);
    crypto_aead_xchacha20poly1305_ietf_encrypt(p + NONCE_BYTES, NULL, bytes, n, ad, sizeof ad, NULL,
                                               p, s->key);
    out->n = n + NONCE_BYTES + TAG_BYTES;
    return (struct db_part){p, out->n};
}

bool db_unseal(const struct store *s, const struct db_row *row, int column, void *bytes, size_t n,
               struct db_part *out)
{
    *out = (struct db_part){bytes, n};
    if (!s->key) return true;
    uint8_t ad[DB_HEAD_BYTES + 1], *p = bytes;
    if (n < NONCE_BYTES + TAG_BYTES) return false;
    authenticated(ad, row, column);
    *out = (struct db_part){p + NONCE_BYTES, n - NONCE_BYTES - TAG_BYTES};
    return crypto_aead_xchacha20poly1305_ietf_decrypt(p + NONCE_BYTES, NULL, NULL, p + NONCE_BYTES,
                                                      n - NONCE_BYTES, ad, sizeof ad, p,
                                                      s->key) == 0;
}

bool db_open(const struct store *s, const struct db_row *row, int column, struct db_part bytes,
             struct str *buffer, struct db_part *out)
{
    *out = bytes;
    if (!s->key) return true;
    str_clear(buffer);
    str_append(buffer, bytes.p, bytes.n);
    if (!db_unseal(s, row, column, buffer->data, bytes.n, out)) return false;
    /* at the former place of the tag: texts end in a NUL */
    ((char *)buffer->data)[NONCE_BYTES + out->n] = 0;
    return true;
}

void db_name_key(const struct store *s, const char *name, char out[STORE_NAME_MAX])
{
    uint8_t hash[24];
    size_t n = strnlen(name, STORE_NAME_MAX - 1);
    if (!s->key) {
        memcpy(out, name, n);
        out[n] = 0;
        return;
    }
    crypto_generichash(hash, sizeof hash, (const uint8_t *)name, n, s->key, KEY_BYTES);
    sodium_bin2hex(out, 2 * sizeof hash + 1, hash, sizeof hash);
}

/* ---- the key --------------------------------------------------------------------------------- */

/* libsodium's sensitive limits: a foreign file must not take minutes and all memory. */
#define OPS_MAX    4
#define MEMORY_MAX (1ULL << 30)

/* 1 = found. */
static int read_secret(struct store *s, struct secret *out, struct err *e)
{
    sqlite3_stmt *q;
    int rc = db_prepare(s, "SELECT salt, ops, memory, key FROM secret", 0, &q, opening, e);
    if (!rc) rc = db_step(s, q, opening, e);
    if (rc > 0) {
        const struct db_part salt = db_column(q, 0), key = db_column(q, 3);
        out->ops = (uint64_t)sqlite3_column_int64(q, 1);
        out->memory = (uint64_t)sqlite3_column_int64(q, 2);
        if (out->ops > OPS_MAX || out->memory > MEMORY_MAX) {
            rc =
                err_set(e, ERR_FORMAT,
                        "%s: deriving its key takes %llu passes over %llu MiB, and the limit is %d "
                        "passes over %llu MiB",
                        s->shown, (unsigned long long)out->ops,
                        (unsigned long long)(out->memory >> 20), OPS_MAX, MEMORY_MAX >> 20);
        } else if (salt.n == SALT_BYTES && key.n == sizeof out->key) {
            memcpy(out->salt, salt.p, sizeof out->salt);
            memcpy(out->key, key.p, sizeof out->key);
        } else {
            rc = err_set(e, ERR_FORMAT, "%s is damaged: its key is unreadable", s->shown);
        }
    }
    sqlite3_finalize(q);
    return rc;
}

static int write_secret(struct store *s, const struct secret *k, struct err *e)
{
    static const char sql[] = "INSERT INTO secret VALUES (1, ?3, ?1, ?2, ?4)";
    sqlite3_stmt *q = db_bound(s, sql, (int64_t)k->ops, (int64_t)k->memory);
    db_bind_blob(q, 3, k->salt, sizeof k->salt);
    db_bind_blob(q, 4, k->key, sizeof k->key);
    return db_run(s, q, opening, e);
}

/* Derives a key from the passphrase; `out` in locked memory. */
static int derive(struct store *s, const struct store_key *k, bool fresh, const struct secret *from,
                  uint8_t *out, struct err *e)
{
    char *passphrase = store_secret_new();
    if (!passphrase)
        return err_set(e, ERR_FAIL, "%s: no locked memory for the passphrase", opening);
    int rc = k->ask(k->ctx, fresh, passphrase, e);
    size_t n = strnlen(passphrase, STORE_PASSPHRASE_MAX - 1);
    if (!rc && n == 0) rc = err_set(e, ERR_FAIL, "the passphrase of %s is empty", s->shown);
    if (!rc && crypto_pwhash(out, KEY_BYTES, passphrase, n, from->salt, from->ops,
                             (size_t)from->memory, crypto_pwhash_ALG_ARGON2ID13))
        rc = err_set(e, ERR_FAIL, "%s: deriving the key needs %llu MiB of memory", opening,
                     (unsigned long long)(from->memory >> 20));
    sodium_free(passphrase);
    return rc;
}

/* The row name that is authenticated with the sealed key. */
static const struct db_row key_row = {.table = "secret", .key = {1}};

static int unlock(struct store *s, const struct store_key *k, struct secret *from, struct err *e)
{
    uint8_t *passphrase_key = sodium_malloc(KEY_BYTES);
    struct db_part opened;
    if (!passphrase_key) return err_set(e, ERR_FAIL, "%s: no locked memory for the key", opening);
    int rc = derive(s, k, false, from, passphrase_key, e);
    s->key = passphrase_key; /* temporarily: it opens the sealed key */
    if (!rc && !db_unseal(s, &key_row, 0, from->key, sizeof from->key, &opened))
        rc = err_set(e, ERR_FAIL, "wrong passphrase: %s was not opened", s->shown);
    if (!rc) memcpy(passphrase_key, opened.p, KEY_BYTES);
    sodium_memzero(from, sizeof *from);
    return rc;
}

static int make_key(struct store *s, const struct store_key *k, struct err *e)
{
    struct secret made = {.ops = OPS, .memory = MEMORY};
    uint8_t *key = sodium_malloc(KEY_BYTES), *passphrase_key = sodium_malloc(KEY_BYTES);
    int rc = key && passphrase_key
                 ? 0
                 : err_set(e, ERR_FAIL, "%s: no locked memory for the key", opening);
    randombytes_buf(made.salt, sizeof made.salt);
    if (!rc) rc = derive(s, k, true, &made, passphrase_key, e);
    if (!rc) {
        randombytes_buf(key, KEY_BYTES);
        s->key = passphrase_key;
        memcpy(made.key, db_seal(s, &key_row, 0, key, KEY_BYTES).p, sizeof made.key);
        memcpy(passphrase_key, key, KEY_BYTES);
        passphrase_key = NULL; /* the store owns it now */
        rc = write_secret(s, &made, e);
    }
    sodium_free(key);
    sodium_free(passphrase_key);
    sodium_memzero(&made, sizeof made);
    return rc;
}

int db_secret_open(struct store *s, const struct store_key *k, struct err *e)
{
    struct secret found;
    int64_t any = 0;
    int rc = read_secret(s, &found, e);
    if (rc < 0) return rc;
    if (rc == 1 && !k)
        return err_set(e, ERR_FAIL, "%s is encrypted, and no passphrase was given", s->shown);
    if (rc == 1) return unlock(s, k, &found, e);
    if (!k || !k->encrypt) return 0;
    rc = db_number(s, "SELECT EXISTS (SELECT 1 FROM conversation)", 0, &any, opening, e);
    if (!rc && any)
        rc = err_set(e, ERR_FAIL,
                     "%s holds conversations that are not encrypted; export them, and import them "
                     "into a new one: --encrypt --db FILE",
                     s->shown);
    return rc ? rc : make_key(s, k, e);
}

void db_secret_close(struct store *s)
{
    sodium_free(s->key);
    s->key = NULL;
    for (size_t i = 0; i < sizeof s->sealed / sizeof *s->sealed; i++) str_release(&s->sealed[i]);
}

bool store_is_encrypted(const struct store *s)
{
    return s->key != NULL;
}

/* ---- for the command line -------------------------------------------------------------------- */

/* The result of a query for one number; -1 = none. */
static int query_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *q = NULL;
    int n = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        n = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return n;
}

bool store_probe(const char *path, bool *fresh)
{
    sqlite3 *db = NULL;
    *fresh = true;
    int n_secrets = -1;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(db, 1000);
        /* A query on a view in place of a table might never end; opening the store refuses such a
         * file. */
        if (query_number(db, "SELECT count(*) FROM sqlite_master WHERE name IN ('secret', "
                             "'conversation') AND type = 'table' AND rootpage > 0 AND "
                             "substr(sql, 1, 12) = 'CREATE TABLE'") != 2)
            goto done;
        n_secrets = query_number(db, "SELECT count(*) FROM secret");
        *fresh = query_number(db, "SELECT EXISTS (SELECT 1 FROM conversation)") != 1;
    }
done:
    sqlite3_close(db);
    return n_secrets > 0;
}

char *store_secret_new(void)
{
    char *secret = sodium_init() < 0 ? NULL : sodium_malloc(STORE_PASSPHRASE_MAX);
    if (secret) memset(secret, 0, STORE_PASSPHRASE_MAX);
    return secret;
}

void store_secret_free(char *secret)
{
    sodium_free(secret);
}
