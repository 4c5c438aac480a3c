/* ahead: whether a model will fit into memory, from the first bytes of its files. */
#ifndef RETAIN_CLI_PULL_AHEAD_H
#define RETAIN_CLI_PULL_AHEAD_H

#include "base/err.h"
#include "base/str.h"
#include "runtime/model/gguf.h"

struct options;

struct ahead {
    char name[96], type[16];
    int budget;                      /* units per head that fit; 0 = it does not fit */
    int64_t plan_bytes, limit_bytes; /* the memory of that plan; the memory that may be used */
    int64_t file_bytes_max;          /* of a smaller file of this model that would fit */
};

/* starts: as for gguf_open_starts; file_bytes: of all parts. ERR_FORMAT when the model cannot be
 * run. */
int ahead_read(struct ahead *out, const struct gguf_start *starts, int n, int64_t file_bytes,
               const struct options *o, struct err *e);

#endif
