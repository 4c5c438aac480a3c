#include "cli/cli_session.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8_width.h"
#include "cli/num.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/ramp.h"
#include "cli/sanitize.h"
#include "cli/secret.h"
#include "runtime/session/conversations.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

void interrupt_init(void)
{
    struct sigaction a = {.sa_handler = on_interrupt}; /* no SA_RESTART: a waiting read returns */
    sigaction(SIGINT, &a, NULL);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
}

bool interrupt_pending(void)
{
    return interrupted != 0;
}

void interrupt_clear(void)
{
    interrupted = 0;
}

bool interrupt_stop(void *ctx)
{
    (void)ctx;
    return interrupt_pending();
}

static int on_load(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return interrupt_pending();
}

int cli_session_open(struct cli_session *t, const struct options *o, bool saved,
                     const struct session_sink *sink, struct err *e)
{
    memset(t, 0, sizeof *t);
    struct str path = {0};
    saved = saved && !o->private_mode;
    int rc = saved ? path_database(o, &path, e) : 0;
    if (!rc) rc = secret_open_library(&t->library, o, saved ? path.data : NULL, e);
    str_release(&path);
    if (!rc) rc = engine_open(&t->engine, o, t->library, on_load, NULL, e);
    if (!rc) rc = session_open(&t->session, t->engine, saved ? t->library : NULL, o, sink, e);
    if (rc) cli_session_close(t);
    return rc;
}

void cli_session_close(struct cli_session *t)
{
    session_close(t->session);
    engine_close(t->engine);
    conversations_close(t->library);
    memset(t, 0, sizeof *t);
}

static void print_note(const char *text)
{
    struct str safe = {0};
    sanitize(text, strlen(text), !utf8_locale(), false, &safe);
    fprintf(stderr, "retain: %s\n", str_get(&safe));
    str_release(&safe);
}

int talk_fail(const struct err *e)
{
    if (e->code != ERR_STOP) print_note(e->text);
    return err_exit_status(e->code);
}

void talk_note(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_note(text);
}

void talk_print_map(const struct session *s)
{
    struct session_stats st;
    struct str line = {0};
    bool ascii = !utf8_locale();
    struct retention *r = retention_new(s);
    session_stats(s, &st);
    if (r) session_retention(s, r);
    ramp_strip(r, &st, 50, ascii, &line);
    str_puts(&line, "\n     ");
    static const char *const shares[RAMP_CLASSES] = {"gone", ">0", "25+", "50+", "75+ %"};
    for (int cls = RAMP_CLASSES - 1; cls > 0; cls--)
        str_printf(&line, "%s %s  ", ramp_glyph(cls, ascii), shares[cls]);
    if (r)
        str_printf(&line, "of all heads; 1 column = %lld tokens", (long long)(r->n_pos + 49) / 50);
    fprintf(stderr, "%s\n", str_get(&line));
    retention_free(r);
    str_release(&line);
}

struct tint {
    const struct session *session;
    int64_t n_heads;
    bool ascii;
};

/* Share of the units of positions [from, end) that is left; -1 = none were run. */
static int percent_kept(const struct tint *t, int64_t from, int64_t end)
{
    uint16_t kept[256];
    int64_t sum = 0, n_pos = end - from;
    for (int64_t at = from; at < end; at += 256) {
        int n = end - at < 256 ? (int)(end - at) : 256;
        session_kept(t->session, at, n, kept);
        for (int i = 0; i < n; i++) sum += kept[i];
    }
    return n_pos > 0 ? (int)(100 * sum / (n_pos * t->n_heads)) : -1;
}

/* Which tokens a line has is taken from its share of the message's bytes. */
static int print_tinted(void *ctx, const struct conversations_message *m)
{
    const struct tint *t = ctx;
    struct str safe = {0};
    static const char *const words[CHAT_ROLES] = {"sys", "you", "llm"};
    for (size_t at = 0; at < m->n_text;) {
        size_t n = strcspn(m->text + at, "\n"),
               next = at + n + 1 < m->n_text ? at + n + 1 : m->n_text;
        int64_t from = m->position + m->n_tokens * (int64_t)at / (int64_t)m->n_text;
        int64_t end = m->position + m->n_tokens * (int64_t)next / (int64_t)m->n_text;
        str_clear(&safe);
        sanitize(m->text + at, n, t->ascii, true, &safe);
        if (n > 0)
            fprintf(stderr, "%3d %%  %s  %s\n", percent_kept(t, from, end > from ? end : from + 1),
                    at == 0 ? words[m->role] : "   ", str_get(&safe));
        at = next;
    }
    str_release(&safe);
    return 0;
}

int talk_print_tint(const struct cli_session *t, struct err *e)
{
    struct session_stats st;
    session_stats(t->session, &st);
    struct tint tint = {t->session, (int64_t)st.n_layer * st.n_kv_head, !utf8_locale()};
    return conversations_messages(t->library, session_name(t->session), print_tinted, &tint, e);
}

void talk_print_stats(const struct session *s)
{
    struct session_stats st;
    char a[NUM_MAX], b[NUM_MAX], c[NUM_MAX], d[NUM_MAX];
    session_stats(s, &st);
    fprintf(stderr, "model   %s  weights %s  kv %s  policy %s  on %s\n", st.model, st.weights,
            st.kv, st.policy, st.device);
    fprintf(stderr, "talk    %s tokens  %lld turn%s  %s re-read\n", num_exact(st.n_tokens, a),
            (long long)st.n_turns, st.n_turns == 1 ? "" : "s", num_exact(st.n_reread, b));
    fprintf(stderr, "cache   kept %s of %s units (%s)  evicted %s since opened  %lld per head\n",
            num_exact(st.units_kept, a), num_exact(st.units_seen, b),
            num_share(st.units_kept, st.units_seen, c), num_exact(st.units_evicted, d),
            (long long)st.budget);
    fprintf(stderr, "mem     weights %s  kv %s  scratch %s  process %s\n",
            num_bytes(st.weights_bytes, a), num_bytes(st.cache_bytes, b),
            num_bytes(st.scratch_bytes, c), num_bytes(st.process_bytes, d));
    fprintf(stderr, "speed   decode %s tok/s  prefill %s tok/s  first token %.0f ms\n",
            num_rate(st.decode_tok_s, a), num_rate(st.prefill_tok_s, b), st.first_token_ms);
}

bool talk_code(const struct str *text, size_t *from, size_t *n)
{
    const char *s = str_get(text);
    bool inside = false, found = false;
    size_t start = 0;
    for (size_t at = 0; at < text->n;) {
        size_t line = strcspn(s + at, "\n");
        size_t blank = strspn(s + at, " ");
        bool fence =
            strncmp(s + at + blank, "```", 3) == 0 || strncmp(s + at + blank, "~~~", 3) == 0;
        if (fence && !inside) start = at + line + (at + line < text->n);
        if (fence && inside) {
            *from = start;
            *n = at - start;
            found = true;
        }
        if (fence) inside = !inside;
        at += line + 1;
    }
    if (inside) {
        *from = start;
        *n = text->n - start;
    }
    return found || inside;
}
