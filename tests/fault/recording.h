/* recording: the records that recording.c writes and test_power.c reads; `n` bytes follow each. */
#ifndef RETAIN_TESTS_RECORDING_H
#define RETAIN_TESTS_RECORDING_H

#include <stddef.h>
#include <stdint.h>

enum recording_kind {
    RECORDING_WRITE,
    RECORDING_TRUNCATE,
    RECORDING_SYNC,
    RECORDING_REMOVE,
    RECORDING_OUTPUT, /* file: 1 or 2 */
};

static const char *const recording_names[] = {"db", "db-wal"};
enum { RECORDING_FILES = 2 };

struct recording {
    enum recording_kind kind;
    int file;
    int64_t at; /* of a write; the length of a truncation */
    size_t n;
};

#endif
