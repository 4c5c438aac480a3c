/* Power cuts of the whole program. A chat says, amends, edits and rewinds, another command deletes;
 * recording.c notes every write, truncation, sync and removal of the database and its log. For each
 * cut the files are what a disk may hold then: everything synced, and of the rest what POSIX
 * allows: nothing, all, any writes, any sectors of them, those of one file alone. The database is
 * whole, and every text that was acknowledged is there.
 *
 * CUTS=N tries N of the moments, CUTS=0 all of them, each in every way. */
#include "tests/test.h"

#include <limits.h>

#include <sys/wait.h>

#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "store/store.h"
#include "tests/fault/program_kit.h"
#include "tests/fault/recording.h"

#define SECTOR 512

/* What the conversation must hold when a step is done. */
struct step {
    const char *input;
    const char *texts[3]; /* NULL = no more */
    bool says;            /* output on stdout acknowledges the step's text */
};

#define MARK      "/tokens done\n"
#define MARK_LINE "2 tokens, 4 bytes"

static const struct step steps[] = {
    {"My dog is called Biscuit.\n" MARK, {"My dog is called Biscuit."}, true},
    {"The garden gate is green.\n" MARK,
     {"My dog is called Biscuit.", "The garden gate is green."},
     true},
    {"/answer The gate is blue.\n" MARK,
     {"My dog is called Biscuit.", "The garden gate is green.", "The gate is blue."},
     false},
    {"/edit 2\nThe gate is red.\n" MARK, {"My dog is called Biscuit.", "The gate is red."}, false},
    {"/rewind 1\n" MARK, {"My dog is called Biscuit."}, false},
    {"My boat is called Vega.\n" MARK,
     {"My dog is called Biscuit.", "My boat is called Vega."},
     true},
};

enum { STEPS = sizeof steps / sizeof *steps };

enum way { NOTHING, ALL, ANY_WRITES, ANY_SECTORS, DATABASE_ALONE, LOG_ALONE, WAYS };

static const char *folder;
static char program[PATH_MAX], library[512];
static struct str record;   /* all records */
static struct str whole[2]; /* the database before the first record, and at the end */

/* ---- recording ------------------------------------------------------------------------------- */

static void run(const char *arguments, const char *input)
{
    char dir[80];
    int status;
    snprintf(dir, sizeof dir, "%s/files", folder);
    pid_t pid = fork();
    if (pid == 0) become(dir, program, arguments, input, library);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void read_file(const char *name, struct str *out)
{
    char path[128];
    snprintf(path, sizeof path, "%s/files/%s", folder, name);
    ok(file_read(path, FILE_DATA, out, &err));
}

static int setup(void **state)
{
    static const char chat[] =
        "chat --plain --db db --threads 1 --temp 0 --seed 1 -n 6 --budget 48";
    char *here = realpath("/proc/self/exe", NULL), *slash = here ? strrchr(here, '/') : NULL;
    const char *retain = getenv("RETAIN");
    AUTO_STR input = {0};
    char words[160];
    if (!slash || !retain || !realpath(retain, program)) return -1;
    snprintf(library, sizeof library, "%.*s/recording.so", (int)(slash - here), here);
    free(here);
    folder = folder_new();
    shell("mkdir %s/files %s/cut", folder, folder);
    snprintf(words, sizeof words, "%s -c spare", chat);
    run(words, "Hello\n");
    read_file("db", &whole[0]);
    setenv("RETAIN_RECORDING", "record", 1);
    for (int i = 0; i < STEPS; i++) str_puts(&input, steps[i].input);
    snprintf(words, sizeof words, "%s -c kept", chat);
    run(words, input.data);
    run("delete spare --db db", "");
    read_file("db", &whole[1]);
    read_file("record", &record);
    return 0;
}

static int teardown(void **state)
{
    str_release(&record);
    for (int i = 0; i < 2; i++) str_release(&whole[i]);
    return 0;
}

/* ---- the disk -------------------------------------------------------------------------------- */

/* A file while the records are replayed. */
struct disk_file {
    struct str synced;
    size_t waiting[4096]; /* offsets of records since the last sync */
    int n_waiting;
};

static void put(struct str *s, int64_t at, const void *bytes, size_t n)
{
    static const char zeros[4096];
    while ((int64_t)s->n < at) {
        size_t gap = (size_t)at - s->n;
        str_append(s, zeros, gap < sizeof zeros ? gap : sizeof zeros);
    }
    size_t inside = s->n - (size_t)at < n ? s->n - (size_t)at : n;
    memcpy(s->data + at, bytes, inside);
    str_append(s, (const char *)bytes + inside, n - inside);
}

static void apply(struct str *s, size_t at, bool sectors, uint64_t seed)
{
    struct recording r;
    memcpy(&r, record.data + at, sizeof r);
    const char *bytes = record.data + at + sizeof r;
    static const char zeros[SECTOR];
    if (r.kind == RECORDING_REMOVE) str_clear(s);
    if (r.kind == RECORDING_TRUNCATE && (size_t)r.at < s->n) s->n = (size_t)r.at;
    while (r.kind == RECORDING_TRUNCATE && s->n < (size_t)r.at)
        str_append(s, zeros, (size_t)r.at - s->n < SECTOR ? (size_t)r.at - s->n : SECTOR);
    if (r.kind != RECORDING_WRITE) return;
    for (size_t i = 0; i < r.n; i += SECTOR) {
        size_t n = r.n - i < SECTOR ? r.n - i : SECTOR;
        if (sectors && random_at(seed, at, i) < 0.5) continue;
        put(s, r.at + (int64_t)i, bytes + i, n);
    }
}

static void take(struct disk_file files[RECORDING_FILES], size_t at)
{
    struct recording r;
    memcpy(&r, record.data + at, sizeof r);
    if (r.kind == RECORDING_OUTPUT) return;
    struct disk_file *f = &files[r.file];
    if (r.kind != RECORDING_SYNC) {
        assert_true(f->n_waiting < 4096);
        f->waiting[f->n_waiting++] = at;
        return;
    }
    for (int i = 0; i < f->n_waiting; i++) apply(&f->synced, f->waiting[i], false, 0);
    f->n_waiting = 0;
}

static bool survives(enum way way, int file, size_t at, uint64_t seed)
{
    switch (way) {
    case ALL: return true;
    case ANY_WRITES: return random_at(seed, 1, at) < 0.5;
    case ANY_SECTORS: return random_at(seed, 2, at) < 0.7;
    case DATABASE_ALONE: return file == 0;
    case LOG_ALONE: return file == 1;
    default: return false;
    }
}

/* Writes the files as the disk has them. */
static void cut(const struct disk_file files[RECORDING_FILES], enum way way, uint64_t seed)
{
    for (int i = 0; i < RECORDING_FILES; i++) {
        char path[128];
        AUTO_STR s = {0};
        str_append(&s, str_get(&files[i].synced), files[i].synced.n);
        for (int j = 0; j < files[i].n_waiting; j++)
            if (survives(way, i, files[i].waiting[j], seed))
                apply(&s, files[i].waiting[j], way == ANY_SECTORS, seed);
        snprintf(path, sizeof path, "%s/cut/%s", folder, recording_names[i]);
        unlink(path);
        FILE *f = s.n ? fopen(path, "wb") : NULL;
        if (s.n && (!f || fwrite(s.data, 1, s.n, f) != s.n || fclose(f))) abort();
    }
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* How far the chat had come. */
struct progress {
    int n_done; /* steps */
    bool said;  /* the next one's text was acknowledged */
};

static void advance(struct progress *p, size_t at)
{
    struct recording r;
    memcpy(&r, record.data + at, sizeof r);
    if (r.kind != RECORDING_OUTPUT) return;
    const char *text = record.data + at + sizeof r;
    if (r.file == 2 && memmem(text, r.n, MARK_LINE, strlen(MARK_LINE))) {
        p->n_done++;
        p->said = false;
    } else if (r.file == 1 && p->n_done < STEPS && steps[p->n_done].says) {
        p->said = true;
    }
}

static int add_message(void *ctx, const struct store_message *m)
{
    str_append(ctx, m->text, m->n_text);
    str_puts(ctx, "\n");
    return 0;
}

/* The messages of "kept"; empty: there is no such conversation. */
static void read_texts(const char *path, struct str *out)
{
    struct store *s;
    struct store_conversation c;
    int rc = store_open(&s, path, NULL, &err);
    if (!rc) rc = store_check(s, &err);
    if (!rc) rc = store_conversation_find(s, "kept", &c, &err);
    if (rc > 0) rc = store_message_each(s, c.id, add_message, out, &err);
    store_close(s);
    if (rc) fail_msg("%s", err.text);
}

static bool holds(int step, const char *text)
{
    bool found = step < 0;
    for (int i = 0; i < 3 && step >= 0 && steps[step].texts[i]; i++)
        found |= !strcmp(steps[step].texts[i], text);
    return found;
}

/* The texts of the last step that was done, and not removed by the next one, are there. */
static void assert_kept(const struct progress *p, const struct str *texts, const struct str *final)
{
    int done = p->n_done + p->said - 1, next = done + 1 < STEPS ? done + 1 : -1;
    if (p->n_done == STEPS) assert_string_equal(str_get(texts), final->data);
    for (int i = 0; i < 3 && done >= 0 && steps[done].texts[i]; i++) {
        const char *text = steps[done].texts[i];
        if (holds(next, text) && !strstr(str_get(texts), text))
            fail_msg("\"%s\" is lost after step %d: %s", text, done + 1, str_get(texts));
    }
    /* The first answer, too. */
    const char *end = strchr(strchr(final->data, '\n') + 1, '\n') + 1;
    size_t n = p->n_done > 0 ? (size_t)(end - final->data) : 0;
    assert_true(texts->n >= n && !memcmp(str_get(texts), final->data, n));
}

static size_t record_end(size_t at)
{
    struct recording r;
    memcpy(&r, record.data + at, sizeof r);
    return at + sizeof r + r.n;
}

TEST(acknowledged_texts_survive)
{
    static struct disk_file files[RECORDING_FILES];
    const char *cuts = getenv("CUTS");
    int n_cuts = cuts ? atoi(cuts) : 40, n_records = 0, n = 0, n_tried = 0;
    struct progress p = {0};
    AUTO_STR final = {0}, texts = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/files/db", folder);
    read_texts(path, &final);
    snprintf(path, sizeof path, "%s/cut/db", folder);
    str_append(&files[0].synced, whole[0].data, whole[0].n);
    for (size_t at = 0; at < record.n; at = record_end(at)) n_records++;
    for (size_t at = 0; at < record.n; at = record_end(at), n++) {
        take(files, at);
        advance(&p, at);
        bool tried = n_cuts == 0 || n * n_cuts / n_records != (n + 1) * n_cuts / n_records;
        int way = n_cuts ? n_tried % WAYS : 0, end = n_cuts ? way + 1 : WAYS;
        for (; tried && way < end; way++) {
            cut(files, (enum way)way, (uint64_t)n);
            str_clear(&texts);
            read_texts(path, &texts);
            assert_kept(&p, &texts, &final);
            shell("rm -f %s/cut/*", folder);
            n_tried++;
        }
    }
    print_message("%d records, %d cuts\n", n_records, n_tried);
    assert_int_equal(p.n_done, STEPS);
    for (int i = 0; i < RECORDING_FILES; i++) str_release(&files[i].synced);
}

AROUND_TESTS(setup, teardown)
