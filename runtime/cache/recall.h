/* recall: returns evicted cache units when a message needs them.
 *
 * Before the last part of a message is run, the archive (archive.h) is searched for the stretches
 * of RECALL_WINDOW positions that the message is about. Their units return to their heads, in
 * position order, in slots of chunk and reserve that are idle at that moment: the plan does not
 * grow. Then the message is run and answered, and at the next eviction returned units compete like
 * all others.
 *
 * Keys are kept before RoPE and rotated by slot, so a returned unit is as good as before: the same
 * bytes in the same order. The idea of returning pages is ArkVale's (NeurIPS 2024) and EpiCache's
 * (arXiv 2509.17396), the other choices are our own. */
#ifndef RETAIN_RUNTIME_CACHE_RECALL_H
#define RETAIN_RUNTIME_CACHE_RECALL_H

#include "runtime/cache/archive.h"

struct evict_rule;
struct pool;

#define RECALL_WINDOW  16  /* positions that are searched as one */
#define RECALL_SPAN    24  /* positions of a window with the rest of its sentence, at most */
#define RECALL_MAX     16  /* windows that return at once, at most */
#define RECALL_MESSAGE 128 /* the newest tokens of a message that are searched for, at most */
#define RECALL_ANSWER  24  /* the newest tokens of an answer that are searched for, at most */

enum recall_chooser { RECALL_OFF, RECALL_WORDS };

struct recall_opts {
    enum recall_chooser chooser;
    int n_windows;         /* returned for one message, at most RECALL_MAX */
    int64_t archive_bytes; /* of units; 0 = RECALL_DISK_BYTES, in memory RECALL_PRIVATE_BYTES */
    int n_text;            /* newest positions that are found even without units */
};
#define RECALL_WINDOWS_DEFAULT 4
#define RECALL_TEXT            (1 << 20) /* n_text in a chat */
/* So many positions back a chat finds text, of an archive that holds the units of n. */
static inline int64_t recall_text_reach(int64_t n)
{
    return n > RECALL_TEXT ? n : RECALL_TEXT;
}
#define RECALL_DISK_BYTES    ((int64_t)1 << 30)
#define RECALL_PRIVATE_BYTES ((int64_t)64 << 20)

/* The search query. Words of `before`, the message before this one, count a third: a follow-up
 * ("And my sister's?") names its subject only there. */
struct recall_query {
    const struct archive_token *text, *before;
    const struct archive_token *wanted; /* words that the user asked to bring back */
    int n, n_before, n_wanted;
    int room;           /* positions that may return in all */
    uint32_t newest;    /* windows from this position on do not return: they are in the cache */
    bool more;          /* compare by meaning if it is a vague question (recall_choose) */
    bool texts;         /* choose windows without units, too, for a question that names something */
    uint32_t from, end; /* positions that the user asked to bring back; none if equal */
};

struct recall_window {
    uint32_t pos; /* positions [pos, pos + n) */
    int n;
    float weight;
    bool text;  /* units of it were dropped: it can only be read again */
    bool named; /* the message's words name what it says; otherwise it is similar in meaning */
};

/* The chooser with this name ("off", "words"); false = unknown. */
bool recall_chooser_named(const char *name, enum recall_chooser *out);
const char *recall_chooser_name(enum recall_chooser chooser);

/* Chooses windows before the newest units, if anything was evicted. The weight of a window is the
 * rarity of the words and pairs of words that it shares with the message; questions weigh less than
 * statements, the model less than the user. The heaviest window is chosen first, then the passage
 * that withdraws what it says (recall_withdrawn.c), then the newest ones with at least half of its
 * weight. A message that shares no word with the archive chooses none.
 *
 * A question is vague if no window has much of the weight of its words ("Who is my manager?" after
 * "My boss is Irene."). It chooses the sentences whose words are most like its own in meaning
 * (recall_meaning.c). What the user asked to bring back is searched for by words alone.
 *
 * Returns the number of windows, at most `max`, in the order of choice. */
int recall_choose(struct archive *x, const struct cache *c, const struct recall_query *q, int max,
                  struct recall_window out[RECALL_MAX]);

void recall_sort(struct recall_window *windows, int n); /* by position */

/* If words name a passage, single units of other facts mislead the model. So for its answer the
 * units of positions before `from` are set aside, without sinks, pins and these windows. Attention
 * does not read them until they are put back. Call both while keys and values are in host memory,
 * and put them back before units are evicted, dropped or inserted. */
struct recall_aside {
    uint32_t from;
    int n; /* 0 = nothing is aside */
    struct recall_window windows[RECALL_MAX];
};
void recall_set_aside(struct cache *c, const struct evict_rule *rule,
                      const struct recall_aside *aside, struct pool *p);
bool recall_is_aside(const struct cache *c);
void recall_put_back(struct cache *c, struct pool *p);

/* Windows with units in [from, end), in order, of which any is evicted. Returns their number, at
 * most `max`. */
int recall_range(const struct archive *x, const struct cache *c, uint32_t from, uint32_t end,
                 int max, struct recall_window out[RECALL_MAX]);

/* Returns the units of the windows to the heads that lack them, on the pool's threads; sorts the
 * windows by position. Every head must have room for all of the windows' positions. *n_units: the
 * number of returned units. Skips damaged pieces of the archive. */
int recall_return(struct archive *x, struct cache *c, struct recall_window *windows, int n,
                  struct pool *p, int64_t *n_units, struct err *e);

#endif
