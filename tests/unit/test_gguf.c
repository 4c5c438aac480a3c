/* gguf: finds everything in a file, and answers every damaged file with an error line only. */

#include "tests/test.h"

#include <dirent.h>

#include "tests/unit/data.h"
#include "tests/unit/make_gguf.h"

/* One key of every kind, two tensors. */
static void make_sample(struct maker *m)
{
    int64_t ne_a[] = {64, 3}, ne_b[] = {5};
    uint8_t u8 = 200;
    int64_t i64 = -5;
    uint64_t u64 = UINT64_MAX;
    double f64 = 0.5;
    float f32 = 1.5f;
    *m = (struct maker){0};
    maker_str(m, "general.architecture", "llama");
    maker_u32(m, "u32", 7);
    maker_value(m, "u8", GGUF_U8, &u8, 1);
    maker_value(m, "i64", GGUF_I64, &i64, 8);
    maker_value(m, "u64", GGUF_U64, &u64, 8);
    maker_value(m, "f64", GGUF_F64, &f64, 8);
    maker_value(m, "f32", GGUF_F32, &f32, 4);
    maker_bool(m, "bool", true);
    maker_array(m, "strings", GGUF_STRING, 3);
    put_text(&m->keys, "one", 3);
    put_text(&m->keys, "", 0);
    put_text(&m->keys, "three", 5);
    maker_array(m, "i16s", GGUF_I16, 3);
    str_append(&m->keys, (int16_t[]){1, -2, 3}, 6);
    maker_array(m, "f32s", GGUF_F32, 2);
    str_append(&m->keys, (float[]){0.25f, -4}, 8);
    maker_array(m, "none", GGUF_STRING, 0);
    maker_tensor(m, "b.weight", GGUF_T_Q4_0, 2, ne_a, 6 * 18);
    maker_tensor(m, "a.bias", GGUF_T_F32, 1, ne_b, 20);
    maker_end(m);
}

TEST(finds_metadata)
{
    AUTO_MAKER m;
    AUTO_GGUF *g;
    struct gguf_str s;
    struct gguf_array a;
    uint32_t u;
    float f;
    bool b = false;
    make_sample(&m);
    ok(gguf_open_bytes(&g, m.file.data, m.file.n, "sample", &err));
    assert_true(gguf_get_str(g, "general.architecture", &s));
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.data, "llama", 5);
    assert_true(gguf_get_u32(g, "u32", &u) && u == 7);
    assert_true(gguf_get_u32(g, "u8", &u) && u == 200);
    assert_false(gguf_get_u32(g, "i64", &u)); /* negative */
    assert_false(gguf_get_u32(g, "u64", &u)); /* too large */
    assert_false(gguf_get_u32(g, "f32", &u));
    assert_false(gguf_get_u32(g, "i16s", &u));
    assert_false(gguf_get_u32(g, "absent", &u));
    assert_true(gguf_get_f32(g, "f32", &f) && f == 1.5f);
    assert_true(gguf_get_f32(g, "f64", &f) && f == 0.5f);
    assert_true(gguf_get_bool(g, "bool", &b) && b);
    assert_false(gguf_get_str(g, "strings", &s));
    assert_true(gguf_get_array(g, "strings", &a) && a.n == 3);
    size_t cursor = 0, n = 0, bytes = 0;
    while (gguf_array_next_str(&a, &cursor, &s)) n++, bytes += s.n;
    assert_int_equal(n, 3);
    assert_int_equal(bytes, 8);
    assert_true(gguf_get_array(g, "i16s", &a));
    assert_int_equal(gguf_array_i32(&a, 1), -2);
    assert_int_equal(gguf_array_i32(&a, 3), 0);
    assert_true(gguf_get_array(g, "f32s", &a));
    assert_true(gguf_array_f32(&a, 1) == -4);
    assert_true(gguf_get_array(g, "none", &a) && a.n == 0);
}

TEST(finds_tensors)
{
    AUTO_MAKER m;
    AUTO_GGUF *g;
    make_sample(&m);
    ok(gguf_open_bytes(&g, m.file.data, m.file.n, "sample", &err));
    assert_int_equal(gguf_n_tensors(g), 2);
    const struct gguf_tensor *t = gguf_tensor_find(g, "b.weight");
    assert_ptr_equal(t, gguf_tensor_at(g, 0));
    assert_int_equal(t->ne[0], 64);
    assert_int_equal(t->ne[1], 3);
    assert_int_equal(t->ne[3], 1);
    assert_int_equal(t->bytes, 6 * 18);
    assert_ptr_equal(t->data, m.file.data + m.data_at);
    t = gguf_tensor_find(g, "a.bias");
    assert_ptr_equal(t->data, m.file.data + m.data_at + 128);
    assert_null(gguf_tensor_find(g, "b.weigh"));
    assert_null(gguf_tensor_at(g, 2));
    gguf_forget_data(g); /* the caller's memory must not be released */
    assert_int_equal(*(const char *)t->data, 'x');
}

/* Opens a copy that ends at a page's end, and reads all of it. */
static int open_copy(const char *bytes, size_t n, struct err *e)
{
    char *copy = malloc(n ? n : 1);
    struct gguf *g;
    memcpy(copy, bytes, n);
    int rc = gguf_open_bytes(&g, copy, n, "copy", e);
    volatile char sum = 0;
    for (size_t i = 0; !rc && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (!t->data) continue;
        assert_true((const char *)t->data >= copy && t->bytes <= n);
        sum = (char)(sum + ((const char *)t->data)[0] + ((const char *)t->data)[t->bytes - 1]);
    }
    struct gguf_array a;
    struct gguf_str s;
    size_t cursor = 0;
    if (!rc && gguf_get_array(g, "strings", &a))
        while (gguf_array_next_str(&a, &cursor, &s))
            if (s.n) sum = (char)(sum + s.data[s.n - 1]);
    if (rc) assert_null(g);
    gguf_close(g);
    free(copy);
    return rc;
}

TEST(refuses_every_cut)
{
    AUTO_MAKER m;
    make_sample(&m);
    size_t described = 24 + m.keys.n + m.tensors.n;
    for (size_t n = 0; n < m.file.n; n++) {
        int rc = open_copy(m.file.data, n, &err);
        bool header_only = n == described || n == m.data_at;
        assert_int_equal(rc, header_only ? 0 : ERR_FORMAT);
    }
    ok(open_copy(m.file.data, m.file.n, &err));
}

TEST(survives_every_wrong_byte)
{
    static const unsigned char masks[] = {0x01, 0x02, 0x10, 0x80, 0xFF};
    AUTO_MAKER m;
    make_sample(&m);
    for (size_t i = 0; i < m.data_at; i++)
        for (size_t k = 0; k < sizeof masks; k++) {
            m.file.data[i] = (char)(m.file.data[i] ^ masks[k]);
            int rc = open_copy(m.file.data, m.file.n, &err);
            assert_true(rc == 0 || rc == ERR_FORMAT);
            if (rc) assert_non_null(strstr(err.text, "copy: "));
            m.file.data[i] = (char)(m.file.data[i] ^ masks[k]);
        }
}

static void expect(struct maker *m, const char *says)
{
    if (m->file.n == 0) maker_end(m);
    refused(open_copy(m->file.data, m->file.n, &err), ERR_FORMAT, says);
    maker_release(m);
}

TEST(says_what_is_wrong)
{
    int64_t row[] = {33, 2}, none[] = {32, 0}, huge[] = {INT64_MAX / 2, 8}, ok[] = {32};
    struct maker m = {0};
    str_puts(&m.file, "# A text\n");
    expect(&m, "is not a GGUF file");
    m = (struct maker){0};
    str_puts(&m.file, "version https://git-lfs.github.com/spec/v1\n");
    expect(&m, "git lfs pull");
    m = (struct maker){0};
    str_append(&m.file, "GGUF\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    expect(&m, "version 1");
    m = (struct maker){0};
    str_append(&m.file, "GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    expect(&m, "big-endian");
    m = (struct maker){0};
    maker_u32(&m, "general.alignment", 13);
    expect(&m, "not a power of two");
    m = (struct maker){0};
    maker_u32(&m, "twice", 1);
    maker_u32(&m, "twice", 1);
    expect(&m, "'twice' occurs twice");
    m = (struct maker){0};
    maker_array(&m, "nested", GGUF_ARRAY, 1);
    put_u64(&m.keys, 0);
    expect(&m, "'nested'");
    m = (struct maker){0};
    maker_tensor(&m, "odd", GGUF_T_Q4_0, 2, row, 0);
    expect(&m, "rows of 33 weights");
    m = (struct maker){0};
    maker_tensor(&m, "empty", GGUF_T_F32, 2, none, 0);
    expect(&m, "has 0 as dimension 1");
    m = (struct maker){0};
    maker_tensor(&m, "huge", GGUF_T_F32, 2, huge, 0);
    expect(&m, "larger than any memory");
    m = (struct maker){0};
    maker_tensor(&m, "new\n\x1b[31m", 77, 1, ok, 0);
    expect(&m, "tensor 'new??[31m' has unknown type 77; known are F32 F16 Q4_0");
}

TEST(says_what_cannot_be_opened)
{
    struct gguf *g;
    char name[] = "/tmp/retain_gguf_XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    refused(gguf_open(&g, name, &err), ERR_FORMAT, "is empty");
    struct maker m;
    make_sample(&m);
    assert_int_equal(write(fd, m.file.data, m.file.n), (ssize_t)m.file.n);
    ok(gguf_open(&g, name, &err));
    assert_string_equal(gguf_name(g), name);
    gguf_forget_data(g);
    assert_int_equal(*(const char *)gguf_tensor_at(g, 0)->data, 'x');
    gguf_close(g);
    maker_release(&m);
    close(fd);
    unlink(name);
    refused(gguf_open(&g, name, &err), ERR_FORMAT, name);
    refused(gguf_open(&g, "/tmp", &err), ERR_FORMAT, "folder");
    gguf_close(NULL);
}

TEST(judges_the_malformed_set)
{
    char folder[1024], path[2048];
    if (!data_path(folder, sizeof folder, "malformed")) skip();
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *f; (f = readdir(d));) {
        struct gguf *g;
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        if (f->d_name[0] == '.') continue;
        int rc = gguf_open(&g, path, &err);
        if (!strncmp(f->d_name, "ok_", 3) && rc) fail_msg("%s: %s", f->d_name, err.text);
        if (!strncmp(f->d_name, "bad_", 4) && !rc) fail_msg("%s was opened", f->d_name);
        if (rc) assert_int_equal(rc, ERR_FORMAT);
        gguf_close(g);
        n++;
    }
    closedir(d);
    assert_true(n > 30);
}
