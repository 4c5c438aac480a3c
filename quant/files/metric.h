/* metric: scores a model's answer, as RULER does. tests/golden/metrics.json holds what RULER's own
 * program gives; other benchmarks' scores are computed by theirs (quant/files/convert.py). */
#ifndef RETAIN_QUANT_FILES_METRIC_H
#define RETAIN_QUANT_FILES_METRIC_H

#include <stdbool.h>

#include "base/str.h"

struct metric {
    const char *name;
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
