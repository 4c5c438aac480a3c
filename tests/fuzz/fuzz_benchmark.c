/* fuzz: bytes as a file of questions, in the format of a row of the table that the first byte
 * chooses; every item is scored against its own answer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "quant/files/benchmark.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_items(const char *path, const char *format)
{
    struct benchmark_file f;
    struct item item = {0};
    struct err e;
    if (benchmark_open(&f, path, format, &e)) return;
    while (benchmark_next(&f, &item, &e) == 1) {
        double score = item_score(&item, item.answers.item[0]).value;
        if (!(score >= 0 && score <= 1 + 1e-9)) abort();
    }
    item_release(&item);
    benchmark_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char path[64], format[64];
    int n_tasks = 0, fd = memfd_create("questions", 0);
    while (benchmark_task_at(n_tasks)) n_tasks++;
    if (fd < 0 || (n && write(fd, bytes + 1, n - 1) != (ssize_t)(n - 1))) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const struct benchmark_task *t = benchmark_task_at(n ? bytes[0] % n_tasks : 0);
    snprintf(format, sizeof format, *t->name ? "%s/%s" : "%s", t->benchmark, t->name);
    read_items(path, format);
    read_items(path, NULL);
    close(fd);
    return 0;
}
