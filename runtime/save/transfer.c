#include "runtime/save/transfer.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "store/store.h"

#define FORMAT        "retain-conversation"
#define COMMENT_BEGIN "<!-- " FORMAT " "
#define COMMENT_END   " -->"
#define DAMAGED       "[this message is damaged]"

/* ---- JSON, written --------------------------------------------------------------------------- */

struct writer {
    struct str *out;
    int64_t n;
};

static int put_message(void *ctx, const struct store_message *m)
{
    struct writer *w = ctx;
    str_printf(w->out, "%s{\"role\":\"%s\",\"text\":", w->n++ ? "," : "", chat_role_word(m->role));
    if (m->damaged) {
        struct str text = {0};
        str_printf(&text, DAMAGED "%s%s", m->n_text ? "\n\n" : "", m->text);
        str_json(w->out, text.data, text.n);
        str_release(&text);
    } else if (!str_json(w->out, m->text, m->n_text)) {
        str_puts(w->out, ",\"text_hex\":\"");
        for (size_t i = 0; i < m->n_text; i++) str_printf(w->out, "%02x", (uint8_t)m->text[i]);
        str_puts(w->out, "\"");
    }
    str_printf(w->out, ",\"created_ms\":%lld", (long long)m->created_ms);
    if (m->seq < 0) str_puts(w->out, ",\"partial\":true");
    if (m->damaged) str_puts(w->out, ",\"damaged\":true");
    if (m->settings) {
        str_puts(w->out, ",\"settings\":");
        str_json(w->out, m->settings, strlen(m->settings));
    }
    if (m->thought.text) {
        str_puts(w->out, ",\"thought\":{\"text\":");
        str_json(w->out, m->thought.text, m->thought.n);
        str_printf(w->out, ",\"tokens\":%lld,\"ms\":%lld}", (long long)m->thought.n_tokens,
                   (long long)m->thought.ms);
    }
    str_puts(w->out, ",\"tokens\":[");
    for (size_t i = 0; i < m->n_tokens; i++)
        str_printf(w->out, "%s%d", i ? "," : "", (int)m->tokens[i]);
    str_puts(w->out, "]}");
    return 0;
}

static int put_tag(void *ctx, const char *tag)
{
    struct writer *w = ctx;
    str_puts(w->out, w->n++ ? "," : ",\"tags\":[");
    str_json(w->out, tag, strlen(tag));
    return 0;
}

/* Decides whether an error ends the export. A damaged part is counted instead, if allowed. */
static int forgive(int rc, int64_t *n_damaged)
{
    if (rc != ERR_FORMAT || !n_damaged) return rc;
    ++*n_damaged;
    return 0;
}

int transfer_json(struct store *s, const struct store_conversation *c, struct str *out,
                  int64_t *n_damaged, struct err *e)
{
    struct writer w = {.out = out};
    char *state = NULL;
    int rc = forgive(store_state_get(s, c->id, &state, e), n_damaged);
    if (rc) return rc;
    str_puts(out, "{\"format\":\"" FORMAT "\",\"version\":1,\"name\":");
    str_json(out, c->name, strlen(c->name));
    str_puts(out, ",\"title\":");
    str_json(out, c->title, strlen(c->title));
    str_printf(out, ",\"created_ms\":%lld,\"updated_ms\":%lld,\"state\":", (long long)c->created_ms,
               (long long)c->updated_ms);
    str_json(out, state ? state : "", state ? strlen(state) : 0);
    struct writer tags = {.out = out};
    rc = forgive(store_tag_each(s, c->id, put_tag, &tags, e), n_damaged);
    if (tags.n) str_puts(out, "]");
    str_puts(out, ",\"messages\":[");
    if (!rc) rc = store_message_rescue(s, c->id, put_message, &w, n_damaged, e);
    str_puts(out, "]}\n");
    free(state);
    return rc;
}

/* ---- databases ------------------------------------------------------------------------------- */

int transfer_database(struct store *s, const struct store_conversation *c, const char *path,
                      struct err *e)
{
    struct store *to = NULL;
    struct store_conversation made;
    if (access(path, F_OK) == 0)
        return err_set(e, ERR_FAIL, "%s already exists; choose another file", path);
    int rc = store_open(&to, path, NULL, e);
    if (!rc) rc = store_conversation_copy(s, c->id, INT64_MAX, INT64_MAX, to, c->name, &made, e);
    if (!rc) {
        rc = store_close_single(to, e);
        to = NULL;
    }
    store_close(to);
    if (rc) store_remove_files(path);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct import {
    struct store *s;
    const char *path, *name;
    int line;         /* of the file, from 1 */
    int n;            /* conversations so far */
    struct str names; /* their names, each with its NUL: passed on when all are imported */
    struct err *e;
};

static int bad(const struct import *im, const char *what)
{
    return err_set(im->e, ERR_FORMAT,
                   "%s, line %d: %s; only what `retain export` wrote can be imported", im->path,
                   im->line, what);
}

static const char *get_string(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static bool get_ms(const cJSON *o, const char *key, int64_t *out)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(v) || !(fabs(v->valuedouble) <= 1e15)) return false;
    *out = (int64_t)v->valuedouble;
    return true;
}

static int get_role(const cJSON *m)
{
    const char *word = get_string(m, "role");
    for (int i = 0; word && i < CHAT_ROLES; i++)
        if (!strcmp(word, chat_role_word((enum chat_role)i))) return i;
    return -1;
}

static bool get_tokens(const cJSON *m, struct str *out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(m, "tokens"), *v;
    if (!cJSON_IsArray(list)) return false;
    cJSON_ArrayForEach(v, list)
    {
        if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > INT32_MAX)
            return false;
        int32_t id = (int32_t)v->valuedouble;
        if (id != v->valuedouble) return false;
        str_append(out, &id, sizeof id);
    }
    return true;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_text(const cJSON *m, struct str *out)
{
    const char *text = get_string(m, "text"), *hex = get_string(m, "text_hex");
    if (!text) return false;
    if (!hex) {
        str_puts(out, text);
        return true;
    }
    for (; hex[0]; hex += 2) {
        if (digit(hex[0]) < 0 || digit(hex[1]) < 0) return false;
        char byte = (char)(digit(hex[0]) * 16 + digit(hex[1]));
        str_append(out, &byte, 1);
    }
    return true;
}

/* Nothing when it has no text. */
static void get_thought(const cJSON *m, struct store_thought *out)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(m, "thought");
    out->text = get_string(o, "text");
    if (!out->text) return;
    out->n = strlen(out->text);
    get_ms(o, "tokens", &out->n_tokens);
    get_ms(o, "ms", &out->ms);
}

/* An unfinished answer is written to the tail: all text with its first token. */
static int import_tail(struct import *im, int64_t id, const struct store_message *m,
                       int64_t position)
{
    int rc = m->n_tokens ? 0 : bad(im, "an unfinished answer without token ids");
    for (size_t i = 0; !rc && i < m->n_tokens; i++) {
        struct store_tail t = {.position = position + (int64_t)i,
                               .token = m->tokens[i],
                               .text = m->text,
                               .n_text = i == 0 ? m->n_text : 0};
        rc = store_tail_add(im->s, id, &t, im->e);
    }
    return rc;
}

/* Older exports have only the mark in the text, not the key "damaged". */
static bool is_damaged(const cJSON *j)
{
    const char *text = get_string(j, "text");
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(j, "tokens");
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "damaged")) ||
           (text && !strncmp(text, DAMAGED, strlen(DAMAGED)) && cJSON_IsArray(tokens) &&
            cJSON_GetArraySize(tokens) == 0);
}

static int import_message(struct import *im, int64_t id, const cJSON *j, int64_t *position)
{
    struct str text = {0}, tokens = {0};
    int role = get_role(j), rc = 0;
    struct store_message m = {.role = (enum chat_role)role};
    bool partial = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "partial"));
    if (role < 0 || !get_text(j, &text) || !get_ms(j, "created_ms", &m.created_ms))
        rc = bad(im, "a message without role, text or created_ms");
    else if (!get_tokens(j, &tokens))
        rc = bad(im, "a message without its token ids");
    else if (partial && (j->next || role != CHAT_ASSISTANT))
        rc = bad(im, "a partial message that is not the last answer");
    /* A note for the reader, neither the user's text nor the model's; the model does not see it. */
    if (is_damaged(j)) {
        m.role = CHAT_SYSTEM;
        tokens.n = 0;
    }
    m.text = str_get(&text);
    m.n_text = text.n;
    m.settings = get_string(j, "settings");
    get_thought(j, &m.thought);
    m.tokens = (const int32_t *)(void *)tokens.data;
    m.n_tokens = tokens.n / sizeof *m.tokens;
    if (!rc)
        rc = partial ? import_tail(im, id, &m, *position) : store_message_add(im->s, id, &m, im->e);
    *position += (int64_t)m.n_tokens;
    str_release(&text);
    str_release(&tokens);
    return rc;
}

static int import_object(struct import *im, const cJSON *o)
{
    struct store_conversation c;
    int64_t created_ms, updated_ms, position = 0;
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(o, "messages"), *m;
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(o, "version");
    const char *format = get_string(o, "format"), *name = get_string(o, "name");
    const char *state = get_string(o, "state");
    if (!format || strcmp(format, FORMAT) || !cJSON_IsArray(messages) || !name || !*name ||
        !state || !get_ms(o, "created_ms", &created_ms) || !get_ms(o, "updated_ms", &updated_ms))
        return bad(im, "not a conversation");
    if (!cJSON_IsNumber(version) || version->valuedouble != 1)
        return bad(im, "a conversation of a newer version");
    if (im->name && im->n > 0) return bad(im, "a second conversation, but one name for all");
    int rc = store_conversation_create(im->s, im->name ? im->name : name, &c, im->e);
    if (rc == ERR_USAGE && !im->name) err_prefix(im->e, "%s", im->path);
    if (rc) return rc;
    cJSON_ArrayForEach(m, messages)
    {
        if (!rc) rc = import_message(im, c.id, m, &position);
    }
    const cJSON *tags = cJSON_GetObjectItemCaseSensitive(o, "tags"), *tag;
    cJSON_ArrayForEach(tag, tags)
    {
        const char *text = cJSON_GetStringValue(tag);
        if (!rc) rc = text ? store_tag_add(im->s, c.id, text, im->e) : bad(im, "an invalid tag");
    }
    if (!rc && *state) rc = store_state_put(im->s, c.id, state, im->e);
    if (!rc) rc = store_conversation_times(im->s, c.id, created_ms, updated_ms, im->e);
    str_append(&im->names, c.name, strlen(c.name) + 1);
    im->n++;
    return rc;
}

/* Whether an escape stands for NUL: cJSON would silently cut the string there. */
static bool has_nul(const char *text, size_t n)
{
    const char *end = text + n;
    for (const char *p = text; (p = memchr(p, '\\', (size_t)(end - p))) && end - p > 1; p += 2)
        if (end - p >= 6 && !memcmp(p, "\\u0000", 6)) return true;
    return memchr(text, 0, n) != NULL;
}

static int import_json(struct import *im, const char *text, size_t n)
{
    if (has_nul(text, n)) return bad(im, "a NUL character in a text");
    cJSON *o = cJSON_ParseWithLength(text, n);
    int rc = o ? import_object(im, o) : bad(im, "not JSON");
    cJSON_Delete(o);
    return rc;
}

/* One line: an object; or, in the Markdown of versions before 0.2.0, a comment with one, or text
 * for readers. */
static int import_line(struct import *im, const char *line, size_t n, bool markdown)
{
    const size_t begin = strlen(COMMENT_BEGIN), end = strlen(COMMENT_END);
    im->line++;
    while (n > 0 && strchr(" \t\r", line[n - 1])) n--;
    if (n == 0) return 0;
    if (!markdown) return import_json(im, line, n);
    if (n < begin + end || memcmp(line, COMMENT_BEGIN, begin)) return 0;
    if (memcmp(line + n - end, COMMENT_END, end)) return bad(im, "the comment has no end");
    return import_json(im, line + begin, n - begin - end);
}

static int import_text(struct import *im, const struct str *text)
{
    const char *p = str_get(text), *end = p + text->n;
    bool markdown = *p != '{';
    int rc = store_begin(im->s, im->e);
    while (!rc && p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((nl ? nl : end) - p);
        rc = import_line(im, p, n, markdown);
        p += n + 1;
        if (!rc && p < end) rc = store_progress(im->s, p - str_get(text), (int64_t)text->n, im->e);
    }
    if (!rc && im->n == 0) rc = bad(im, "no conversation");
    if (!rc) rc = store_commit(im->s, im->e);
    store_rollback(im->s);
    return rc;
}

struct database_import {
    struct import *im;
    struct store *from;
    int64_t n; /* conversations in it */
};

static int import_one(void *ctx, const struct store_conversation *c)
{
    struct database_import *d = ctx;
    struct import *im = d->im;
    struct store_conversation made;
    if (im->name && im->n > 0)
        return err_set(im->e, ERR_FORMAT,
                       "%s holds more than one conversation, but there is one "
                       "name for all",
                       im->path);
    int rc = store_conversation_copy(d->from, c->id, INT64_MAX, INT64_MAX, im->s,
                                     im->name ? im->name : c->name, &made, im->e);
    if (rc == ERR_USAGE && !im->name) err_prefix(im->e, "%s", im->path);
    im->n++;
    if (!rc) str_append(&im->names, made.name, strlen(made.name) + 1);
    return rc ? rc : store_progress(im->s, im->n, d->n, im->e);
}

static int import_database(struct import *im, const struct store_key *key)
{
    struct database_import d = {.im = im};
    int rc = store_open_source(&d.from, im->path, key, im->e);
    if (!rc) rc = store_conversation_count(d.from, &d.n, im->e);
    if (!rc) rc = store_begin(im->s, im->e);
    if (!rc) rc = store_conversation_list(d.from, import_one, &d, im->e);
    if (!rc && im->n == 0) rc = err_set(im->e, ERR_FORMAT, "%s holds no conversation", im->path);
    if (!rc) rc = store_commit(im->s, im->e);
    store_rollback(im->s);
    store_close(d.from);
    return rc;
}

/* Tests regular files only: bytes read from a pipe would be lost. */
static bool is_database(const char *path)
{
    char head[16] = "";
    struct stat st;
    if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, head, sizeof head);
    close(fd);
    return n == sizeof head && !memcmp(head, "SQLite format 3", sizeof head);
}

int transfer_import(struct store *s, const char *path, const char *name,
                    const struct store_key *key, void (*each)(void *ctx, const char *name),
                    void *ctx, struct err *e)
{
    struct import im = {.s = s, .path = path, .name = name, .e = e};
    struct str text = {0};
    if (store_is_file(s, path))
        return err_set(e, ERR_USAGE, "%s is the database in use; import needs another file", path);
    bool database = is_database(path);
    int rc = database ? import_database(&im, key) : file_read(path, FILE_MESSAGE, &text, e);
    if (!rc && !database) rc = import_text(&im, &text);
    const char *names = str_get(&im.names), *end = names + im.names.n;
    for (; !rc && each && names < end; names += strlen(names) + 1) each(ctx, names);
    str_release(&im.names);
    str_release(&text);
    return rc;
}
