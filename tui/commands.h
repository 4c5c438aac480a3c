/* commands: what tui/ offers to main.c. Each takes the parsed options and returns an exit status
 * (0 ok, 1 failed, 2 usage, 3 bad file, 4 does not fit, 130 interrupted). Results go to stdout,
 * everything else to stderr. */
#ifndef RETAIN_TUI_COMMANDS_H
#define RETAIN_TUI_COMMANDS_H

struct options;

int tui_chat(const struct options *o);     /* screen, or plain when it has to be */
int tui_generate(const struct options *o); /* one prompt, one answer */
int tui_list(const struct options *o);
int tui_show(const struct options *o);
int tui_rename(const struct options *o);  /* NAME NEW */
int tui_tag(const struct options *o);     /* NAME TAG… */
int tui_delete(const struct options *o);  /* NAME… */
int tui_models(const struct options *o);  /* list|add|default|verify */
int tui_restore(const struct options *o); /* NAME [NEW] */
int tui_search(const struct options *o);  /* TEXT… */
int tui_export(const struct options *o);  /* NAME… */
int tui_import(const struct options *o);  /* FILE [NEW] */
int tui_replay(const struct options *o);  /* FILE, of chat --record */
int tui_check(const struct options *o);
int tui_compact(const struct options *o);

#endif
