/* Files of older versions, of other programs, in read-only places, and damaged ones: migrated, or
 * refused in one line; never trusted, never a crash. */
#include "tests/unit/store_kit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

/* ---- older files ----------------------------------------------------------------------------- */

/* A file written by an older version, from its dump. */
static void open_older(struct fixture *f, int version)
{
    char path[64];
    AUTO_STR sql = {0};
    snprintf(path, sizeof path, "tests/golden/store-v%d.sql", version);
    store_close(f->s);
    f->s = NULL;
    snprintf(f->path, sizeof f->path, "%s/old.db", f->folder);
    ok(file_read(path, FILE_DATA, &sql, &err));
    tamper(f, sql.data);
    reopen(f);
}

STORE_TEST(version_5_is_brought_up_to_date)
{
    struct file_identity m;
    char *text;
    open_older(f, 5);
    assert_int_equal(store_model_find(f->s, "/m/demo.gguf", &m, &err), 1);
    struct store_conversation c = look(f, "talk");
    assert_messages(f, c.id, "0/1/Hello/1/-2/2147483647;1/2/Hi there./4/5;-1/2/And/7;");
    assert_segments(f, c.id, "");
    assert_checkpoints(f, c.id, "");
    assert_tail(f, c.id, "5/7/And/;");
    ok(store_state_get(f->s, c.id, &text, &err));
    assert_string_equal(text, "{\"policy\":\"keeper\"}");
    free(text);
    assert_true(c.has_tags);
    assert_int_equal(count_hits(f, "there"), 1);
    assert_int_equal(count_hits(f, "talk"), 1);
    keep(f, c.id, 0, 3, "new units");
    ok(store_check(f->s, &err));
    say(f, c.id, CHAT_USER, "and now?");
    reopen(f);
    assert_int_equal(look(f, "talk").n_turns, 2);
}

static int note_settings(void *ctx, const struct store_message *m)
{
    str_printf(ctx, "%s;", m->settings ? m->settings : "-");
    return 0;
}

/* Its branches held copies of messages; they stay separate. */
STORE_TEST(version_6_is_brought_up_to_date)
{
    open_older(f, 6);
    assert_int_equal(count_rows(f, "message"), 8);
    struct store_conversation talk = look(f, "talk"), twig = look(f, "twig");
    assert_int_equal(twig.n_turns, 2);
    struct str a = {0}, b = {0};
    ok(store_message_each(f->s, talk.id, note_message, &a, &err));
    ok(store_message_each(f->s, twig.id, note_message, &b, &err));
    assert_non_null(strstr(str_get(&a), "2/1/My locker code is 48213."));
    assert_string_equal(str_get(&a), str_get(&b));
    str_release(&a);
    str_release(&b);
    assert_int_equal(count_hits(f, "48213"), 2);
    assert_found(f, "twig", "twig/-1/\2twig\3;");
    ok(store_check(f->s, &err));
    ok(store_rewind(f->s, talk.id, 2, -1, &err));
    assert_int_equal(count_hits(f, "48213"), 1);
}

/* It is brought up to date in a temporary copy, whose journal is in memory. */
STORE_TEST(a_damaged_older_source)
{
    char path[96], page[4096];
    AUTO_STR sql = {0};
    struct store *from;
    sqlite3 *db;
    sqlite3_stmt *q;
    snprintf(path, sizeof path, "%s/old.db", f->folder);
    ok(file_read("tests/golden/store-v6.sql", FILE_DATA, &sql, &err));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql.data, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT rootpage, page_size FROM sqlite_master, "
                                        "pragma_page_size WHERE name = 'message'",
                                        -1, &q, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    long at = (sqlite3_column_int(q, 0) - 1) * (long)sizeof page;
    assert_int_equal(sqlite3_column_int(q, 1), sizeof page);
    sqlite3_finalize(q);
    sqlite3_close(db);
    memset(page, 0xff, sizeof page);
    FILE *file = fopen(path, "r+b");
    assert_true(file && !fseek(file, at, SEEK_SET) && fwrite(page, sizeof page, 1, file) == 1);
    fclose(file);
    refused(store_open_source(&from, path, NULL, &err), ERR_FORMAT, "is damaged");
}

/* Older messages have no settings; where they exist, the digest covers them. */
STORE_TEST(settings_of_an_answer)
{
    AUTO_STR s = {0};
    open_older(f, 5);
    ok(store_tail_clear(f->s, look(f, "talk").id, &err));
    struct store_conversation c = look(f, "talk");
    struct store_message m = {
        .role = CHAT_ASSISTANT, .text = "new", .n_text = 3, .settings = "--temp 0.5"};
    ok(store_message_add(f->s, c.id, &m, &err));
    ok(store_message_each(f->s, c.id, note_settings, &s, &err));
    assert_string_equal(str_get(&s), "-;-;--temp 0.5;");
    ok(store_check(f->s, &err));
    tamper(f, "UPDATE message SET settings = '--temp 0.6' WHERE id = 3");
    refused(store_check(f->s, &err), ERR_FORMAT, "message 2");
    tamper(f, "UPDATE message SET settings = NULL WHERE id = 3");
    refused(store_check(f->s, &err), ERR_FORMAT, "message 2");
}

/* ---- foreign and damaged files --------------------------------------------------------------- */

static void open_refused(const char *path, int code, const char *said)
{
    struct store *s = (struct store *)&err;
    refused(store_open(&s, path, NULL, &err), code, said);
    assert_null(s);
}

STORE_TEST(files_that_are_not_ours)
{
    char path[192], deep[256], text[8192];
    open_refused(f->folder, ERR_FAIL, "is a folder");
    open_refused("", ERR_USAGE, "empty");
    open_refused("/dev/null", ERR_FAIL, "not a regular file");
    memset(text, 'x', sizeof text);
    snprintf(path, sizeof path, "%s/text", f->folder);
    write_file(path, text, sizeof text);
    open_refused(path, ERR_FORMAT, "is not a retain database");
    snprintf(deep, sizeof deep, "%s/below/db", path);
    open_refused(deep, ERR_FAIL, "cannot make the folder");
    write_file(path, "short", 5);
    open_refused(path, ERR_FORMAT, "is not a retain database");
    unlink(path);
    struct fixture g = {0};
    snprintf(g.path, sizeof g.path, "%s/other.db", f->folder);
    tamper(&g, "CREATE TABLE t (x); INSERT INTO t VALUES (1);");
    open_refused(g.path, ERR_FORMAT, "database of another program");
    tamper(&g, "PRAGMA application_id = 1234; INSERT INTO t VALUES (1);");
    open_refused(g.path, ERR_FORMAT, "application id 0x000004d2");
    write_file(path, "", 0); /* an empty file becomes ours */
    AUTO_STORE *s;
    ok(store_open(&s, path, NULL, &err));
}

STORE_TEST(newer_and_mutilated_schema)
{
    begin_named(f, "a");
    store_close(f->s);
    f->s = NULL;
    tamper(f, "PRAGMA user_version = 9; UPDATE conversation SET n_turns = 0;");
    open_refused(f->path, ERR_FORMAT, "newer retain (its version is 9, this one knows 8)");
    tamper(f, "PRAGMA user_version = 4; UPDATE conversation SET n_turns = 0;");
    open_refused(f->path, ERR_FORMAT, "its version is 4, expected 5 to 8");
    tamper(f, "PRAGMA user_version = 0; UPDATE conversation SET n_turns = 0;");
    open_refused(f->path, ERR_FORMAT, "its version is 0, expected 5 to 8");
    tamper(f, "PRAGMA user_version = 8; UPDATE conversation SET n_turns = 0; DROP TABLE tail;");
    open_refused(f->path, ERR_FORMAT, "is damaged: no such table: tail");
}

/* Objects that are not in retain's schema are refused before one of them runs. An endless view
 * would hang the test. */
TEST_WITH(foreign_objects_are_refused, setup, teardown)
{
    static const struct {
        const char *sql, *said;
    } cases[] = {
        {"CREATE TRIGGER ev AFTER INSERT ON tag BEGIN DELETE FROM message; END", "trigger"},
        {"DROP TRIGGER segment_gone; CREATE TRIGGER segment_gone AFTER DELETE ON segment "
         "BEGIN DELETE FROM message; END",
         "trigger"},
        {"DROP TABLE secret; CREATE VIEW secret AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "
         "SELECT i + 1 FROM n) SELECT i AS id, i AS salt, i AS ops, i AS memory, i AS key FROM n "
         "WHERE i < 0",
         "view"},
        {"DROP TABLE tag; CREATE VIRTUAL TABLE tag USING fts5 (conversation, name, label, digest)",
         "table"},
        {"CREATE TABLE extra (x)", "table"},
        {"CREATE INDEX extra ON message (text)", "index"},
    };
    struct fixture *f = *state;
    struct store *source;
    bool fresh;
    AUTO_STR good = {0};
    begin_named(f, "a");
    store_close(f->s);
    f->s = NULL;
    ok(file_read(f->path, FILE_DATA, &good, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[64];
        struct str sql = {0};
        write_file(f->path, good.data, good.n);
        str_printf(&sql, "%s; UPDATE conversation SET n_turns = 0;", cases[i].sql);
        tamper(f, sql.data);
        str_release(&sql);
        snprintf(said, sizeof said, "holds a %s that retain did not make", cases[i].said);
        assert_false(store_probe(f->path, &fresh));
        open_refused(f->path, ERR_FORMAT, said);
        refused(store_open_source(&source, f->path, NULL, &err), ERR_FORMAT, said);
        assert_null(source);
    }
    write_file(f->path, good.data, good.n);
    tamper(f, "ANALYZE; UPDATE conversation SET n_turns = 0"); /* SQLite's own tables are allowed */
    reopen(f);
}

static void assert_same_file(const char *path, const struct str *before)
{
    AUTO_STR now = {0};
    ok(file_read(path, FILE_DATA, &now, &err));
    assert_int_equal(now.n, before->n);
    assert_memory_equal(now.data, before->data, now.n);
}

static void assert_alone(const char *folder)
{
    char command[256];
    snprintf(command, sizeof command, "test \"$(ls '%s')\" = old.db", folder);
    assert_int_equal(system(command), 0);
}

/* An older file is read without a change of its bytes or a new file next to it, even if neither the
 * file nor its folder can be written. */
TEST_WITH(a_source_is_only_read, setup, teardown)
{
    static const struct {
        int version;
        const char *name;
    } cases[] = {{5, "talk"}, {6, "talk"}};
    struct fixture *f = *state, own = *f;
    char folder[96];
    snprintf(folder, sizeof folder, "%s/a#b%%20?", f->folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(f->path, sizeof f->path, "%s/old.db", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STR sql = {0}, before = {0};
        struct store_conversation made;
        struct store *source;
        char path[64];
        snprintf(path, sizeof path, "tests/golden/store-v%d.sql", cases[i].version);
        ok(file_read(path, FILE_DATA, &sql, &err));
        tamper(f, sql.data);
        ok(file_read(f->path, FILE_DATA, &before, &err));
        chmod(f->path, 0444);
        chmod(folder, 0555);
        ok(store_open_source(&source, f->path, NULL, &err));
        struct fixture g = {.s = source};
        int64_t id = look(&g, cases[i].name).id;
        snprintf(path, sizeof path, "from %d", cases[i].version);
        ok(store_conversation_copy(source, id, INT64_MAX, INT64_MAX, own.s, path, &made, &err));
        assert_true(made.n_turns > 0);
        store_close(source);
        assert_same_file(f->path, &before);
        assert_alone(folder);
        chmod(folder, 0755);
        unlink(f->path);
    }
    ok(store_check(own.s, &err));
}

/* If another program has the file open, its newest messages are read, too. */
STORE_TEST(a_source_in_use)
{
    struct store *source;
    int64_t id = begin_named(f, "a");
    say(f, id, CHAT_USER, "written, but only to the log");
    ok(store_open_source(&source, f->path, NULL, &err));
    struct fixture g = {.s = source};
    assert_messages(&g, id, "0/1/written, but only to the log/1/-2/2147483647;");
    say(f, id, CHAT_USER, "not locked");
    struct store_message m = {.role = CHAT_USER, .text = "x", .n_text = 1};
    refused(store_message_add(source, id, &m, &err), ERR_FAIL, "cannot be written");
    store_close(source);
    assert_true(store_is_file(f->s, f->path));
    assert_false(store_is_file(f->s, f->folder));
}

/* A chat may hold the lock of writers while another command starts and reads. */
STORE_TEST(reading_waits_for_no_writer)
{
    struct store *reader;
    AUTO_STR s = {0};
    int64_t id = begin_named(f, "a");
    say(f, id, CHAT_USER, "a question");
    ok(store_begin(f->s, &err));
    say(f, id, CHAT_ASSISTANT, "an answer");
    ok(store_open(&reader, f->path, NULL, &err)); /* waits 5 seconds and fails if it writes */
    ok(store_message_each(reader, id, note_message, &s, &err));
    assert_null(strstr(str_get(&s), "an answer"));
    store_close(reader);
    ok(store_commit(f->s, &err));
}

STORE_TEST(modes_of_files)
{
    struct stat st;
    char path[192];
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s-wal", f->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    ok(store_lock(f->s, 1, &err));
    snprintf(path, sizeof path, "%s.lock", f->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/a/b", f->folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

/* As a user restricted by permissions; tests may run as root. */
STORE_TEST(what_may_not_be_written)
{
    char folder[192], inside[256];
    begin_named(f, "a");
    store_close(f->s);
    f->s = NULL;
    snprintf(folder, sizeof folder, "%s/a/b", f->folder);
    snprintf(inside, sizeof inside, "%s/new.db", folder);
    bool root = geteuid() == 0;
    chmod(f->folder, 0755);
    snprintf(folder, sizeof folder, "%s/a", f->folder);
    chmod(folder, 0755);
    snprintf(folder, sizeof folder, "%s/a/b", f->folder);
    chmod(f->path, root ? 0666 : 0600);
    chmod(folder, 0555);
    pid_t child = fork();
    if (child == 0) {
        struct store *s;
        int rc = 0;
        if (root && (setgid(65534) || setuid(65534))) _exit(0);
        err.text[0] = 0;
        if (store_open(&s, f->path, NULL, &err) != ERR_FAIL || !strstr(err.text, "allow writing"))
            rc = 1;
        if (rc) fprintf(stderr, "read-only folder: %s\n", err.text);
        err.text[0] = 0;
        if (store_open(&s, inside, NULL, &err) != ERR_FAIL || !strstr(err.text, "cannot make"))
            rc |= 2;
        if (rc & 2) fprintf(stderr, "new file in a read-only folder: %s\n", err.text);
        _exit(rc);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    chmod(folder, 0777);
    chmod(f->path, 0444);
    child = fork();
    if (child == 0) {
        struct store *s;
        if (root && (setgid(65534) || setuid(65534))) _exit(0);
        err.text[0] = 0;
        int rc = store_open(&s, f->path, NULL, &err);
        bool good = rc == ERR_FAIL && strstr(err.text, "cannot be written");
        if (!good) fprintf(stderr, "read-only file: %d %s\n", rc, err.text);
        _exit(!good);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* A file truncated at any length, or with any page overwritten: an error, never trusted, never a
 * crash. */
static int read_everything(const char *path)
{
    struct store *s;
    err.text[0] = 0;
    int rc = store_open(&s, path, NULL, &err);
    if (rc == 0) rc = store_check(s, &err);
    store_close(s);
    return rc;
}

STORE_TEST(torn_files)
{
    char path[192], *bytes;
    int64_t id = begin_named(f, "torn");
    for (int i = 0; i < 20; i++) say(f, id, CHAT_USER, "a message of some length, or other");
    keep(f, id, 0, 0, "units");
    keep(f, id, 0, 1, "-some");
    point(f, id, 1, 2);
    const int n_free = (int)query_number(f, "PRAGMA freelist_count"); /* pages with nothing */
    store_close(f->s);
    f->s = NULL;
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    size_t n = (size_t)st.st_size;
    bytes = malloc(n);
    FILE *file = fopen(f->path, "rb");
    assert_int_equal(fread(bytes, 1, n, file), n);
    fclose(file);
    snprintf(path, sizeof path, "%s/torn.db", f->folder);
    enum { PAGE = 1024 };
    size_t n_used = n; /* the end of the last page is not a loss */
    while (n_used > 0 && !bytes[n_used - 1]) n_used--;
    n_used = (n_used - 1) / PAGE * PAGE;
    for (size_t cut = 2; cut < n_used; cut += 1531) {
        write_file(path, bytes, cut);
        int rc = read_everything(path);
        if (rc != ERR_FORMAT && rc != ERR_FAIL) fail_msg("cut at %zu: %d %s", cut, rc, err.text);
        assert_true(strlen(err.text) > 20);
    }
    int n_found = 0, n_pages = (int)(n / PAGE);
    for (int page = 0; page < n_pages; page++) {
        char saved[PAGE];
        memcpy(saved, bytes + page * PAGE, PAGE);
        for (int i = page ? 0 : 100; i < PAGE; i++) bytes[page * PAGE + i] ^= (char)(i * 7 + page);
        write_file(path, bytes, n);
        n_found += read_everything(path) < 0;
        memcpy(bytes + page * PAGE, saved, PAGE);
    }
    assert_in_range(n_found, n_pages - n_free, n_pages);
    write_file(path, bytes, n);
    assert_int_equal(read_everything(path), 0);
    free(bytes);
}

static int note_left(void *ctx, const struct store_message *m)
{
    str_printf(ctx, "%s%s;", m->damaged ? "!" : "", m->text);
    assert_int_equal(m->damaged, m->n_tokens == 0);
    return 0;
}

/* Every kind of row, changed without its digest: detected, and intact rows stay readable. */
STORE_TEST(rows_that_were_tampered_with)
{
    static const struct {
        const char *sql;
        int messages, tail, segments;
        const char *said;
        const char *left; /* of "a;b;xy;" */
    } cases[] = {
        {"UPDATE message SET text = 'A' WHERE id = 1", 1, 0, 0, "message 0 of conversation 'v'",
         "!A;b;xy;"},
        {"UPDATE message SET tokens = x'01000000' WHERE id = 2", 1, 0, 0, "message 1", "a;!b;xy;"},
        {"UPDATE message SET tokens = x'010203' WHERE id = 2", 1, 0, 0, "message 1", "a;!b;xy;"},
        {"UPDATE message SET role = 2 WHERE id = 1", 1, 0, 0, "message 0", "!a;b;xy;"},
        {"UPDATE message SET role = 123456789 WHERE id = 1", 1, 0, 0, "message 0", "!a;b;xy;"},
        {"UPDATE message SET digest = x'00' WHERE id = 1", 1, 0, 0, "message 0", "!a;b;xy;"},
        {"DELETE FROM message WHERE id = 1", 1, 0, 0, "message 0", "!;b;xy;"},
        {"DELETE FROM transcript WHERE seq = 0", 1, 0, 0, "message 0", "!;b;xy;"},
        {"DELETE FROM transcript WHERE seq = 1", 1, 0, 0, "message 1", "a;!;xy;"},
        {"UPDATE message SET origin = 7 WHERE id = 1", 1, 0, 0, "message 0", "!a;b;xy;"},
        {"UPDATE transcript SET message = 1", 1, 0, 0, "message 1", "a;!a;xy;"},
        {"UPDATE transcript SET seq = 7 WHERE seq = 1", 1, 0, 0, "message 1", "a;!;!b;xy;"},
        {"UPDATE transcript SET seq = 9223372036854775807 WHERE seq = 1", 1, 0, 0, "message 1",
         "a;!b;xy;"},
        {"UPDATE tail SET text = 'z' WHERE position = 10", 1, 1, 0, "token at position 10", "a;b;"},
        {"UPDATE tail SET token = token + 1 WHERE position = 11", 1, 1, 0, "position 11", "a;b;x;"},
        {"UPDATE tail SET units = x'00' WHERE position = 11", 0, 1, 0, "cache at position 11",
         NULL},
        {"UPDATE blob SET bytes = x'00' WHERE bytes = x'4235'", 0, 0, 1, "segment 5 of layer 1",
         NULL},
        {"UPDATE blob SET digest = x'00' WHERE bytes = x'4235'", 0, 0, 1, "segment 5 of layer 1",
         NULL},
        {"UPDATE segment SET layer = 3 WHERE layer = 1", 0, 0, 1, "layer 3", NULL},
        {"UPDATE segment SET seq = 9 WHERE layer = 1", 0, 0, 1, "segment 9", NULL},
        {"UPDATE segment SET kind = 1 WHERE layer = 1", 0, 0, 1, "layer 1", NULL},
        {"UPDATE segment SET origin = 7 WHERE layer = 1", 0, 0, 1, "layer 1", NULL},
        {"UPDATE segment SET blob = 999 WHERE layer = 1", 0, 0, 1, "layer 1", NULL},
        {"UPDATE segment SET blob = (SELECT blob FROM segment WHERE seq = 6) WHERE seq = 5 AND "
         "layer = 0",
         0, 0, 1, "segment 5 of layer 0", NULL},
        {"UPDATE checkpoint SET n_run = 3", 0, 0, 0, "checkpoint of conversation 'v'", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t id = begin_named(f, "v");
        say(f, id, CHAT_USER, "a");
        say(f, id, CHAT_ASSISTANT, "b");
        grow(f, id, 10, "x", "");
        grow(f, id, 11, "y", "units");
        keep(f, id, 0, 5, "A5");
        keep(f, id, 0, 6, "A6");
        keep(f, id, 1, 5, "B5");
        point(f, id, 6, 2);
        ok(store_check(f->s, &err));
        tamper(f, cases[i].sql);
        count_hits(f, "a"); /* reads the rows, but drops impossible ones */
        struct str s = {0};
        int rc = store_message_each(f->s, id, note_message, &s, &err);
        assert_int_equal(rc, cases[i].messages ? ERR_FORMAT : 0);
        if (rc) assert_non_null(strstr(err.text, cases[i].said));
        int64_t n_damaged = 0;
        str_clear(&s);
        ok(store_message_rescue(f->s, id, note_left, &s, &n_damaged, &err));
        assert_string_equal(str_get(&s), cases[i].left ? cases[i].left : "a;b;xy;");
        assert_int_equal(n_damaged > 0, cases[i].messages);
        rc = store_tail_each(f->s, id, note_tail, &s, &err);
        assert_int_equal(rc, cases[i].tail ? ERR_FORMAT : 0);
        rc = store_segment_each(f->s, id, -1, note_segment, &s, &err);
        assert_int_equal(rc, cases[i].segments ? ERR_FORMAT : 0);
        str_release(&s);
        refused(store_check(f->s, &err), ERR_FORMAT,
                strstr(cases[i].sql, "blob = 999")     ? "is damaged: segment"
                : strstr(cases[i].sql, "FROM message") ? "is damaged: transcript"
                                                       : cases[i].said);
        tamper(f, "DELETE FROM conversation");
        tamper(f, "DELETE FROM transcript; DELETE FROM message; DELETE FROM tail; DELETE FROM "
                  "segment; DELETE FROM blob;"
                  "DELETE FROM checkpoint; DELETE FROM search;");
    }
    int64_t id = begin_named(f, "v");
    char *text;
    ok(store_state_put(f->s, id, "true", &err));
    tamper(f, "UPDATE state SET text = 'false'");
    refused(store_state_get(f->s, id, &text, &err), ERR_FORMAT, "state of conversation 'v'");
    assert_null(text);
}

/* Removing messages merges the search index, which adds levels to the record of its structure. */
STORE_TEST(the_search_index_stays_readable)
{
    int64_t id = begin_named(f, "long");
    say(f, id, CHAT_USER, "roses");
    /* as after thousands of merges: 1,998 levels, most of them empty */
    tamper(f, "UPDATE search_data SET block = CAST(x'000000008f4e' || substr(block, 6) || "
              "zeroblob(4000) AS BLOB) WHERE id = 10");
    reopen(f);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 5; k++) say(f, id, CHAT_USER, "tulips");
        ok(store_rewind(f->s, id, 1, -1, &err));
    }
    tamper(f, "UPDATE search_data SET id = 10 WHERE id = 10 AND length(block) < 3000");
    reopen(f);
    ok(store_check(f->s, &err));
    assert_int_equal(count_hits(f, "roses"), 1);
    /* nobody can open this one; it is made again */
    tamper(f, "UPDATE search_data SET block = x'000000008f5201d030' WHERE id = 10");
    reopen(f);
    ok(store_check(f->s, &err));
    assert_int_equal(count_hits(f, "roses"), 1);
    assert_int_equal(count_hits(f, "tulips"), 0);
}
