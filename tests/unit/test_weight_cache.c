/* Copies of the packed weights: a mapped copy equals the packed model file, and other files in the
 * folder are never trusted. */
#include "tests/test.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "cli/options/options.h"
#include "runtime/forward/engine.h"
#include "runtime/model/weight_cache.h"

#define MODEL "quant/demo/retain-demo.gguf"

static const char *folder, *dir, *model; /* the writer of the first copy creates dir */
static struct options opts;

static void copy_file(const char *from, const char *to)
{
    char command[256];
    snprintf(command, sizeof command, "cp %s %s", from, to);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
    folder = folder_new();
    dir = path_in(folder, "a/packed");
    model = path_in(folder, "model.gguf");
    copy_file(MODEL, model);
    options_init(&opts);
    opts.engine.model = model;
    opts.engine.weight_cache_dir = dir;
    opts.engine.heads.none = true;
    opts.engine.device.kind = ENGINE_DEVICE_CPU;
    opts.engine.verify = IDENTITY_VERIFY_OFF;
    opts.engine.threads = 2;
    return 0;
}

static struct engine *open_engine(void)
{
    struct engine *g;
    ok(engine_open(&g, &opts.engine, &opts.session.plan, 1, NULL, NULL, &err));
    return g;
}

static struct file_identity identity(const char *path)
{
    struct file_identity m = {0};
    struct stat st;
    char *real = realpath(path, NULL);
    assert_non_null(real);
    assert_int_equal(stat(real, &st), 0);
    snprintf(m.path, sizeof m.path, "%s", real);
    free(real);
    m.size = st.st_size;
    m.mtime_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
    m.inode = (int64_t)st.st_ino;
    memset(m.digest, 7, sizeof m.digest);
    return m;
}

static struct weight_cache wait_for_copy(const struct file_identity *m)
{
    struct weight_cache p;
    for (int i = 0; i < 6000; i++) {
        if (weight_cache_find(&p, dir, m)) return p;
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    fail_msg("no copy after a minute");
    return p;
}

/* The copy of the weights that an engine loaded. */
static struct weight_cache write_copy(const struct engine *g, const char *path)
{
    struct file_identity m = identity(path);
    struct weight_cache_writer *w = weight_cache_write_begin(dir, &m, &g->weights);
    assert_non_null(w);
    struct weight_cache p = wait_for_copy(&m);
    weight_cache_write_end(w);
    assert_int_equal(p.bytes, g->weights.bytes);
    return p;
}

static void flip(const char *path, off_t at)
{
    uint8_t byte;
    assert_int_equal(chmod(path, 0600), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 16;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void same_weights(const struct engine *a, const struct engine *b)
{
    assert_int_equal(a->weights.bytes, b->weights.bytes);
    assert_memory_equal(a->weights.base, b->weights.base, a->weights.bytes);
}

/* ---- mapping --------------------------------------------------------------------------------- */

TEST_WITH(test_maps_what_was_packed, set_up, NULL)
{
    static const char *const files[] = {
        MODEL,
        "build/golden/families/llama.gguf",
        "build/golden/families/phi3-partial.gguf",
        "build/golden/families/qwen3.gguf",
        "build/golden/families/deepseek2-joined.gguf",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        copy_file(files[i], model);
        AUTO_ENGINE *packed = open_engine();
        assert_int_equal(packed->weight_cache.bytes, 0);
        write_copy(packed, model);
        AUTO_ENGINE *mapped = open_engine();
        assert_int_equal(mapped->weight_cache.bytes, mapped->weights.bytes);
        same_weights(packed, mapped);
        assert_string_equal(mapped->model_digest, "070707070707070707070707070707070707070707070707"
                                                  "0707070707070707");
    }
}

/* A whole file is read for its digest if something is compared with it: a registry, heads. */
TEST_WITH(test_digest_that_nobody_wants, set_up, NULL)
{
    static const enum identity_verify verify[] = {IDENTITY_VERIFY_SAMPLE, IDENTITY_VERIFY_FULL};
    for (int i = 0; i < 2; i++) {
        opts.engine.weight_cache_dir = NULL;
        opts.engine.verify = verify[i];
        AUTO_ENGINE *g = open_engine();
        assert_int_equal(!strncmp(g->model_digest, "unread-", 7), i == 0);
        engine_close(g);
        ok(engine_prepare(&g, &opts.engine, &err));
        assert_int_equal(strlen(g->model_digest), 64);
    }
}

/* A process that maps a copy keeps it, whatever happens to the file. */
TEST_WITH(test_removed_while_mapped, set_up, NULL)
{
    AUTO_ENGINE *packed = open_engine();
    struct weight_cache p = write_copy(packed, model);
    AUTO_ENGINE *mapped = open_engine();
    weight_cache_remove(&p);
    same_weights(packed, mapped);
    AUTO_ENGINE *again = open_engine();
    assert_int_equal(again->weight_cache.bytes, 0);
    same_weights(packed, again);
}

/* ---- refused copies -------------------------------------------------------------------------- */

/* Loads with the present copy: it must be refused and removed. */
static void refuses(const struct engine *packed, const struct weight_cache *p)
{
    struct engine *g = open_engine();
    assert_int_equal(g->weight_cache.bytes, 0);
    same_weights(packed, g);
    engine_close(g);
    assert_int_not_equal(access(p->path, F_OK), 0);
}

TEST_WITH(test_damaged, set_up, NULL)
{
    AUTO_ENGINE *packed = open_engine();
    struct weight_cache p = write_copy(packed, model);
    const off_t bytes = (off_t)p.bytes;
    struct stat st;
    assert_int_equal(stat(p.path, &st), 0);
    /* the footer: no byte of it may change */
    for (off_t at = bytes; at < st.st_size; at += 97) {
        flip(p.path, at);
        struct weight_cache none;
        struct file_identity m = identity(model);
        assert_false(weight_cache_find(&none, dir, &m));
        flip(p.path, at);
    }
    AUTO_ENGINE *mapped = open_engine();
    assert_int_equal(mapped->weight_cache.bytes, p.bytes);
}

/* Vectors are compared at each start. */
TEST_WITH(test_other_weights, set_up, NULL)
{
    AUTO_ENGINE *packed = open_engine();
    const struct model_layer *layer = &packed->model->layers[0];
    struct weight_cache p = write_copy(packed, model);
    flip(p.path, (const char *)layer->attn_norm - packed->weights.base);
    refuses(packed, &p);
}

/* Waits for the end of a check of the copy; its result. */
static int64_t checked(const struct weight_cache *p, const struct engine *mapped, bool *whole)
{
    struct weight_check *c = weight_check_begin(p, &mapped->weights, false, 0);
    assert_non_null(c);
    while (weight_check_damage(c) < 0 && !weight_check_is_whole(c))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const int64_t at = weight_check_damage(c);
    *whole = weight_check_is_whole(c);
    weight_check_end(c);
    return at;
}

/* One byte of any page is found while the copy is in use, and the copy is removed. */
TEST_WITH(test_damaged_page_is_found, set_up, NULL)
{
    bool whole;
    uint32_t random = 1;
    AUTO_ENGINE *packed = open_engine();
    for (int i = 0; i < 20; i++) {
        struct weight_cache p = write_copy(packed, model);
        AUTO_ENGINE *mapped = open_engine();
        random = random * 1664525 + 1013904223;
        const size_t at = i ? random % p.bytes : p.bytes - 1;
        assert_int_equal(checked(&p, mapped, &whole), -1);
        assert_true(whole);
        flip(p.path, (off_t)at);
        assert_int_equal(checked(&p, mapped, &whole), at >> 20 << 20);
        assert_int_not_equal(access(p.path, F_OK), 0);
    }
}

TEST_WITH(test_every_byte_is_checked, set_up, NULL)
{
    AUTO_ENGINE *g;
    AUTO_ENGINE *packed = open_engine();
    struct weight_cache p = write_copy(packed, model);
    ok(engine_prepare(&g, &opts.engine, &err));
    assert_int_equal(engine_check_copy(g, &opts.engine), ENGINE_COPY_SAME);
    const struct kn_weight *down = &packed->model->layers[packed->model->n_layer - 1].down;
    flip(p.path, (const char *)down->data - packed->weights.base + 1001);
    assert_int_equal(engine_check_copy(g, &opts.engine), ENGINE_COPY_REMOVED);
    assert_int_equal(engine_check_copy(g, &opts.engine), ENGINE_COPY_NONE);
}

/* Experts stay in a copy that is made for them: the same weights, of which no more is in memory. A
 * private chat uses the copy, but makes none. */
TEST_WITH(test_experts_in_file, set_up, NULL)
{
    struct engine *none;
    copy_file("build/golden/families/qwen3moe.gguf", model);
    opts.engine.weight_cache_dir = NULL;
    AUTO_ENGINE *other = open_engine();
    opts.engine.weight_cache_dir = dir;
    opts.engine.verify = IDENTITY_VERIFY_SAMPLE;
    opts.engine.experts = ENGINE_EXPERTS_FILE;
    opts.engine.leaves_no_copy = true;
    refused(engine_open(&none, &opts.engine, &opts.session.plan, 1, NULL, NULL, &err), ERR_USAGE,
            "a private chat does not write");
    for (int i = 0; i < 2; i++) {
        opts.engine.leaves_no_copy = i > 0;
        AUTO_ENGINE *g = open_engine();
        same_weights(g, other);
        assert_int_equal(g->weight_cache.bytes, g->weights.bytes);
    }
}

TEST_WITH(test_torn, set_up, NULL)
{
    AUTO_ENGINE *packed = open_engine();
    struct weight_cache p = write_copy(packed, model), none;
    struct file_identity m = identity(model);
    struct stat st;
    assert_int_equal(stat(p.path, &st), 0);
    assert_int_equal(chmod(p.path, 0600), 0);
    const off_t lengths[] = {st.st_size - 1, (off_t)p.bytes, 4096, 1, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(truncate(p.path, lengths[i]), 0);
        assert_false(weight_cache_find(&none, dir, &m));
    }
    /* a new one replaces it */
    write_copy(packed, model);
}

TEST_WITH(test_another_model, set_up, NULL)
{
    struct weight_cache none;
    AUTO_ENGINE *packed = open_engine();
    struct weight_cache p = write_copy(packed, model);
    struct file_identity m = identity(model), other = m;
    other.mtime_ns++;
    assert_false(weight_cache_find(&none, dir, &other));
    other = m;
    other.inode++;
    assert_false(weight_cache_find(&none, dir, &other));
    other = m;
    other.size++;
    assert_false(weight_cache_find(&none, dir, &other));
    other = m;
    other.path[strlen(other.path) - 1] = 'x';
    assert_false(weight_cache_find(&none, dir, &other));
    /* another file with the same path, size and times, but other weights */
    flip(model, m.size - 5);
    struct stat st;
    assert_int_equal(stat(p.path, &st), 0);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {m.mtime_ns / 1000000000, m.mtime_ns % 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, model, times, 0), 0);
    assert_true(weight_cache_find(&none, dir, &m));
    AUTO_ENGINE *g;
    ok(engine_prepare(&g, &opts.engine, &err));
    assert_int_equal(engine_check_copy(g, &opts.engine), ENGINE_COPY_REMOVED);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int count(void *ctx, const struct weight_cache *p)
{
    ++*(int *)ctx;
    return 0;
}

static int n_files(void)
{
    char command[128];
    int n = -1;
    snprintf(command, sizeof command, "ls -A %s 2>/dev/null | wc -l", dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* An abandoned writer leaves nothing; two at once leave one copy. */
TEST_WITH(test_writers, set_up, NULL)
{
    int n = 0;
    AUTO_ENGINE *g = open_engine();
    struct file_identity m = identity(model);
    weight_cache_write_end(weight_cache_write_begin(dir, &m, &g->weights));
    weight_cache_list(dir, count, &n);
    assert_int_equal(n_files(), n); /* it may have been finished already */
    struct weight_cache_writer *a = weight_cache_write_begin(dir, &m, &g->weights);
    struct weight_cache_writer *b = weight_cache_write_begin(dir, &m, &g->weights);
    wait_for_copy(&m);
    weight_cache_write_end(a);
    weight_cache_write_end(b);
    wait_for_copy(&m);
    assert_int_equal(n_files(), 1);
}

/* A file that is being written belongs to its writer; one without a writer was left by a crash. */
TEST_WITH(test_parts, set_up, NULL)
{
    AUTO_ENGINE *g = open_engine();
    struct file_identity m = identity(model);
    struct weight_cache p = write_copy(g, model);
    const char *path = path_in(dir, "dead.packed.part"), *other = path_in(dir, "alive.packed.part");
    char mine[4200];
    snprintf(mine, sizeof mine, "%s.part", p.path);
    int left = open(path, O_WRONLY | O_CREAT, 0600), held = open(other, O_WRONLY | O_CREAT, 0600);
    assert_true(left >= 0 && held >= 0);
    assert_int_equal(write(held, "units", 5), 5);
    assert_int_equal(flock(held, LOCK_EX), 0);
    close(left);
    weight_cache_remove(&p);
    write_copy(g, model);
    assert_int_not_equal(access(path, F_OK), 0);
    struct stat st;
    assert_int_equal(stat(other, &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(n_files(), 2);
    /* while another process writes the same copy, a second writer gives up */
    weight_cache_remove(&p);
    int theirs = open(mine, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(theirs, "units", 5), 5);
    assert_int_equal(flock(theirs, LOCK_EX), 0);
    weight_cache_write_end(weight_cache_write_begin(dir, &m, &g->weights));
    assert_false(weight_cache_find(&p, dir, &m));
    assert_int_equal(stat(mine, &st), 0);
    assert_int_equal(st.st_size, 5);
    close(theirs);
    write_copy(g, model);
    assert_int_not_equal(access(mine, F_OK), 0);
    close(held);
}

static const char *copy_named(const char *name)
{
    char file[32];
    snprintf(file, sizeof file, "%s.packed", name);
    return path_in(dir, file);
}

/* A copy with this size of weights (none of them on disk) that was last used at this time. Only
 * what is after them is read. */
static void make_copy(const struct weight_cache *like, const char *name, off_t bytes, time_t used)
{
    enum { BYTES = 16, END = 24 + sizeof(struct file_identity), FOOTER = END + 2 * DIGEST_BYTES };
    uint8_t footer[FOOTER];
    struct stat st;
    assert_int_equal(stat(like->path, &st), 0);
    int fd = open(like->path, O_RDONLY);
    assert_int_equal(pread(fd, footer, FOOTER, st.st_size - FOOTER), FOOTER);
    close(fd);
    const size_t n = ((size_t)bytes + (1 << 20) - 1) / (1 << 20) * DIGEST_BYTES;
    AUTO_FREE uint8_t *digests = calloc(n, 1);
    memcpy(footer + BYTES, &bytes, sizeof bytes);
    digest_make(footer + END, digests, n);
    digest_make(footer + END + DIGEST_BYTES, footer, END + DIGEST_BYTES);
    fd = open(copy_named(name), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(pwrite(fd, digests, n, bytes), (ssize_t)n);
    assert_int_equal(pwrite(fd, footer, FOOTER, bytes + (off_t)n), FOOTER);
    assert_int_equal(futimens(fd, (struct timespec[2]){{used, 0}, {used, 0}}), 0);
    close(fd);
}

static off_t free_bytes(void)
{
    struct statvfs fs;
    assert_int_equal(statvfs(folder, &fs), 0);
    return (off_t)fs.f_bavail * (off_t)fs.f_frsize;
}

/* Three copies take more than a quarter of the free space, two do not: the oldest is removed.
 * Retried when another program fills or clears the disk. */
TEST_WITH(test_oldest_first, set_up, NULL)
{
    off_t before, after;
    AUTO_ENGINE *g = open_engine();
    do {
        struct weight_cache p = write_copy(g, model);
        before = free_bytes();
        make_copy(&p, "newest", before * 10 / 73, 3000);
        make_copy(&p, "oldest", before * 10 / 73, 1000);
        make_copy(&p, "middle", before * 10 / 73, 2000);
        weight_cache_remove(&p);
        write_copy(g, model);
        after = free_bytes();
    } while (after < before - before / 20 || after > before + before / 20);
    assert_int_equal(access(copy_named("newest"), F_OK), 0);
    assert_int_equal(access(copy_named("middle"), F_OK), 0);
    assert_int_not_equal(access(copy_named("oldest"), F_OK), 0);
}

TEST_WITH(test_room, set_up, NULL)
{
    const char *path = path_in(model, "below");
    ok(weight_cache_room(dir, (size_t)free_bytes() / 8, &err));
    assert_int_equal(weight_cache_room(dir, (size_t)free_bytes() / 2, &err), ERR_FAIL);
    /* an impossible folder: nothing is written, and nothing fails */
    assert_int_equal(weight_cache_room(path, 1, &err), ERR_FAIL);
    opts.engine.weight_cache_dir = path;
    AUTO_ENGINE *g = open_engine();
    struct file_identity m = identity(model);
    weight_cache_write_end(weight_cache_write_begin(path, &m, &g->weights));
}
