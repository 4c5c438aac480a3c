/* torch_file: a file written by PyTorch (tests/golden/make_torch.py) is read to the bit; damaged
 * and hostile ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "kernels/kernels.h"
#include "quant/heads/torch_file.h"
#include "runtime/model/gguf.h"

static struct str file;

static int setup(void **state)
{
    (void)state;
    struct err e;
    return file_read("tests/golden/heads.bin", FILE_DATA, &file, &e);
}

static int teardown(void **state)
{
    (void)state;
    str_release(&file);
    return 0;
}

static int attempt(const void *bytes, size_t n, struct err *e)
{
    struct torch_file *f;
    int rc = torch_file_open(&f, bytes, n, "heads.bin", e);
    torch_file_close(f);
    return rc;
}

static void equals_what_was_written(void **state)
{
    (void)state;
    struct torch_file *f;
    struct err e;
    char name[64];
    assert_true(torch_file_is(file.data, file.n));
    if (torch_file_open(&f, file.data, file.n, "heads.bin", &e)) fail_msg("%s", e.text);
    assert_int_equal(torch_file_n(f), 8);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attn.fc%d.weight", i / 2, i % 2 + 1);
        const struct safetensors_tensor *t = torch_file_find(f, name);
        assert_non_null(t);
        assert_int_equal(t->type, GGUF_T_BF16);
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->shape[0], 2);
        assert_int_equal(t->shape[1], i % 2 ? 2 : 512);
        for (int k = 0; k < (int)(t->bytes / 2); k++) {
            uint16_t bits;
            memcpy(&bits, (const char *)t->data + 2 * k, sizeof bits);
            float expected = (float)((k * 37 + i / 2) % 256 - 128) / 64;
            assert_true(kn_float_from_bf16(bits) == expected);
        }
    }
    assert_null(torch_file_find(f, "model.layers.4.self_attn.fc1.weight"));
    torch_file_close(f);
}

/* A copy in a separate allocation, so that a sanitizer detects reads after its end. */
static int attempt_copy(size_t n, size_t at, char flip)
{
    struct err e;
    char *copy = malloc(n ? n : 1);
    memcpy(copy, file.data, n);
    if (at < n) copy[at] = (char)(copy[at] ^ flip);
    int rc = attempt(copy, n, &e);
    free(copy);
    return rc;
}

static size_t pickle_at(void)
{
    static const char first[] = "\x80\x02"
                                "ccollections\nOrderedDict";
    return (size_t)((char *)memmem(file.data, file.n, first, sizeof first - 1) - file.data);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < file.n; n += 13)
        assert_int_equal(attempt_copy(n, SIZE_MAX, 0), ERR_FORMAT);
    /* A flipped bit may leave a valid file; it must not do more. */
    size_t pickle = pickle_at();
    for (int bit = 0; bit < 8; bit++) {
        for (size_t at = pickle; at < pickle + 1200; at += 3)
            attempt_copy(file.n, at, (char)(1 << bit));
        for (size_t at = file.n - 1400; at < file.n; at += 3)
            attempt_copy(file.n, at, (char)(1 << bit));
    }
}

/* Replaces the pickle by another program. */
static int attempt_program(const char *program, size_t n, struct err *e)
{
    char *copy = malloc(file.n);
    memcpy(copy, file.data, file.n);
    memcpy(copy + pickle_at(), program, n);
    int rc = attempt(copy, file.n, e);
    free(copy);
    return rc;
}

static void expect_refusal(const char *program, size_t n, const char *message)
{
    struct err e;
    assert_int_equal(attempt_program(program, n, &e), ERR_FORMAT);
    if (!strstr(e.text, message)) fail_msg("\"%s\" is not in: %s", message, e.text);
}

#define REFUSED(program, message) expect_refusal(program, sizeof(program) - 1, message)

static void programs_are_not_run(void **state)
{
    (void)state;
    REFUSED("\x80\x02"
            "cos\nsystem\nX\x04\0\0\0true\x85R.",
            "\"os system\"");
    REFUSED("\x80\x04\x8c\x05posix\x8c\x06system\x93.", "\"posix system\"");
    REFUSED("\x80\x02"
            "c\x1b[31m\nevil\n.",
            "[31m evil");
    REFUSED("\x80\x02i__builtin__\neval\n.", "has an instruction");
    REFUSED("\x80\x02"
            "ctorch\nBFloat16Storage\n)R.",
            "not on the list");
    REFUSED("\x80\x02R.", "pops from an empty stack");
    REFUSED("\x80\x02}u.", "mark that is not there");
    REFUSED("\x80\x02(K\x01t.", "not a dictionary of tensors");
    REFUSED("\x80\x02K\x01K\x02K\x03s.", "not a dictionary");
    REFUSED("\x80\x02h\x07.", "never stored");
    REFUSED("\x80\x02}r\xff\xff\xff\x7f.", "out of order");
    REFUSED("\x80\x02X\xff\xff\xff\x7fx.", "ends in the middle");
    REFUSED("\x80\x02\x8a\x09"
            "123456789.",
            "more than 64 bits");
    REFUSED("\x80\x63.", "protocol");
    /* An existing storage, and a tensor larger than it. */
#define STORAGE                                                                        \
    "\x80\x02"                                                                         \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nBFloat16Storage\n" \
    "X\x01\0\0\0"                                                                      \
    "1X\x03\0\0\0"                                                                     \
    "cpuK\x04tQ"
    REFUSED(STORAGE "K\x01K\x02K\x04\x86K\x04K\x01\x86\x89}tR.", "larger than its storage");
    REFUSED(STORAGE "K\0K\x04K\x02\x86K\x01K\x04\x86\x89}tR.", "not contiguous");
    REFUSED(STORAGE "K\0K\0K\x04\x86K\x04K\x01\x86\x89}tR.", "not contiguous");
    REFUSED(STORAGE "K\0J\0\0\0\x40J\0\0\0\x40\x86J\0\0\0\x40K\x01\x86\x89}tR.", "not contiguous");
    REFUSED("\x80\x02((X\x07\0\0\0storagectorch\nBFloat16Storage\nX\x01\0\0\0"
            "1X\x03\0\0\0"
            "cpuK\x09tQ.",
            "another size");
}

/* An 8 MB name that five bytes repeat, a million times, would exhaust the memory. */
static void long_names_are_refused(void **state)
{
    static const char tensor[] = STORAGE "K\0K\x02K\x02\x86K\x02K\x01\x86\x89}tRs.";
    struct str program = {0};
    (void)state;
    for (int n = 255; n <= 256; n++) {
        const char head[] = {'\x80', 2, '}', 'X', (char)(n & 255), (char)(n >> 8), 0, 0};
        str_clear(&program);
        str_append(&program, head, sizeof head);
        for (int i = 0; i < n; i++) str_puts(&program, "x");
        str_append(&program, tensor + 2, sizeof tensor - 3);
        struct err e;
        if (n > 255)
            expect_refusal(program.data, program.n, "names a tensor with a name that is too long");
        else
            assert_int_equal(attempt_program(program.data, program.n, &e), 0);
    }
    str_release(&program);
}

/* A list of dictionaries beside arrays of NumPy (tests/golden/make_released.py). */
static void nested_tensors_are_named(void **state)
{
    static const char *const names[] = {"module.0.k_base", "module.1.q_proj.weight"};
    static const int64_t shapes[][4] = {{2, 1, 3, 4}, {16, 64}};
    struct str nested = {0};
    struct torch_file *f;
    struct err e;
    (void)state;
    if (file_read("tests/golden/released/fast-kvzip.pt", FILE_DATA, &nested, &e))
        fail_msg("%s", e.text);
    if (torch_file_open(&f, nested.data, nested.n, "nested", &e)) fail_msg("%s", e.text);
    assert_int_equal(torch_file_n(f), 14);
    for (int i = 0; i < 2; i++) {
        const struct safetensors_tensor *t = torch_file_find(f, names[i]);
        assert_non_null(t);
        for (int k = 0; k < t->n_dims; k++) assert_int_equal(t->shape[k], shapes[i][k]);
    }
    assert_null(torch_file_find(f, "module.2.k_base"));
    assert_null(torch_file_find(f, "k_base"));
    torch_file_close(f);
    for (size_t at = 0; at < nested.n; at += 5) {
        char *copy = malloc(nested.n);
        memcpy(copy, nested.data, nested.n);
        copy[at] = (char)(copy[at] ^ 1 << at % 8);
        attempt(copy, nested.n, &e);
        free(copy);
    }
    str_release(&nested);
    /* a dictionary in itself, and one that appends to a number */
    REFUSED("\x80\x02}q\0X\x01\0\0\0"
            "ah\0s.",
            "too deeply");
    REFUSED("\x80\x02K\x01K\x02"
            "a.",
            "not a list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_what_was_written),  cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(programs_are_not_run),     cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(nested_tensors_are_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
