/* Encryption at rest: with the passphrase everything works as without encryption, without it
 * nothing is readable, and a database that other libraries made from the description in secret.c
 * opens. */
#include "tests/unit/store_kit.h"

#include <sodium.h>

#include "base/file.h"

/* ---- encryption ------------------------------------------------------------------------------ */

struct person {
    const char *passphrase;
    int n_asked, n_fresh;
};

static int ask(void *ctx, bool fresh, char *out, struct err *e)
{
    struct person *p = ctx;
    p->n_asked++;
    p->n_fresh += fresh;
    if (!p->passphrase) return err_set(e, ERR_STOP, "interrupted");
    snprintf(out, STORE_PASSPHRASE_MAX, "%s", p->passphrase);
    return 0;
}

static void assert_no_word(const char *path, const char *const *words)
{
    char command[400];
    for (; *words; words++) {
        snprintf(command, sizeof command, "cat '%s' '%s-wal' 2>/dev/null | grep -qaiF -e '%s'",
                 path, path, *words);
        if (system(command) == 0) fail_msg("\"%s\" stands in the file", *words);
    }
}

static int count_conversation(void *ctx, const struct store_conversation *c)
{
    *(int *)ctx += c->has_tags;
    return 0;
}

static int is_picnic(void *ctx, const char *tag)
{
    assert_string_equal(tag, "picnic");
    return 0;
}

static int count_damaged(void *ctx, const struct store_message *m)
{
    if (m->damaged) *(int64_t *)ctx += (int64_t)m->n_text;
    return 0;
}

static int is_mousse(void *ctx, const struct store_message *m)
{
    assert_string_equal(m->settings, "--mousse 2");
    assert_string_equal(m->thought.text, "secret souffle");
    return 0;
}

TEST_WITH(encrypted, setup, teardown)
{
    int n_tagged = 0;
    struct fixture *f = *state;
    struct person p = {.passphrase = "correct horse"};
    struct store_key key = {ask, &p, true};
    struct store *none;
    static const char *const words[] = {
        "picnic",        "tulip",    "Café",     "oven",    "garden",
        "kitchen",       "treasure", "units of", "first",   "opaque",
        "correct horse", "question", "mousse",   "souffle", NULL};
    store_close(f->s);
    f->s = NULL;
    snprintf(f->path, sizeof f->path, "%s/sealed.db", f->folder);
    ok(store_open(&f->s, f->path, &key, &err));
    assert_true(store_is_encrypted(f->s));
    assert_int_equal(p.n_fresh, 1);
    say_things_to_find(f);
    int64_t id = begin_two_turns(f, "treasure trip");
    grow(f, id, 13, "cond", "units of a token");
    ok(store_tag_add(f->s, id, "picnic", &err));
    int64_t other = begin_named(f, "drawn");
    struct store_message m = {
        .role = CHAT_ASSISTANT, .text = "x", .n_text = 1, .settings = "--mousse 2"};
    m.thought.text = "secret souffle";
    m.thought.n = strlen(m.thought.text);
    ok(store_message_add(f->s, other, &m, &err));
    assert_no_word(f->path, words);
    store_close(f->s);
    f->s = NULL;
    assert_no_word(f->path, words);
    refused(store_open(&none, f->path, NULL, &err), ERR_FAIL, "is encrypted, and no passphrase");
    p.passphrase = "wrong horse";
    refused(store_open(&none, f->path, &key, &err), ERR_FAIL, "wrong passphrase");
    p.passphrase = "";
    refused(store_open(&none, f->path, &key, &err), ERR_FAIL, "empty");
    p.passphrase = NULL;
    refused(store_open(&none, f->path, &key, &err), ERR_STOP, "interrupted");
    assert_null(none);
    p.passphrase = "correct horse";
    key.encrypt = false; /* it is encrypted, whatever is requested */
    ok(store_open(&f->s, f->path, &key, &err));
    assert_int_equal(look(f, "treasure trip").id, id);
    ok(store_message_each(f->s, other, is_mousse, NULL, &err));
    assert_string_equal(look(f, "treasure trip").title, "first question");
    ok(store_tagged_each(f->s, "picnic", count_conversation, &n_tagged, &err));
    assert_int_equal(n_tagged, 1);
    ok(store_tag_each(f->s, id, is_picnic, NULL, &err));
    assert_messages(f, id,
                    "0/1/first question/1/-2/2147483647;1/2/first "
                    "answer/1/-2/2147483647;2/1/second question/1/-2/2147483647;"
                    "-1/2/second/120/130;");
    assert_segments(f, id, "0/0/units of turn one;0/1/units of turn two;0/2/-some;");
    assert_tail(f, id, "12/120/se/;13/130/cond/units of a token;");
    ok(store_check(f->s, &err));
    assert_found(f, "TULIP oven", "kitchen plan/1/An oven, two \2tulip\3 vases and C++ books.;");
    assert_found(f, "treasure", "treasure trip/-1/\2treasure\3 trip;");
    ok(store_conversation_rename(f->s, id, "hidden", &err));
    ok(store_rewind(f->s, id, 2, 0, &err));
    assert_int_equal(look(f, "hidden").n_tokens, 6);
    struct store_conversation c;
    ok(store_conversation_create(f->s, NULL, &c, &err));
    assert_string_equal(c.name, "chat-1");
    ok(store_conversation_copy(f->s, id, 2, 0, f->s, "twig", &c, &err));
    assert_segments(f, c.id, "0/0/units of turn one;");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_conversation_restore(f->s, "hidden", NULL, &err));
    refused(store_conversation_rename(f->s, id, "twig", &err), ERR_USAGE, "already");
    ok(store_compact(f->s, &err));
    assert_no_word(f->path, words);
    /* Rows must not be exchanged. */
    tamper(f,
           "UPDATE message SET (text, tokens, digest) = (SELECT text, tokens, digest FROM message "
           "AS o WHERE o.id = message.id + 1) "
           "WHERE id IN (SELECT min(message) FROM transcript GROUP BY conversation "
           "HAVING count(*) > 1)");
    AUTO_STR s = {0};
    refused(store_message_each(f->s, id, note_message, &s, &err), ERR_FORMAT, "message 0");
    int64_t n_damaged = 0, n_bytes = 0;
    ok(store_message_rescue(f->s, id, count_damaged, &n_bytes, &n_damaged, &err));
    assert_int_equal(n_damaged, 1); /* the second has its own text again */
    assert_int_equal(n_bytes, 0);   /* sealed, so no text is readable */
}

/* A branch holds messages that were written for another conversation; without the key nobody can
 * put a message where it was not said. */
TEST_WITH(messages_cannot_be_moved, setup, teardown)
{
    static const char *const moves[] = {
        "UPDATE transcript SET message = 1 WHERE conversation = 2",
        "UPDATE transcript SET message = 1, digest = (SELECT digest FROM message WHERE id = 1) "
        "WHERE conversation = 3",
        "UPDATE transcript SET digest = (SELECT digest FROM transcript WHERE conversation = 3 AND "
        "seq = 0) WHERE conversation = 4",
    };
    struct fixture *f = *state;
    struct person p = {.passphrase = "correct horse"};
    struct store_key key = {ask, &p, true};
    struct store_conversation c;
    AUTO_STR s = {0};
    store_close(f->s);
    f->s = NULL;
    snprintf(f->path, sizeof f->path, "%s/sealed.db", f->folder);
    ok(store_open(&f->s, f->path, &key, &err));
    say(f, begin_named(f, "one"), CHAT_USER, "yes");
    say(f, begin_named(f, "two"), CHAT_USER, "no");
    ok(store_conversation_copy(f->s, 2, 1, -1, f->s, "three", &c, &err));
    ok(store_conversation_copy(f->s, c.id, 1, -1, f->s, "four", &c, &err));
    assert_messages(f, c.id, "0/1/no/1/-2/2147483647;");
    ok(store_check(f->s, &err));
    for (int i = 0; i < 3; i++) {
        tamper(f, moves[i]);
        refused(store_message_each(f->s, i + 2, note_message, &s, &err), ERR_FORMAT, "message 0");
    }
}

/* A database with conversations is never encrypted without the user's knowledge. */
STORE_TEST(not_encrypted_afterwards)
{
    struct person p = {.passphrase = "x"};
    struct store_key key = {ask, &p, true};
    struct store *none;
    begin_named(f, "open");
    refused(store_open(&none, f->path, &key, &err), ERR_FAIL, "not encrypted");
    assert_int_equal(p.n_asked, 0);
}

/* Made by another implementation of the same construction (tests/golden/make_sealed.py): Argon2id
 * by the reference, XChaCha20-Poly1305 from its draft. */
/* A foreign file must not ask for minutes and all memory. */
TEST_WITH(hard_passphrases_are_refused, setup, teardown)
{
    static const char *const harder[] = {"ops = 5", "memory = 1073741825", "ops = -1"};
    char sql[96];
    struct fixture *f = *state;
    struct person p = {.passphrase = "correct horse"};
    struct store_key key = {ask, &p, true};
    sqlite3 *db;
    store_close(f->s);
    snprintf(f->path, sizeof f->path, "%s/hard.db", f->folder);
    ok(store_open(&f->s, f->path, &key, &err));
    store_close(f->s);
    for (size_t i = 0; i < sizeof harder / sizeof *harder; i++) {
        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        snprintf(sql, sizeof sql, "UPDATE secret SET %s", harder[i]);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        refused(store_open(&f->s, f->path, &key, &err), ERR_FORMAT,
                "the limit is 4 passes over 1024 MiB");
    }
    f->s = NULL;
}

STORE_TEST(made_by_others)
{
    struct person p = {.passphrase = "correct horse"};
    struct store_key key = {ask, &p, false};
    struct str sql = {0};
    char *text;
    ok(file_read("tests/golden/store-sealed.sql", FILE_DATA, &sql, &err));
    store_close(f->s);
    f->s = NULL;
    snprintf(f->path, sizeof f->path, "%s/others.db", f->folder);
    tamper(f, sql.data);
    str_release(&sql);
    ok(store_open(&f->s, f->path, &key, &err));
    int64_t id = look(f, "treasure").id;
    assert_string_equal(look(f, "treasure").title, "Where is it?");
    assert_messages(f, id, "0/1/Where is it?/5/6;1/2/Under the oak./7;");
    assert_segments(f, id, ""); /* units of an older version are read again */
    ok(store_state_get(f->s, id, &text, &err));
    assert_string_equal(text, "opaque words");
    free(text);
    ok(store_check(f->s, &err));
}

/* The primitives of sealing, against the vectors of the construction's draft
 * (draft-irtf-cfrg-xchacha-03, A.3.1). */
TEST_WITH(vectors, setup, teardown)
{
    static const char plain[] =
        "Ladies and Gentlemen of the class of '99: If I could offer you only "
        "one tip for the future, sunscreen would be it.";
    uint8_t key[32], nonce[24], out[sizeof plain - 1 + 16];
    static const uint8_t ad[] = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1,
                                 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
    static const uint8_t tag[] = {0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79,
                                  0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a, 0xcf, 0x49};
    for (int i = 0; i < 32; i++) key[i] = (uint8_t)(0x80 + i);
    for (int i = 0; i < 24; i++) nonce[i] = (uint8_t)(0x40 + i);
    crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, (const uint8_t *)plain, sizeof plain - 1,
                                               ad, sizeof ad, NULL, nonce, key);
    assert_memory_equal(out + sizeof plain - 1, tag, sizeof tag);
    assert_int_equal(out[0], 0xbd);
}
