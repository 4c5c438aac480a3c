/* metric: scores a model's answer. One table of metrics, each as SQuAD or RULER defines it;
 * tests/golden/metrics.json holds what the benchmarks' own programs give. */
#ifndef RETAIN_QUANT_FILES_METRIC_H
#define RETAIN_QUANT_FILES_METRIC_H

#include <stdbool.h>

#include "base/str.h"

struct metric {
    const char *name;
    double (*pair)(const char *prediction, const char *answer);
    bool all; /* the mean over all answers instead of the best */
    const char *about;
};

const struct metric *metric_at(int i); /* NULL past the end */
const struct metric *metric_named(const char *name);
void metric_names(struct str *out); /* comma-separated */

/* 0 … 1; n_answers >= 1. */
double metric_score(const struct metric *m, const char *prediction, const char *const *answers,
                    int n_answers);

#endif
