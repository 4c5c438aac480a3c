/* fuzz: bytes as a file of questions; every item is scored against its own answer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "quant/files/questions.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char path[64];
    struct questions q;
    struct item item = {0};
    struct err e;
    int fd = memfd_create("questions", 0);
    if (fd < 0 || (n && write(fd, bytes, n) != (ssize_t)n)) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!questions_open(&q, path, &e)) {
        while (questions_next(&q, &item, &e) == 1) {
            double score =
                metric_score(item.metric, item.answers.item[0], item.answers.item, item.answers.n);
            if (!(score >= 0 && score <= 1 + 1e-9)) abort();
        }
        questions_close(&q);
    }
    item_release(&item);
    close(fd);
    return 0;
}
