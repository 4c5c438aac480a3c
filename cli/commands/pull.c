/* The command that downloads models: retain pull ADDRESS…; it prints the paths of their files. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/control/model_list.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "cli/pull/pull.h"
#include "runtime/forward/engine.h"
#include "runtime/save/conversations.h"

/* Registers the model's digest, as its first use would. An encrypted database would need its
 * passphrase: there the first chat does it. */
static int add_to_register(const struct options *o, const char *path, struct err *e)
{
    struct str database = {0};
    struct conversations *library = NULL;
    struct engine *g = NULL;
    bool fresh;
    int rc = path_database(o, &database, e);
    if (!rc && !store_probe(str_get(&database), &fresh)) {
        struct engine_opts engine = o->engine;
        rc = secret_open_library(&library, o, str_get(&database), e);
        engine.model = path;
        engine.heads = (struct engine_heads){.none = true};
        engine.registry = conversations_registry(library);
        engine.accept_model = true; /* an older file of this name was replaced, or deleted */
        if (!rc) rc = engine_prepare(&g, &engine, e);
        engine_close(g);
        conversations_close(library);
    }
    str_release(&database);
    return rc;
}

static void tell_name(const struct options *o, const char *path)
{
    struct model_list l;
    char *real = realpath(path, NULL);
    bool listed = !model_list_rows(&l, o, NULL, NULL);
    for (int i = 0; listed && real && i < l.n; i++)
        if (l.rows[i].path && !strcmp(l.rows[i].path, real))
            report_note("chat with it: retain -m %s", l.rows[i].name);
    model_list_release(&l);
    free(real);
}

static int pull_one(const struct options *o, const char *address, struct err *e)
{
    struct str file = {0};
    bool fresh;
    int rc = pull_get(o, address, false, &file, &fresh, e);
    const char *path = str_get(&file);
    if (!rc && fresh && str_ends(path, ".gguf")) rc = add_to_register(o, path, e);
    if (!rc) report_line("%s", path);
    if (!rc && str_ends(path, ".gguf")) tell_name(o, path);
    str_release(&file);
    return rc;
}

int cmd_pull(const struct options *o)
{
    struct err e = {0};
    int rc = o->n_args ? 0
                       : err_set(&e, ERR_USAGE,
                                 "usage: retain pull hf:OWNER/REPO[:QUANTIZATION|:FILE]… | "
                                 "https://HOST/…/FILE…");
    for (int i = 0; i < o->n_args && !rc; i++) rc = pull_one(o, o->args[i], &e);
    return rc ? report_error(&e) : 0;
}
