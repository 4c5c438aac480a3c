/* Makes requests of the text after a command, and finds the part of an answer that /copy takes. */
#include "base/attached.h"
#include "cli/control/control_parts.h"

#include <stdio.h>
#include <string.h>

void request_release(struct request *r)
{
    str_release(&r->text);
}

static int no_such_turn(const struct control_facts *f, struct err *e)
{
    return err_set(e, ERR_USAGE, "no such turn; this conversation has %lld", (long long)f->n_turns);
}

/* /edit [TURN] and /rewind [TURN]; without a turn, /rewind goes to before the last one. */
static int parse_turn(struct request *r, const char *argument, const struct control_facts *f,
                      struct err *e)
{
    const char *rest;
    if (f->private_mode)
        return err_set(e, ERR_USAGE, "a private conversation is not saved, so it cannot go back");
    if (r->command == SLASH_REGENERATE) argument = "";
    if (!slash_turn(argument, f->n_turns, &r->turn, &rest) || rest[0]) return no_such_turn(f, e);
    if (r->command != SLASH_REWIND && !r->turn) return no_such_turn(f, e);
    if (r->command == SLASH_REWIND && !argument[0]) r->turn = f->n_turns > 0 ? f->n_turns - 1 : 0;
    return 0;
}

/* /pin, /unpin and /forget [TURN] */
static int parse_mark(struct request *r, const char *argument, const struct control_facts *f,
                      struct err *e)
{
    const char *rest;
    if (f->private_mode)
        return err_set(e, ERR_USAGE, "a private conversation does not keep its turns");
    if (r->command == SLASH_FORGET && strcmp(argument, "undo") == 0) return 0; /* turn 0 */
    if (!slash_turn(argument, f->n_turns, &r->turn, &rest) || rest[0] || !r->turn)
        return no_such_turn(f, e);
    return 0;
}

/* /branch [TURN] [NAME] */
static int parse_branch(struct request *r, const char *argument, const struct control_facts *f,
                        struct err *e)
{
    const char *name = argument;
    bool numbered = argument[0] == '-' || (argument[0] >= '0' && argument[0] <= '9');
    r->turn = f->n_turns;
    if (numbered && !slash_turn(argument, f->n_turns, &r->turn, &name)) return no_such_turn(f, e);
    str_puts(&r->text, name);
    return 0;
}

static int parse_answer(struct request *r, const char *argument, const struct control_facts *f,
                        struct err *e)
{
    if (!f->has_answer) return err_set(e, ERR_FAIL, "there is no answer to change");
    if (f->private_mode)
        return err_set(e, ERR_USAGE,
                       "a private conversation is not saved, so its answers cannot be changed");
    str_puts(&r->text, argument);
    return 0;
}

/* The commands on the open conversation: /rename NEW, /tag [-]TAG... */
static int parse_about(struct request *r, const char *argument, const char *usage,
                       const struct control_facts *f, struct err *e)
{
    if (!argument[0]) return err_set(e, ERR_USAGE, "%s", usage);
    if (f->private_mode)
        return err_set(e, ERR_USAGE, "a private conversation has no name and no tags");
    str_puts(&r->text, argument);
    control_name(r->name, f->name);
    return 0;
}

/* /open, /delete, /drop NAME and /restore [NAME] */
static int parse_name(struct request *r, const char *name, const struct control_facts *f,
                      struct err *e)
{
    if (r->command == SLASH_RESTORE && !name[0]) name = f->deleted;
    if (!name[0] && r->command == SLASH_RESTORE)
        return err_set(e, ERR_USAGE, "nothing was deleted in this run; /restore NAME");
    if (!name[0]) return err_set(e, ERR_USAGE, "a name is missing; /list shows them");
    if (strlen(name) >= sizeof r->name)
        return err_set(e, ERR_USAGE, "no conversation has a name of %zu bytes", strlen(name));
    control_name(r->name, name);
    return 0;
}

int control_parse(struct request *out, enum slash command, const char *argument,
                  const struct control_facts *f, struct err *e)
{
    *out = (struct request){.command = command};
    switch (command) {
    case SLASH_REGENERATE:
    case SLASH_EDIT:
    case SLASH_REWIND: return parse_turn(out, argument, f, e);
    case SLASH_PIN:
    case SLASH_UNPIN:
    case SLASH_FORGET: return parse_mark(out, argument, f, e);
    case SLASH_BRANCH: return parse_branch(out, argument, f, e);
    case SLASH_ANSWER: return parse_answer(out, argument, f, e);
    case SLASH_RENAME: return parse_about(out, argument, "/rename NEW", f, e);
    case SLASH_TAG: return parse_about(out, argument, "/tag [-]TAG...", f, e);
    case SLASH_OPEN:
    case SLASH_DELETE:
    case SLASH_DROP:
    case SLASH_RESTORE: return parse_name(out, argument, f, e);
    default: str_puts(&out->text, argument); return 0;
    }
}

/* A code block of a text: the wanted one, from 1, or with 0 the last. */
static bool find_code(const char *s, size_t length, int wanted, size_t *from, size_t *n)
{
    struct fence f = {0};
    int found = 0;
    while (!(wanted && found == wanted) && fence_next(s, length, f.next, &f)) {
        *from = f.from;
        *n = f.end - f.from;
        found++;
    }
    return found && (!wanted || found == wanted);
}

int control_copied(const struct str *answer, const char *what, struct str *out, struct err *e)
{
    size_t from = 0, n = answer ? answer->n : 0;
    int wanted = 0, read = 0;
    bool code = strcmp(what, "code") == 0 ||
                (sscanf(what, "code %d%n", &wanted, &read) == 1 && !what[read] && wanted > 0);
    if (n == 0) return err_set(e, ERR_FAIL, "there is no answer to copy");
    if (what[0] && !code) return err_set(e, ERR_USAGE, "/copy takes code, code N or all");
    if (code && !find_code(answer->data, answer->n, wanted, &from, &n))
        return wanted ? err_set(e, ERR_FAIL, "the last answer has no code block %d", wanted)
                      : err_set(e, ERR_FAIL, "the last answer has no code block");
    str_append(out, answer->data + from, n);
    return 0;
}
