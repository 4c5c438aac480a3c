#include "cli/control/slash.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "runtime/cache/policy.h"

/* clang-format off */
const struct slash_row slash_table[] = {
    {"help", SLASH_HELP, SLASH_NONE, "", "keys and commands", SLASH_AT_FRONT, false},
    {"continue", SLASH_CONTINUE, SLASH_NONE, "", "continue an answer that was stopped, looped or reached its limit", SLASH_AT_SESSION, false},
    {"regenerate", SLASH_REGENERATE, SLASH_NONE, "", "discard the last answer, generate another", SLASH_AT_SESSION, false},
    {"edit", SLASH_EDIT, SLASH_TURN, "[TURN]", "change a message; the turns after it are deleted", SLASH_AT_SESSION, false},
    {"answer", SLASH_ANSWER, SLASH_TEXT, "[TEXT]", "change the last answer; /continue continues it", SLASH_AT_SESSION, false},
    {"rewind", SLASH_REWIND, SLASH_TURN, "[TURN]", "go back to the end of a turn", SLASH_AT_SESSION, false},
    {"branch", SLASH_BRANCH, SLASH_TURN, "[TURN] [NAME]", "copy the conversation up to a turn; costs nothing", SLASH_AT_SESSION, false},
    {"set", SLASH_SET, SLASH_SETTING, "[NAME [VALUE]]", "sampling and memory settings of this conversation", SLASH_AT_FRONT, false},
    {"now", SLASH_NOW, SLASH_NONE, "", "stop the answer and send the queue", SLASH_AT_SCREEN, false},
    {"editor", SLASH_EDITOR, SLASH_NONE, "", "write the message in $VISUAL or $EDITOR", SLASH_AT_FRONT, false},
    {"list", SLASH_LIST, SLASH_NONE, "", "saved conversations", SLASH_AT_FRONT, false},
    {"find", SLASH_FIND, SLASH_TEXT, "TEXT", "search in all conversations", SLASH_AT_SAVED, false},
    {"open", SLASH_OPEN, SLASH_NAME, "NAME", "switch to another conversation", SLASH_AT_SESSION, false},
    {"new", SLASH_NEW, SLASH_NONE, "", "start a new conversation", SLASH_AT_SESSION, false},
    {"model", SLASH_MODEL, SLASH_MODEL_NAME, "[NAME]", "continue with another model: it reads the conversation again", SLASH_AT_SESSION, false},
    {"system", SLASH_SYSTEM, SLASH_TEXT, "[TEXT|none]", "show or change the system text: the conversation is read again", SLASH_AT_SESSION, false},
    {"rename", SLASH_RENAME, SLASH_TEXT, "NEW", "rename this conversation", SLASH_AT_SAVED, false},
    {"tag", SLASH_TAG, SLASH_TEXT, "[-]TAG...", "add tags to this conversation; - removes one", SLASH_AT_SAVED, false},
    {"delete", SLASH_DELETE, SLASH_NAME, "NAME", "delete a conversation; /restore restores it", SLASH_AT_SAVED, false},
    {"restore", SLASH_RESTORE, SLASH_TEXT, "[NAME]", "restore a deleted conversation", SLASH_AT_SAVED, false},
    {"drop", SLASH_DROP, SLASH_NAME, "NAME", "delete a saved cache, keep the text", SLASH_AT_SAVED, false},
    {"copy", SLASH_COPY, SLASH_WHAT, "[code [N]|all]", "the last answer, its last or N-th code block, or all to the clipboard", SLASH_AT_FRONT, false},
    {"file", SLASH_FILE, SLASH_PATH, "PATH [TEXT]", "send a file, with a question; @PATH in a message does the same", SLASH_AT_FRONT, false},
    {"save", SLASH_SAVE, SLASH_PATH, "FILE", "write this conversation to a file, as Markdown", SLASH_AT_FRONT, false},
    {"raw", SLASH_RAW, SLASH_NONE, "", "show Markdown as the model wrote it, or drawn", SLASH_AT_SCREEN, false},
    {"thought", SLASH_THOUGHT, SLASH_NONE, "", "show the model's thoughts, or only how long they took", SLASH_AT_FRONT, false},
    {"map", SLASH_MAP, SLASH_NONE, "", "which tokens are still in the cache", SLASH_AT_FRONT, false},
    {"tint", SLASH_TINT, SLASH_NONE, "", "the text, shaded by how much of it is kept", SLASH_AT_FRONT, false},
    {"tokens", SLASH_TOKENS, SLASH_TEXT, "TEXT", "how many tokens a text has", SLASH_AT_SESSION, true},
    {"recall", SLASH_RECALL, SLASH_TEXT, "WORDS", "bring evicted text with these words, or of turn N, back for the next message", SLASH_AT_SESSION, false},
    {"recalled", SLASH_RECALLED, SLASH_NONE, "", "what came back for the last message", SLASH_AT_SESSION, true},
    {"why", SLASH_WHY, SLASH_NONE, "", "what was decided for this model and conversation, and why", SLASH_AT_SESSION, true},
    {"pin", SLASH_PIN, SLASH_TURN, "[TURN]", "keep a turn in the cache; evicted text of it comes back", SLASH_AT_SESSION, false},
    {"unpin", SLASH_UNPIN, SLASH_TURN, "[TURN]", "let a pinned turn be evicted again", SLASH_AT_SESSION, false},
    {"forget", SLASH_FORGET, SLASH_TURN, "[TURN|undo]", "evict a turn so that it can't come back; its text stays", SLASH_AT_SESSION, false},
    {"stats", SLASH_STATS, SLASH_NONE, "", "speed, memory and cache in numbers", SLASH_AT_FRONT, false},
    {"turns", SLASH_TURNS, SLASH_NONE, "", "all turns, and how much of each is kept", SLASH_AT_FRONT, false},
    {"messages", SLASH_MESSAGES, SLASH_NONE, "", "walk through the messages, search in them", SLASH_AT_SCREEN, false},
    {"mouse", SLASH_MOUSE, SLASH_NONE, "", "use the mouse, or leave it to the terminal", SLASH_AT_SCREEN, false},
    {"log", SLASH_LOG, SLASH_NONE, "", "events, and what libraries and drivers printed", SLASH_AT_FRONT, false},
    {"quit", SLASH_QUIT, SLASH_NONE, "", "leave; everything is saved", SLASH_AT_FRONT, false},
    {"exit", SLASH_QUIT, SLASH_NONE, "", "the same", SLASH_AT_FRONT, false},
    {NULL, SLASH_SAY, SLASH_NONE, NULL, NULL, SLASH_AT_SESSION, false},
};
/* clang-format on */

static size_t word_length(const char *s, size_t n)
{
    size_t length = 0;
    while (length < n && s[length] != ' ' && s[length] != '\t' && s[length] != '\n') length++;
    return length;
}

static const struct slash_row *find_row(const char *word, size_t n)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (strlen(row->name) == n && memcmp(row->name, word, n) == 0) return row;
    return NULL;
}

enum slash slash_parse(const char *line, size_t n, const char **rest, size_t *n_rest)
{
    *rest = line;
    *n_rest = n;
    if (n == 0 || line[0] != '/') return SLASH_SAY;
    if (n > 1 && line[1] == '/') {
        *rest = line + 1;
        *n_rest = n - 1;
        return SLASH_SAY;
    }
    size_t length = word_length(line + 1, n - 1);
    const struct slash_row *row = find_row(line + 1, length);
    if (!row) return SLASH_UNKNOWN;
    size_t at = 1 + length;
    while (at < n && line[at] == ' ') at++;
    while (n > at && (line[n - 1] == ' ' || line[n - 1] == '\n')) n--;
    *rest = line + at;
    *n_rest = n - at;
    return row->id;
}

const struct slash_row *slash_row_of(enum slash id)
{
    const struct slash_row *row = slash_table;
    while (row->name && row->id != id) row++;
    return row;
}

const char *slash_nearest(const char *line, size_t n)
{
    size_t length = n > 0 ? word_length(line + 1, n - 1) : 0;
    struct nearest near = nearest_to(line + 1, length);
    for (const struct slash_row *row = slash_table; row->name; row++)
        nearest_offer(&near, row->name);
    return near.name;
}

const char *slash_advice(const char *line, size_t n, char out[SLASH_ADVICE_MAX])
{
    const char *near = slash_nearest(line, n);
    int length = 0; /* length of the printable part */
    while (length < 20 && 1 + (size_t)length < n && isalnum((unsigned char)line[1 + length]))
        length++;
    snprintf(out, SLASH_ADVICE_MAX, "no command /%.*s; %s%s (// sends a slash)", length, line + 1,
             near ? "did you mean /" : "/help lists all", near ? near : "");
    return out;
}

bool slash_turn(const char *text, int64_t n_turns, int64_t *turn, const char **rest)
{
    size_t n = strcspn(text, " ");
    const char *after = text + n + strspn(text + n, " ");
    char *end;
    *turn = n_turns;
    *rest = after;
    if (n == 0 || (n == 4 && memcmp(text, "last", 4) == 0)) return n_turns >= 0;
    long long number = strtoll(text, &end, 10);
    if (end != text + n || number > n_turns || -number > n_turns) return false;
    *turn = number < 0 ? n_turns + number : number;
    return true;
}

/* ---- completion ----------------------------------------------------------------------------- */

struct candidates {
    const char *word, *end; /* the part that was typed */
    int left;               /* matches still to skip */
    slash_names *names;
    void *ctx;
    struct slash_offer *out;
};

/* true: this is the requested one. */
static bool offer(struct candidates *c, const char *word, const char *after, const char *about)
{
    size_t n = (size_t)(c->end - c->word);
    if (strncmp(word, c->word, n) != 0 || c->left-- > 0) return false;
    snprintf(c->out->word, sizeof c->out->word, "%.100s%s", word, after);
    snprintf(c->out->text, sizeof c->out->text, "%s", about);
    return true;
}

static bool offer_commands(struct candidates *c)
{
    for (const struct slash_row *row = slash_table; row->name; row++) {
        if (!offer(c, row->name, row->argument == SLASH_NONE ? "" : " ", "")) continue;
        snprintf(c->out->text, sizeof c->out->text, "%s%s%s", row->usage, row->usage[0] ? "  " : "",
                 row->help);
        return true;
    }
    return false;
}

static bool offer_choices(struct candidates *c, const char *choices)
{
    char item[32];
    for (int i = 0; options_list_item(choices, i, item, sizeof item); i++)
        if (offer(c, item, "", "")) return true;
    return false;
}

static bool offer_values(struct candidates *c, const char *name, size_t n)
{
    const struct option *f;
    for (int i = 0; n == 6 && !memcmp(name, "policy", 6) && policy_at(i); i++)
        if (offer(c, policy_at(i)->name, "", policy_at(i)->about)) return true;
    for (int i = 0; (f = options_setting(SLASH_SETTINGS, i)); i++)
        if (strlen(f->name) == n && memcmp(f->name, name, n) == 0)
            return f->choices && offer_choices(c, f->choices);
    return false;
}

static bool offer_names(struct candidates *c, enum slash_argument kind)
{
    const char *name;
    for (int i = 0; (name = c->names(c->ctx, kind, i, NULL)); i++)
        if (offer(c, name, kind == SLASH_SETTING ? " " : "", ""))
            return c->names(c->ctx, kind, i, c->out->text);
    return false;
}

static bool offer_paths(struct candidates *c)
{
    char pattern[256];
    glob_t g;
    bool found = false;
    snprintf(pattern, sizeof pattern, "%.*s*",
             (int)(c->end - c->word < 240 ? c->end - c->word : 240), c->word);
    if (glob(pattern, GLOB_MARK, NULL, &g)) return false;
    for (size_t i = 0; i < g.gl_pathc && !found; i++)
        found = strlen(g.gl_pathv[i]) < 100 && offer(c, g.gl_pathv[i], "", "");
    globfree(&g);
    return found;
}

/* The path after an @, at the end of a message. */
static bool complete_path(struct candidates *c, const char *line, size_t n)
{
    size_t at = n;
    while (at > 0 && !strchr(" \t\n", line[at - 1])) at--;
    if (at == n || line[at] != '@') return false;
    c->word = line + at + 1;
    return offer_paths(c);
}

static bool complete(struct candidates *c, const char *line, size_t n)
{
    if (n == 0 || line[0] != '/' || (n > 1 && line[1] == '/')) return complete_path(c, line, n);
    size_t n_command = word_length(line + 1, n - 1), at = 1 + n_command;
    c->word = line + 1;
    if (memchr(line, '\n', n)) return false;
    if (at == n) return offer_commands(c);
    const struct slash_row *row = find_row(line + 1, n_command);
    if (!row) return false;
    while (at < n && line[at] == ' ') at++;
    size_t n_first = word_length(line + at, n - at);
    bool second = at + n_first < n;
    c->word = line + at;
    switch (row->argument) {
    case SLASH_NAME:
    case SLASH_MODEL_NAME: return offer_names(c, row->argument);
    case SLASH_WHAT: return offer_choices(c, "code,all");
    case SLASH_PATH: return !second && offer_paths(c);
    case SLASH_SETTING:
        if (!second) return offer_names(c, SLASH_SETTING);
        for (c->word += n_first; c->word < c->end && *c->word == ' ';) c->word++;
        return offer_values(c, line + at, n_first);
    case SLASH_NONE:
    case SLASH_TEXT:
    case SLASH_TURN: break;
    }
    return false;
}

bool slash_complete(const char *line, size_t n, slash_names *names, void *ctx, int i,
                    struct slash_offer *out)
{
    struct candidates c = {.end = line + n, .left = i, .names = names, .ctx = ctx, .out = out};
    bool found = complete(&c, line, n);
    if (found) out->from = (size_t)(c.word - line);
    return found;
}
