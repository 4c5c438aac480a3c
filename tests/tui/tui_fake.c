/* tui_fake: the commands of tui/ on the fake session, as a program for the scripts. Takes retain's
 * command line for chat, generate, list, show, rename and delete, preceded by options for the fake:
 * --fake-load MS --fake-rate TOK_S --fake-prefill TOK_S --fake-layers N --fake-fail TEXT. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "tests/tui/fake_session.h"

static const struct {
    const char *name;
    int (*run)(const struct options *o);
} commands[] = {
    {"chat", cmd_chat}, {"generate", cmd_generate}, {"list", cmd_list},     {"replay", cmd_replay},
    {"show", cmd_show}, {"rename", cmd_rename},     {"delete", cmd_delete},
};

static int take_fake_option(const char *name, const char *value)
{
    if (strcmp(name, "--fake-load") == 0)
        fake.load_ms = atoi(value);
    else if (strcmp(name, "--fake-rate") == 0)
        fake.tok_s = atof(value);
    else if (strcmp(name, "--fake-prefill") == 0)
        fake.prefill_tok_s = atof(value);
    else if (strcmp(name, "--fake-layers") == 0)
        fake.n_layer = atoi(value);
    else if (strcmp(name, "--fake-fail") == 0)
        fake.fail_load = value;
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    struct options o;
    struct err e = {0};
    setlocale(LC_CTYPE, "");
    options_init(&o);
    fake.tok_s = 200;
    while (argc > 2 && take_fake_option(argv[1], argv[2])) {
        argc -= 2;
        argv += 2;
    }
    o.engine.model = "some.gguf"; /* not the demo, which is shown slowly */
    const char *name = argc > 1 && argv[1][0] != '-' ? argv[1] : "chat";
    int skip = argc > 1 && argv[1][0] != '-' ? 2 : 1;
    if (options_parse(&o, ~0u, argc - skip, argv + skip, &e)) {
        fprintf(stderr, "retain: %s\n", e.text);
        return err_exit_status(e.code);
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0) return commands[i].run(&o);
    fprintf(stderr, "retain: no command %s\n", name);
    return 2;
}
