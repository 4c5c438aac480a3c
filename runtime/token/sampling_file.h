/* sampling_file: the sampling settings for a model when the user sets none: general.sampling.* of
 * its file, as its makers meant it to be used, else defaults that suit its size. */
#ifndef RETAIN_RUNTIME_TOKEN_SAMPLING_FILE_H
#define RETAIN_RUNTIME_TOKEN_SAMPLING_FILE_H

#include "runtime/token/sampler.h"

struct gguf;

/* The keys are those that llama.cpp reads, of any number type, with its meaning of values outside
 * the range: top_k below 0 is off, penalty_last_n below 0 is the longest. `source`: a phrase for
 * the user, such as "temp and top-k from the file; its xtc_probability is not supported". */
#define SAMPLING_SOURCE_MAX 256
struct sampling sampling_of_file(const struct gguf *file, char source[SAMPLING_SOURCE_MAX]);

#endif
