/* tui_fake: the commands of tui/ with scripted answers, as a program for the scripts. Takes
 * retain's command line for chat, generate, list, show, rename and delete, preceded by its own
 * options:
 * --fake-load MS --fake-rate TOK_S --fake-fail TEXT. Or: --fake-library FILE, writes the database
 * of three conversations. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "tests/tui/scripted.h"

static const struct {
    const char *name;
    int (*run)(const struct options *o);
} commands[] = {
    {"chat", cmd_chat},  {"generate", cmd_generate}, {"list", cmd_saved},   {"replay", cmd_replay},
    {"show", cmd_saved}, {"rename", cmd_saved},      {"delete", cmd_saved},
};

static int take_fake_option(const char *name, const char *value)
{
    if (strcmp(name, "--fake-load") == 0)
        scripted.load_ms = atoi(value);
    else if (strcmp(name, "--fake-rate") == 0)
        scripted.tok_s = atof(value);
    else if (strcmp(name, "--fake-fail") == 0)
        scripted.fail_load = value;
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
    scripted.tok_s = 200;
    while (argc > 2 && take_fake_option(argv[1], argv[2])) {
        argc -= 2;
        argv += 2;
    }
    if (argc == 3 && !strcmp(argv[1], "--fake-library")) {
        scripted.tok_s = 0;
        scripted_library(argv[2], (int64_t)time(NULL) * 1000);
        return 0;
    }
    o.engine.model = "some.gguf"; /* not the demo, which is shown slowly */
    const char *name = o.command = argc > 1 && argv[1][0] != '-' ? argv[1] : "chat";
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
