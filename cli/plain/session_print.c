#include "cli/plain/plain_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/attached.h"
#include "base/utf8_width.h"
#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "cli/print/report.h"
#include "cli/print/sanitize.h"
#include "runtime/save/conversations.h"

enum { MAP_PARTS = 10, MAP_LAYERS_MAX = 8, SHARES_MAX = 12 };
enum { TURN_COLUMNS = 60 }; /* of a turn's message that /turns prints */

static void put_percent_kept(int64_t kept, int64_t seen, struct str *out)
{
    if (kept > 0 && 100 * kept < seen)
        str_puts(out, "<1 % kept\n");
    else
        str_printf(out, "%d %% kept\n", seen > 0 ? (int)(100 * kept / seen) : 0);
}

/* Earlier lengths of the conversation, and the share that was kept then. */
struct shares {
    int n; /* of all of them */
    int64_t n_pos[SHARES_MAX], kept[SHARES_MAX], seen[SHARES_MAX];
};

static void add_share(void *ctx, const struct retention *r)
{
    struct shares *p = ctx;
    if (p->n == SHARES_MAX) { /* every second one remains */
        for (int i = 0; i < SHARES_MAX / 2; i++) {
            p->n_pos[i] = p->n_pos[2 * i + 1];
            p->kept[i] = p->kept[2 * i + 1];
            p->seen[i] = p->seen[2 * i + 1];
        }
        p->n = SHARES_MAX / 2;
    }
    p->n_pos[p->n] = r->n_pos;
    ramp_sum(r, ramp_all(r), 0, r->n_cols, &p->kept[p->n], &p->seen[p->n]);
    p->n++;
}

/* The waterfall in words; nothing for a private conversation. */
static void put_past(const struct session *s, struct str *out)
{
    struct shares p = {0};
    char length[NUM_MAX];
    if (session_past(s, add_share, &p, NULL)) return;
    for (int i = 0; i < p.n; i++) {
        str_printf(out, "after %s tokens: ", num_exact(p.n_pos[i], length));
        put_percent_kept(p.kept[i], p.seen[i], out);
    }
}

/* In words, because a reader of lines may hear them. */
void session_print_map(const struct session *s)
{
    struct session_stats st;
    struct str out = {0};
    char a[NUM_MAX], b[NUM_MAX];
    int64_t kept, seen;
    struct retention *r = retention_new(s);
    session_stats(s, &st);
    session_retention(s, r);
    ramp_kept(&st, false, &out);
    str_puts(&out, ", ");
    ramp_budget(&st, &out);
    str_puts(&out, "\n");
    int parts = r->n_cols < MAP_PARTS ? r->n_cols : MAP_PARTS;
    for (int i = 0; i < parts; i++) {
        int col, end;
        ramp_columns(r, parts, i, &col, &end);
        ramp_sum(r, ramp_all(r), col, end, &kept, &seen);
        int64_t last = ramp_position(r, end) < r->n_pos ? ramp_position(r, end) : r->n_pos;
        str_printf(&out, "tokens %s to %s: ", num_exact(ramp_position(r, col), a),
                   num_exact(last - 1, b));
        put_percent_kept(kept, seen, &out);
    }
    for (int i = 0; r && r->n_cols > 0 && i < r->n_layer && r->n_layer <= MAP_LAYERS_MAX; i++) {
        ramp_sum(r, (struct ramp_part){i, 1, 0, r->n_head}, 0, r->n_cols, &kept, &seen);
        str_printf(&out, "layer %d: ", i);
        put_percent_kept(kept, seen, &out);
    }
    put_past(s, &out);
    report_aside("%s", str_get(&out));
    retention_free(r);
    str_release(&out);
}

struct tint {
    const struct session *session;
    int64_t n_heads, n_seen; /* positions that the model has read */
    bool ascii;
};

static struct tint tint_of(const struct session *s)
{
    struct session_stats st;
    session_stats(s, &st);
    return (struct tint){s, (int64_t)st.n_layer * st.n_kv_head, ramp_seen(&st), !utf8_locale()};
}

/* Share of the units of positions [from, end) that are kept, or n/a if none were read yet. */
static const char *put_percent(const struct tint *t, int64_t from, int64_t end, char out[NUM_MAX])
{
    uint16_t kept[256];
    int64_t sum = 0;
    if (end > t->n_seen) end = t->n_seen;
    int64_t n_pos = end - from;
    for (int64_t at = from; at < end; at += 256) {
        int n = end - at < 256 ? (int)(end - at) : 256;
        session_kept(t->session, at, n, kept);
        for (int i = 0; i < n; i++) sum += kept[i];
    }
    if (n_pos <= 0) return "  n/a";
    int percent = (int)(100 * sum / (n_pos * t->n_heads));
    if (sum > 0 && percent == 0) return " <1 %";
    snprintf(out, NUM_MAX, "%3d %%", percent);
    return out;
}

/* The tokens of a line are estimated from its share of the message's bytes. */
static int print_tinted(void *ctx, const struct store_message *m)
{
    const struct tint *t = ctx;
    struct str safe = {0};
    char share[NUM_MAX];
    static const char *const words[CHAT_ROLES] = {"sys", "you", "llm"};
    for (size_t at = 0; at < m->n_text;) {
        size_t n = strcspn(m->text + at, "\n"),
               next = at + n + 1 < m->n_text ? at + n + 1 : m->n_text;
        int64_t from = m->position + (int64_t)(m->n_tokens * at / m->n_text);
        int64_t end = m->position + (int64_t)(m->n_tokens * next / m->n_text);
        str_clear(&safe);
        sanitize(m->text + at, n, t->ascii, true, &safe);
        if (n > 0)
            report_aside("%s  %s  %s\n", put_percent(t, from, end > from ? end : from + 1, share),
                         at == 0 ? words[m->role] : "   ", str_get(&safe));
        at = next;
    }
    str_release(&safe);
    return 0;
}

int session_print_tint(struct conversations *l, const char *name, const struct session *s,
                       struct err *e)
{
    struct tint tint = tint_of(s);
    return conversations_messages(l, name, print_tinted, &tint, e);
}

/* A turn begins with the user's message; its answer counts with it. */
struct turn_lines {
    struct tint tint;
    int64_t turn;
};

static int print_turn(void *ctx, const struct store_message *m)
{
    struct turn_lines *t = ctx;
    struct str safe = {0};
    char share[NUM_MAX];
    if (m->role != CHAT_USER) return 0;
    t->turn++;
    const char *mark = session_is_forgotten(t->tint.session, t->turn) ? ", forgotten"
                       : session_is_pinned(t->tint.session, t->turn)  ? ", pinned"
                                                                      : "";
    size_t skip = attached_skip(m->text, m->n_text);
    const char *words = m->text + (skip < m->n_text ? skip : 0);
    size_t n = strcspn(words, "\n"), shown = utf8_fit(words, n, TURN_COLUMNS);
    sanitize(words, shown, t->tint.ascii, true, &safe);
    if (words + shown < m->text + m->n_text) str_puts(&safe, t->tint.ascii ? "..." : "…");
    const char *kept =
        put_percent(&t->tint, m->position, session_turn_end(t->tint.session, t->turn), share);
    report_aside("turn %lld: %s kept%s: %s\n", (long long)t->turn, kept + strspn(kept, " "), mark,
                 str_get(&safe));
    str_release(&safe);
    return 0;
}

int session_print_turns(struct conversations *l, const char *name, const struct session *s,
                        struct err *e)
{
    struct turn_lines t = {.tint = tint_of(s)};
    return conversations_messages(l, name, print_turn, &t, e);
}

/* "turns   pinned 1, 3  forgotten 5"; nothing if no turn is marked. */
static void put_turns(const char *name, const struct save_turns *t, struct str *out)
{
    if (t->n) str_printf(out, "%s%s", out->n ? "  " : "", name);
    for (int i = 0; i < t->n; i++) str_printf(out, "%s %d", i ? "," : "", t->turn[i]);
}

static void print_marks(const struct session_stats *st)
{
    struct str text = {0};
    put_turns("pinned", &st->pinned, &text);
    put_turns("forgotten", &st->forgotten, &text);
    if (text.n) report_aside("turns   %s\n", str_get(&text));
    str_release(&text);
}

void session_print_stats(const struct session *s)
{
    struct session_stats st;
    char a[NUM_MAX], b[NUM_MAX], c[NUM_MAX], d[NUM_MAX], e[NUM_MAX];
    session_stats(s, &st);
    report_aside("model   %s  weights %s  kv %s  policy %s%s  on %s\n", st.model, st.weights, st.kv,
                 st.policy, st.scored ? " with retaining heads" : "", st.device);
    report_aside("chat    %s tokens  %lld turn%s  %s re-read\n", num_exact(st.n_tokens, a),
                 (long long)st.n_turns, st.n_turns == 1 ? "" : "s", num_exact(st.n_reread, b));
    report_aside("cache   kept %s of %s units (%s)  evicted %s since opened  %lld per head\n",
                 num_exact(st.units_kept, a), num_exact(st.units_seen, b),
                 num_share(st.units_kept, st.units_seen, c), num_exact(st.units_evicted, d),
                 (long long)st.budget);
    if (st.archive_max_bytes)
        report_aside(
            "recall  archive %s of %s  reaches %s tokens back, %s as text  %s units came back\n",
            num_bytes(st.archive_bytes, a), num_bytes(st.archive_max_bytes, b),
            num_exact(st.archive_max_tokens, d),
            num_exact(recall_text_reach(st.archive_max_tokens), e),
            num_exact(st.units_returned, c));
    print_marks(&st);
    report_aside("mem     weights %s  cache %s taken, %s in use  scratch %s  process %s\n",
                 num_bytes(st.weights_bytes, a), num_bytes(st.cache_bytes, b),
                 num_bytes(st.cache_used_bytes, c), num_bytes(st.scratch_bytes, d),
                 num_bytes(st.process_bytes, e));
    if (st.state_bytes)
        report_aside("state   %s of recurrent layers, for any length\n",
                     num_bytes(st.state_bytes, a));
    report_aside("speed   decode %s tok/s  prefill %s tok/s  first token %s\n",
                 num_rate(st.decode_tok_s, a), num_rate(st.prefill_tok_s, b),
                 num_ms(st.first_token_ms, c));
    if (st.n_proposed)
        report_aside("ahead   %s of %s proposals were right: %s of %s tokens of the answer\n",
                     num_exact(st.n_accepted, a), num_exact(st.n_proposed, b),
                     num_exact(st.n_accepted, c), num_exact(st.n_decoded, d));
}
