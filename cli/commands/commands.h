/* commands: the functions behind main.c's table. Each takes the parsed options and returns an exit
 * status (0 ok, 1 failed, 2 usage, 3 bad file, 4 does not fit, 130 interrupted). Results are
 * printed to stdout, everything else to stderr. */
#ifndef RETAIN_CLI_COMMANDS_COMMANDS_H
#define RETAIN_CLI_COMMANDS_COMMANDS_H

struct options;
struct str;

/* cli */
int cmd_generate(const struct options *o); /* one prompt, one answer */
/* list, show, rename, tag, delete, restore, search, export, import, check, compact: o->command */
int cmd_saved(const struct options *o);
int cmd_models(const struct options *o); /* list|add|default|verify|unpack */
int cmd_pull(const struct options *o);   /* ADDRESS… */
int cmd_plan(const struct options *o);
int cmd_info(const struct options *o);
int cmd_verify(const struct options *o);
int cmd_tokenize(const struct options *o);
int cmd_template(const struct options *o); /* MESSAGES.json */

/* tui */
int cmd_chat(const struct options *o);   /* the screen, or plain lines without a terminal */
int cmd_demo(const struct options *o);   /* the program, shown by itself */
int cmd_replay(const struct options *o); /* FILE, of chat --record */

/* quant */
int cmd_perplexity(const struct options *o);
int cmd_bench(const struct options *o);
int cmd_eval(const struct options *o);
void cmd_eval_help(struct str *out); /* its tasks */
int cmd_quantize(const struct options *o);
int cmd_heads(const struct options *o);

#endif
