/* model_list: the model files that retain knows of: the embedded demo, files that were used before
 * and files that `retain pull` downloaded. For `retain models` and the screen's picker.
 *
 * Reads every file's descriptions and makes a plan for it, but reads no weight: a dozen models take
 * a fraction of a second. */
#ifndef RETAIN_CLI_CONTROL_MODEL_LIST_H
#define RETAIN_CLI_CONTROL_MODEL_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/save/conversations.h"

struct options;

struct model_row {
    char *path;      /* absolute; NULL = the embedded demo */
    char name[160];  /* short, for -m and /model: "demo", the file's without .gguf, or, where two
                      * have that, OWNER/REPO:FILE of a pulled one */
    char type[16];   /* "Q4_K_M" */
    char digest[65]; /* hex; "" if it was not used yet */
    char family[24]; /* "llama"; "" = it cannot be run, because of `problem` */
    const char *template; /* "own", "demo"; "none": a row of the table is used */
    enum model_state state;
    bool standard;        /* it is the default model */
    int64_t size;         /* of the file, of all files of a split model */
    int64_t packed_bytes; /* of its copy in the weight cache; 0 = none */
    int64_t plan_bytes;   /* the memory it takes with `budget` */
    int budget;           /* units per head that fit now; 0 = it does not fit */
    char problem[256];    /* why it cannot be run or does not fit; "" = it can and does */
};

struct model_list {
    struct model_row *rows;
    int n;
};

/* The demo first, the others by path. library: the registered files; NULL = none. *out is set on
 * failure, too, and must be released. */
int model_list_read(struct model_list *out, const struct options *o, struct conversations *library,
                    struct err *e);
/* The same without facts: only path, name, digest, size and state. */
int model_list_rows(struct model_list *out, const struct options *o, struct conversations *library,
                    struct err *e);
void model_list_release(struct model_list *l);

/* Whether it is a file, or looks like a path rather than like a name. */
bool model_is_path(const char *name);
/* The name of the model that was pulled last; nothing if there is none. */
void model_newest(const struct options *o, struct str *name);
/* The file of a model by its path, its short name or the beginning of one, without case, or its
 * OWNER/REPO:QUANTIZATION; "" = the demo. library: as above. ERR_USAGE: there is none, or several.
 */
int model_find(const struct options *o, struct conversations *library, const char *name,
               struct str *out, struct err *e);
/* Replaces such a name in *model, which is the value of an option, by the path, which `path` keeps.
 * A path stays unchanged. */
int model_named(const struct options *o, const char **model, struct str *path, struct err *e);

const char *model_state_name(enum model_state s); /* "same" */

#endif
