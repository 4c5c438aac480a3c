/* gguf, split models: the parts that the gguf package wrote (tests/golden/make_split.py) are the
 * model that they were made of. */

#include "tests/test.h"

#include <sys/stat.h>

#include "base/digest.h"
#include "base/file.h"
#include "runtime/model/gguf.h"

#define WHOLE "build/golden/families/llama3.gguf"
#define PARTS "build/golden/split/llama3"

static const char *folder;

/* Copies part `from`, counted from 1, to folder/NAME. */
static const char *copy(int from, const char *name)
{
    char source[128];
    AUTO_STR bytes = {0};
    snprintf(source, sizeof source, PARTS "-%05d-of-00003.gguf", from);
    assert_int_equal(file_read(source, FILE_DATA, &bytes, NULL), 0);
    return write_file(path_in(folder, name), bytes.data, bytes.n);
}

static void expect(const char *path, const char *message)
{
    struct gguf *g;
    refused(gguf_open(&g, path, &err), ERR_FORMAT, message);
    assert_null(g);
}

TEST(has_every_tensor_of_its_parts)
{
    AUTO_GGUF *whole, *split;
    ok(gguf_open(&whole, WHOLE, &err));
    ok(gguf_open(&split, PARTS "-00001-of-00003.gguf", &err));
    assert_int_equal(gguf_n_tensors(split), gguf_n_tensors(whole));
    for (size_t i = 0; i < gguf_n_tensors(whole); i++) {
        const struct gguf_tensor *a = gguf_tensor_at(whole, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)a->name.n, a->name.data);
        const struct gguf_tensor *b = gguf_tensor_find(split, name);
        assert_non_null(b);
        assert_int_equal(a->type, b->type);
        assert_memory_equal(a->ne, b->ne, sizeof a->ne);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
        gguf_forget(split, b->data, b->bytes, true);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
}

TEST(has_the_bytes_of_its_parts)
{
    AUTO_GGUF *split;
    size_t n;
    ok(gguf_open(&split, PARTS "-00001-of-00003.gguf", &err));
    const char *bytes = gguf_bytes(split, &n);
    size_t at = 0;
    for (int i = 1; i <= 3; i++) {
        char path[128];
        AUTO_STR part = {0};
        snprintf(path, sizeof path, PARTS "-%05d-of-00003.gguf", i);
        ok(file_read(path, FILE_DATA, &part, &err));
        assert_memory_equal(bytes + at, part.data, part.n);
        for (at += part.n; at % (64 << 10); at++) assert_int_equal(bytes[at], 0);
    }
    assert_int_equal(at, n);
}

TEST(needs_all_parts_in_order)
{
    struct gguf *g;
    char first[128];
    snprintf(first, sizeof first, "%s", copy(1, "m-00001-of-00003.gguf"));
    copy(2, "m-00002-of-00003.gguf");
    expect(first, "m-00003-of-00003.gguf: No such file");
    copy(2, "m-00003-of-00003.gguf");
    expect(first, "is not part 3 of 3");
    const char *third = copy(3, "m-00003-of-00003.gguf");
    ok(gguf_open(&g, first, &err));
    gguf_close(g);
    expect(third, "is part 3 of 3 of a model; name the first part");
    assert_int_equal(truncate(third, 20000), 0);
    expect(first, "m-00003-of-00003.gguf");
    expect(copy(1, "other.gguf"), "must end in -00001-of-00003.gguf");
}

TEST(is_one_file_to_the_register)
{
    struct file_identity before, after;
    char first[128];
    snprintf(first, sizeof first, "%s", copy(1, "i-00001-of-00003.gguf"));
    copy(2, "i-00002-of-00003.gguf");
    assert_int_equal(file_identity_read(&before, first, NULL), ERR_FORMAT);
    const char *third = copy(3, "i-00003-of-00003.gguf");
    assert_int_equal(file_identity_read(&before, first, NULL), 0);
    assert_int_equal(truncate(third, 100), 0);
    assert_int_equal(file_identity_read(&after, first, NULL), 0);
    assert_false(file_identity_same(&before, &after));
    assert_true(after.size < before.size && after.mtime_ns >= before.mtime_ns);
}

/* Before a download: descriptions of all tensors, data of none. */
TEST(opens_the_starts_of_files)
{
    struct gguf *whole, *g;
    struct str part[3] = {0};
    struct gguf_start start[3];
    char name[3][128];
    for (int i = 0; i < 3; i++) {
        snprintf(name[i], sizeof name[i], PARTS "-%05d-of-00003.gguf", i + 1);
        ok(file_read(name[i], FILE_DATA, &part[i], &err));
        start[i] = (struct gguf_start){part[i].data, part[i].n - 20000, name[i]};
    }
    ok(gguf_open(&whole, WHOLE, &err));
    ok(gguf_open_starts(&g, start, 3, &err));
    assert_int_equal(gguf_n_tensors(g), gguf_n_tensors(whole));
    assert_null(gguf_tensor_at(g, 0)->data);
    gguf_close(g);
    start[1].n = 100;
    refused(gguf_open_starts(&g, start, 3, &err), ERR_FORMAT, "ends inside");
    gguf_close(whole);
    for (int i = 0; i < 3; i++) str_release(&part[i]);
}

static int make_folder(void **state)
{
    folder = folder_new();
    return 0;
}

AROUND_TESTS(make_folder, NULL)
