/* heads: the command for files of retaining heads: fit, train, calibrate, import, info. */
#include <stdio.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/heads/heads_calibrate.h"
#include "quant/heads/heads_fit.h"
#include "quant/heads/heads_import.h"
#include "quant/heads/heads_train.h"
#include "runtime/forward/engine.h"

/* "settings budget 16384, sinks 0": the settings that a chat takes unless the user gives others. */
static void print_settings(struct retaining_settings s)
{
    const char *name;
    struct str text = {0};
    for (int i = 0, *v; (v = retaining_setting(&s, i, &name)); i++)
        if (*v >= 0) str_printf(&text, "%s%s %d", text.n ? ", " : "", name, *v);
    if (text.n) report_line("settings %s", str_get(&text));
    str_release(&text);
}

/* Prints the heads given with --heads, or those of the model; they were checked against it. */
static int info(const struct options *o)
{
    struct engine *g;
    struct err e;
    int rc = engine_prepare(&g, &o->engine, &e);
    if (rc) return report_error(&e);
    const struct retaining *h = g->retaining;
    if (!h) {
        report_note("%s has no heads; give them with --heads FILE", g->model->name);
    } else {
        report_line("heads    %s", gguf_name(h->file));
        const bool same = !*h->base_digest || !strcmp(h->base_digest, g->model_digest);
        report_line("model    %s%s", g->model->name,
                    same ? "" : "; made with another file of this model");
        if (*h->author) report_line("author   %s", h->author);
        report_line("shape    %d layers, %d -> %d -> %d, %s", h->shape.n_layer, h->shape.n_in,
                    h->shape.n_hidden, h->shape.n_head, retaining_form_name(h->shape.form));
        print_settings(h->settings);
        report_line("scores   %s", retaining_comparable(h)
                                       ? "scores comparable across heads: --policy keeper"
                                       : "scores comparable within a head only: --policy locret; "
                                         "heads calibrate makes them comparable");
        report_line("digest   %s", g->heads_digest);
    }
    engine_close(g);
    return h ? 0 : 1;
}

int cmd_heads(const struct options *o)
{
    static const struct {
        const char *name;
        int (*run)(const struct options *o);
        bool files; /* takes names of files */
    } commands[] = {{"fit", heads_fit, false},
                    {"train", heads_train, true},
                    {"calibrate", heads_calibrate, true},
                    {"import", heads_import, true},
                    {"info", info, false}};
    struct err e;
    for (size_t i = 0; o->n_args > 0 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(o->args[0], commands[i].name) != 0) continue;
        if (o->n_args == 1 || commands[i].files) return commands[i].run(o);
        err_set(&e, ERR_USAGE, "heads %s takes no \"%.60s\"; name heads with --heads FILE",
                o->args[0], o->args[1]);
        return report_error(&e);
    }
    err_set(&e, ERR_USAGE, "heads takes one of: fit, train, calibrate, import FILE, info");
    return report_error(&e);
}
