/* metric: scores a model's answer as a benchmark's own program does. One table of metrics; each
 * row names the program that it equals, and tests/golden/metrics.json holds what that program
 * gives. */
#ifndef RETAIN_QUANT_FILES_METRIC_H
#define RETAIN_QUANT_FILES_METRIC_H

#include "base/str.h"

#define METRIC_PARTS_MAX 3

struct metric_input {
    const char *prediction;
    const char *const *answers; /* [n_answers], at least one */
    int n_answers;
    const char *const *classes; /* [n_classes] names to choose from; n_classes 0 = none */
    int n_classes;
};

/* 0 … 1. Some metrics are the geometric mean of the means of n_parts parts (L-Eval's rouge): then
 * `value` is that of this item, and the parts are what to average. */
struct metric_score {
    double value;
    int n_parts;
    double parts[METRIC_PARTS_MAX];
};

struct metric {
    const char *name;
    double (*pair)(const char *prediction, const char *answer); /* the best of all answers, or: */
    void (*all)(const struct metric_input *in, struct metric_score *out);
    const char *about;
};

const struct metric *metric_at(int i); /* NULL past the end */
const struct metric *metric_named(const char *name);
void metric_names(struct str *out); /* comma-separated */

struct metric_score metric_score(const struct metric *m, const struct metric_input *in);

#endif
