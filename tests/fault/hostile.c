/* hostile RETAIN N [FIRST]: N mutated databases and exports, each given to commands that read it.
 * None crashes, hangs or sends a control character to the terminal; each ends with a status of the
 * manual, and if that is not 0 with one line. For a RETAIN with sanitizers (make hostile), whose
 * reports count as crashes. File i is always the same; the first wrong ones are kept. */
#include <limits.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "tests/fault/program_kit.h"

#define CPU_S    5   /* a command that computes longer hangs */
#define WALL_S   120 /* on a busy machine */
#define STATUS   99  /* of a sanitizer's report */
#define KEEP_MAX 20

static char program[PATH_MAX], folder[64];
static uint32_t file_number, n_drawn;

static uint32_t random_below(uint32_t n)
{
    return (uint32_t)(random_at(file_number, 0, n_drawn++) * n);
}

/* ---- mutating -------------------------------------------------------------------------------- */

static const char *const texts[] = {"\x1b]0;PWN\a",
                                    "\x1b[2J",
                                    ("\xc2\x9b"
                                     "31m"),
                                    "a\nb\rc",
                                    "\xff\xfe",
                                    "\xe2\x80\xae",
                                    "",
                                    "x'); DROP TABLE"};
static const char *const numbers[] = {
    "-1", "0", "9223372036854775807", "-9223372036854775808", "2147483648", "1e308", "NULL", "'x'"};

#define PICK(of) of[random_below(sizeof of / sizeof *of)]

static void value(char out[128])
{
    const char *text = PICK(texts);
    switch (random_below(4)) {
    case 0: sqlite3_snprintf(128, out, "%s", PICK(numbers)); return;
    case 1: sqlite3_snprintf(128, out, "%Q", text); return;
    case 2: sqlite3_snprintf(128, out, "zeroblob(%u)", random_below(70000)); return;
    default: sqlite3_snprintf(128, out, "randomblob(%u)", random_below(300)); return;
    }
}

/* Changes rows as a program that knows the tables can. */
static void change_rows(const char *path)
{
    static const char list[] = "SELECT t.name, c.name FROM sqlite_schema t, "
                               "pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY 1, 2";
    char sql[512], what[128], **columns;
    sqlite3 *db;
    int n_columns;
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_get_table(db, list, &columns, &n_columns, NULL, NULL) != SQLITE_OK)
        exit(1);
    for (uint32_t n = 1 + random_below(3); n > 0; n--) {
        char **column = columns + 2 + 2 * random_below((uint32_t)n_columns); /* after the heads */
        value(what);
        if (random_below(6) == 0)
            sqlite3_snprintf(sizeof sql, sql, "DELETE FROM %s WHERE rowid %% 2 = %u", column[0],
                             random_below(2));
        else
            sqlite3_snprintf(sizeof sql, sql,
                             "UPDATE OR IGNORE %s SET %s = %s WHERE rowid %% 3 = %u", column[0],
                             column[1], what, random_below(3));
        sqlite3_exec(db, sql, NULL, NULL, NULL); /* some are refused */
    }
    sqlite3_free_table(columns);
    sqlite3_close(db);
}

/* Overwrites, moves and cuts bytes. */
static void change_bytes(struct str *s)
{
    for (uint32_t n = 1 + random_below(12); n > 0 && s->n > 8; n--) {
        size_t at = random_below((uint32_t)s->n), to = random_below((uint32_t)s->n);
        size_t page = s->n > 8192 ? 4096 : 16;
        switch (random_below(8)) {
        case 0: s->n = random_below(4) ? s->n : at; break;
        case 1:
            if (at + page <= s->n && to + page <= s->n) memmove(s->data + to, s->data + at, page);
            break;
        case 2: s->data[at] = (char)0xff; break;
        case 3: s->data[at] = 0; break;
        case 4:
            s->data[random_below(at < 100 ? 100 : 4096) % s->n] ^= (char)(1 << random_below(8));
            break;
        default: s->data[at] = (char)random_below(256); break;
        }
    }
}

/* Replaces a word or number of a JSON text. */
static void change_json(struct str *s)
{
    static const char *const words[] = {"-1",          "1e999",       "[]",
                                        "{}",          "null",        "\"\\u001b]0;PWN\\u0007\"",
                                        "\"\\u0000\"", "\"\\ud800\"", "99999999999999999999",
                                        "\"\""};
    for (uint32_t n = 1 + random_below(3); n > 0; n--) {
        struct str out = {0};
        size_t at = random_below((uint32_t)s->n), end;
        while (at < s->n && s->data[at] != ':' && s->data[at] != '[') at++;
        for (end = at + 1; end < s->n && !strchr(",]}", s->data[end]);) end++;
        if (end >= s->n) continue;
        str_append(&out, s->data, at + 1);
        str_puts(&out, PICK(words));
        str_append(&out, s->data + end, s->n - end);
        str_release(s);
        *s = out;
    }
}

static void write_file(const char *path, const struct str *s)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(str_get(s), 1, s->n, f) != s->n || fclose(f)) exit(1);
}

/* Makes file number i in the folder "try"; whether it is a database. */
static bool make(uint32_t i)
{
    static const char *const databases[] = {"plain.db", "cache.db", "old.db"};
    static const char *const exports[] = {"kept.json", "tail.json"};
    char from[128], path[128];
    struct str s = {0};
    struct err e;
    file_number = i;
    n_drawn = 0;
    bool database = i % 5 < 4;
    snprintf(from, sizeof from, "%s/seeds/%s", folder, database ? PICK(databases) : PICK(exports));
    snprintf(path, sizeof path, "%s/try/file", folder);
    shell("rm -rf %s/try; mkdir %s/try", folder, folder);
    if (file_read(from, FILE_DATA, &s, &e)) exit(1);
    if (!database && random_below(2))
        change_json(&s);
    else if (!database || i % 2)
        change_bytes(&s);
    write_file(path, &s);
    if (database && i % 2 == 0) change_rows(path);
    str_release(&s);
    return database;
}

/* ---- running --------------------------------------------------------------------------------- */

static const char chat_input[] = "Hello\n/stats\n";

static void become_limited(const char *arguments)
{
    const struct rlimit cpu = {CPU_S, CPU_S + 1};
    char dir[80];
    snprintf(dir, sizeof dir, "%s/try", folder);
    setenv("ASAN_OPTIONS", "detect_leaks=0:exitcode=99:allocator_may_return_null=1", 1);
    setenv("UBSAN_OPTIONS", "halt_on_error=1:exitcode=99:print_stacktrace=1", 1);
    setrlimit(RLIMIT_CPU, &cpu);
    alarm(WALL_S);
    become(dir, program, arguments, chat_input, NULL);
}

/* Whether it would reach a terminal as something else than text. */
static bool has_controls(const struct str *s)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->data[i];
        unsigned char next = i + 1 < s->n ? (unsigned char)s->data[i + 1] : 0;
        if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f) return true;
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) return true;
    }
    return false;
}

static bool is(const char *arguments, const char *command)
{
    return !strncmp(arguments, command, strlen(command));
}

/* An import may end with 2: the name in the file may be taken or invalid, for which another one can
 * be given. An export to a file holds the bytes of the messages. */
static const char *judge(int status, const char *arguments)
{
    char path[128];
    struct str out = {0}, said = {0};
    struct err e;
    const char *why = NULL;
    snprintf(path, sizeof path, "%s/try/out", folder);
    if (file_read(path, FILE_DATA, &out, &e)) exit(1);
    snprintf(path, sizeof path, "%s/try/err", folder);
    if (file_read(path, FILE_DATA, &said, &e)) exit(1);
    int code = WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        why = WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL ? "hangs" : "a signal";
    else if (code == STATUS)
        why = "a sanitizer's report";
    else if (code > 4 || (code == 2 && !is(arguments, "import")))
        why = "the exit status";
    else if ((!is(arguments, "export") && has_controls(&out)) || has_controls(&said))
        why = "a control character";
    else if (code && !strstr(str_get(&said), "retain: "))
        why = "no line";
    str_release(&out);
    str_release(&said);
    return why;
}

static bool run(uint32_t i, const char *arguments)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) become_limited(arguments);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    const char *why = judge(status, arguments);
    if (why) printf("file %u, retain %s: %s (status %x)\n", i, arguments, why, status);
    fflush(stdout);
    return !why;
}

/* Gives file i to some commands. */
static bool try(uint32_t i)
{
    static const char *const readers[] = {
        "list --db file",          "show kept --db file",     "export kept --json --db file",
        "search locker --db file", "tag kept rose --db file", "compact --db file",
        "delete kept --db file"};
    static const char chat[] = "chat --plain --db file -c kept --threads 1 --temp 0 --seed 1 -n 4 "
                               "--budget 64";
    if (!make(i)) return run(i, "import file --db new") && run(i, "list --db new");
    bool right = run(i, i % 3 ? "import file --db new" : "export kept --with-cache new --db file");
    return run(i, PICK(readers)) && right && run(i, i % 4 ? "check --db file" : chat);
}

/* ---- the files ------------------------------------------------------------------------------- */

static void make_seeds(void)
{
    shell("mkdir %s/seeds; cd %s/seeds; export HOME=. XDG_STATE_HOME=state XDG_CACHE_HOME=cache "
          "XDG_CONFIG_HOME=config; chat='%s chat --plain --db plain.db --threads 1 --temp 0 "
          "--seed 1 -n 8 --budget 48'; exec 2>/dev/null >/dev/null; "
          "printf 'My locker code is 48213.\\nTell me a joke.\\nWhat is my locker code?\\n' | "
          "$chat -c kept; printf 'Hello\\n' | $chat -c spare; printf 'Hi\\n/branch twig\\n' | "
          "$chat -c stem; %s tag kept rose --db plain.db; %s export kept --json --db plain.db "
          ">kept.json; %s export stem --json --db plain.db >tail.json; %s export kept "
          "--with-cache cache.db --db plain.db; "
          "sqlite3 plain.db 'PRAGMA wal_checkpoint(TRUNCATE)' || true",
          folder, folder, program, program, program, program, program);
    shell("cp %s/seeds/cache.db %s/seeds/old.db", folder, folder);
}

static void make_old(void)
{
    char path[128];
    struct str sql = {0};
    struct err e;
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/seeds/old.db", folder);
    unlink(path);
    if (file_read("tests/golden/store-v6.sql", FILE_DATA, &sql, &e) || sqlite3_open(path, &db) ||
        sqlite3_exec(db, sql.data, NULL, NULL, NULL))
        exit(1);
    sqlite3_close(db);
    str_release(&sql);
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0, n_wrong = 0;
    uint32_t first = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    if (!n || !realpath(argv[1], program)) return 2;
    snprintf(folder, sizeof folder, "/tmp/retain_hostile_XXXXXX");
    if (!mkdtemp(folder)) return 1;
    make_seeds();
    make_old();
    for (uint32_t i = first; i < first + n; i++) {
        if (try(i)) continue;
        if (++n_wrong <= KEEP_MAX) shell("cp -r %s/try %s/wrong-%u", folder, folder, i);
    }
    printf("hostile: %u files, %u in which something was wrong%s%s\n", n, n_wrong,
           n_wrong ? "; see " : "", n_wrong ? folder : "");
    if (!n_wrong) shell("rm -r %s", folder);
    return n_wrong > 0;
}
