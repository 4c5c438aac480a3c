/* view_read: the chat with a cursor that walks through its messages, and a search in them. The
 * message under the cursor can be copied, edited, branched from and recalled, its turn pinned or
 * forgotten, and it can be found in the map. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tui/chat/app.h"
#include "tui/view/words.h"

static struct message *message_at(struct app *a)
{
    struct read_state *r = &a->read;
    if (r->message >= a->talk.n) r->message = a->talk.n - 1;
    return r->message >= 0 ? &a->talk.messages[r->message] : NULL;
}

/* ---- searching ------------------------------------------------------------------------------- */

size_t read_match(const struct app *a, int index, size_t from)
{
    const struct message *m = &a->talk.messages[index];
    const char *s = str_get(&m->text);
    size_t n = a->read.query.text.n;
    for (size_t at = from; n > 0 && at + n <= m->text.n; at++)
        if (strncasecmp(s + at, str_get(&a->read.query.text), n) == 0) return at;
    return READ_NONE;
}

static int count_matches(const struct app *a)
{
    int n = 0;
    for (int i = 0; i < a->talk.n; i++)
        for (size_t at = 0; (at = read_match(a, i, at)) != READ_NONE; at++) n++;
    return n;
}

static void show(struct app *a, int index, size_t byte)
{
    a->read.message = index;
    a->read.byte = byte;
    app_scroll_to(a, index, byte);
}

/* The next match after the present one, or the one before; around the ends. */
static bool find(struct app *a, bool after, bool here)
{
    int index = a->read.message, n = a->talk.n;
    size_t at = a->read.byte, found;
    if (n == 0) return false;
    if (after) {
        found = read_match(a, index, here ? at : at + 1);
        for (int k = 1; found == READ_NONE && k <= n; k++) {
            index = (a->read.message + k) % n;
            found = read_match(a, index, 0);
        }
    } else {
        found = READ_NONE;
        for (int k = 0; found == READ_NONE && k <= n; k++) {
            index = (a->read.message + n - k % n) % n;
            size_t end = k == 0 ? at : (size_t)-1;
            for (size_t i = 0; (i = read_match(a, index, i)) != READ_NONE && i < end; i++)
                found = i;
        }
    }
    if (found != READ_NONE) show(a, index, found);
    return found != READ_NONE;
}

static void find_again(struct app *a, bool after)
{
    if (a->read.query.text.n == 0)
        app_flash(a, "/ searches");
    else if (!find(a, after, false))
        app_flash(a, "not found: %.60s", str_get(&a->read.query.text));
}

static bool field_key(struct app *a, const struct key_event *ev)
{
    struct edit *q = &a->read.query;
    switch (ev->key) {
    case '\r': a->read.typing = false; return true;
    case '\033':
    case CTRL('c'):
        edit_set(q, "", 0);
        a->read.typing = false;
        return true;
    case K_LEFT:
    case K_RIGHT: return false; /* the cursor stays at the end */
    default:
        if (!app_field_key(q, ev)) return false;
    }
    if (q->text.n > 0 && !find(a, true, true)) app_flash(a, "not found");
    return true;
}

static bool capture(struct app *a, const struct key_event *ev)
{
    return a->read.typing && field_key(a, ev);
}

/* ---- the message under the cursor ------------------------------------------------------------ */

static void walk(struct app *a, int by)
{
    int to = a->read.message + by;
    if (to < 0) to = 0;
    if (to >= a->talk.n) to = a->talk.n - 1;
    if (to >= 0) show(a, to, 0);
}

static void copy(struct app *a)
{
    const struct message *m = message_at(a);
    if (m) app_act(a, ACT_COPY, str_get(&m->raw), m->raw.n);
}

/* Runs "/command TURN". */
static void run_on_turn(struct app *a, enum slash command)
{
    char line[64];
    snprintf(line, sizeof line, "/%s %lld", slash_row_of(command)->name,
             (long long)app_turn_of(a, a->read.message));
    app_show(a, VIEW_CHAT);
    a->chat.held = false;
    app_run_line(a, line, strlen(line));
}

static void recall(struct app *a)
{
    const struct message *m = message_at(a);
    struct str line = {0};
    if (!m) return;
    str_puts(&line, "/recall ");
    str_append(&line, str_get(&m->raw), m->raw.n < 400 ? m->raw.n : 400);
    app_show(a, VIEW_CHAT);
    app_run_line(a, line.data, line.n);
    str_release(&line);
}

static void open_at(struct app *a, enum view view)
{
    const struct message *m = message_at(a);
    bool placed = m && words_have_place(m);
    int64_t position = placed ? transcript_position(&a->talk, a->read.message, a->read.byte) : -1;
    app_show(a, view);
    if (position < 0) return;
    a->mapped.position = a->tint.position = position;
}

/* ---- the view -------------------------------------------------------------------------------- */

void read_label(const struct app *a, struct str *out)
{
    static const char *const roles[] = {[CHAT_SYSTEM] = "system",
                                        [CHAT_USER] = "you",
                                        [CHAT_ASSISTANT] = "llm",
                                        [TRANSCRIPT_NOTE] = "notice"};
    const struct read_state *r = &a->read;
    if (r->message >= 0 && r->message < a->talk.n)
        str_printf(out, "message %d of %d, turn %lld, %s", r->message + 1, a->talk.n,
                   (long long)app_turn_of(a, a->read.message),
                   roles[a->talk.messages[r->message].role]);
    if (!r->typing && r->query.text.n == 0) return;
    str_printf(out, "  /%s%s", str_get(&r->query.text), r->typing ? "_" : "");
    if (r->query.text.n > 0) str_printf(out, "  %d found", count_matches(a));
}

static void open(struct app *a)
{
    a->read.message = a->chat.held ? a->chat.top_message : a->talk.n - 1;
    a->read.byte = 0;
    a->read.typing = false;
}

static void draw(struct app *a, struct pane p)
{
    message_at(a);
    view_chat.draw(a, p);
}

static bool request(struct app *a, int r)
{
    switch (r) {
    case REQ_UP: walk(a, -1); break;
    case REQ_DOWN: walk(a, 1); break;
    case REQ_FIRST: walk(a, -a->talk.n); break;
    case REQ_LAST: walk(a, a->talk.n); break;
    case REQ_PAGE_UP: walk(a, -5); break;
    case REQ_PAGE_DOWN: walk(a, 5); break;
    case REQ_FIND:
        edit_set(&a->read.query, "", 0);
        a->read.typing = true;
        break;
    case REQ_GONE_AFTER: find_again(a, true); break;
    case REQ_GONE_BEFORE: find_again(a, false); break;
    case REQ_RUN(SLASH_COPY): copy(a); break;
    case REQ_RUN(SLASH_RECALL): recall(a); break;
    case REQ_RUN(SLASH_EDIT):
    case REQ_RUN(SLASH_BRANCH):
    case REQ_RUN(SLASH_PIN):
    case REQ_RUN(SLASH_UNPIN):
    case REQ_RUN(SLASH_FORGET): run_on_turn(a, (enum slash)(r - REQ_COMMANDS)); break;
    case REQ_RUN(SLASH_MAP): open_at(a, VIEW_MAP); break;
    case REQ_RUN(SLASH_TINT): open_at(a, VIEW_TINT); break;
    case REQ_OPEN: app_show(a, VIEW_CHAT); break;
    default: return false;
    }
    return true;
}

const struct view_ops view_read = {
    .name = "messages", .open = open, .draw = draw, .request = request, .capture = capture};
