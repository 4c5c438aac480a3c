/* session_parts: the parts of a session, shared by the files that implement session.h. */
#ifndef RETAIN_RUNTIME_SESSION_SESSION_PARTS_H
#define RETAIN_RUNTIME_SESSION_SESSION_PARTS_H

#include "base/utf8.h"
#include "runtime/forward/context.h"
#include "runtime/save/save.h"
#include "runtime/session/session.h"
#include "runtime/session/speculate.h"
#include "runtime/token/thought.h"
#include "store/store.h"

struct session_message {
    enum chat_role role;
    int64_t end;        /* n_tokens after it */
    int64_t created_ms; /* Unix time */
};

struct session {
    struct engine *engine;
    struct save *save; /* NULL = private */
    struct session_opts opts;
    struct context ctx;
    struct session_recall *recall;
    struct speculate *speculate;      /* NULL = off */
    struct sampler_entry *candidates; /* [n_vocab] */
    struct save_state state;
    int64_t id; /* of the conversation in the store */
    char name[STORE_NAME_MAX];
    char notice[1024];
    bool begun; /* created by this session, with a generated name */
    bool holds; /* a cut is saved together with the next answer's first token (store_hold) */
    bool must_reopen;
    bool other_model; /* it was saved with one, which the user was told */

    struct session_turn *turn;
    struct save_turns forgetting;          /* of the forgotten turns, those still in the cache */
    struct evict_pin pins[SAVE_TURNS_MAX]; /* positions of the pinned turns */

    struct tokens pending; /* part of the conversation, but not run yet */
    int64_t n_tokens;      /* positions of the conversation: n_run + pending */
    int64_t n_turns, n_reread;
    int32_t recent[SAMPLER_HISTORY]; /* the last n_recent ids of the transcript */
    int n_recent;
    struct session_message *messages; /* of the transcript */
    size_t n_messages, messages_max;

    /* the running answer */
    bool answering; /* not yet stored as a message */
    struct tokens answer_ids;
    struct str answer, thought;
    struct str heard[2]; /* bytes of the newest token: of the thought, of the answer */
    struct utf8_join join, thought_join;
    struct str held;     /* of the answer, that may be the beginning of a text that ends it */
    bool text_ended;     /* such a text ended it */
    int64_t thought_ns;  /* time of its first token; 0 = none yet */
    int64_t n_killed;    /* tokens of an answer that a kill interrupted, until it is continued */
    int64_t n_unthought; /* tokens of the turn's thought before this answer continued it */
    double thought_ms;

    int64_t turn_ns, read_ns, decode_ns; /* of the running or last turn */
    int64_t n_read, n_decoded;
    struct speculate_counts proposals;
    double first_token_ms;
};

extern const struct session_sink session_silent; /* reports nothing */

static inline bool session_last_is(const struct session *s, enum chat_role role)
{
    return s->n_messages && s->messages[s->n_messages - 1].role == role;
}

/* Asserts the invariants between two turns; for CHECK (base/check.h). */
void session_check(const struct session *s);

/* Settings to be saved from now on; NULL = as before. */
void session_keep(struct session *s, const char *settings);

/* Records the transcript's next token as run, or (push) as pending. */
void session_remember(struct session *s, int32_t id);
void session_push(struct session *s, int32_t id);
/* Removes the first n pending tokens after they were run. */
void session_drop_pending(struct session *s, size_t n);

/* Adds a message that ends before token `end`; created_ms 0 = now. */
void session_add_message(struct session *s, enum chat_role role, int64_t end, int64_t created_ms);
/* Whether a token ends the answer, in the session at `session`. */
bool session_ends_turn(const void *session, int32_t id);
/* The text directly before a message's text. */
const char *session_before(const struct session *s, const struct store_message *m);
/* The bytes of a message's text that each of its tokens stands for (token_text_align), to be
 * freed. */
uint16_t *session_align(const struct session *s, const struct store_message *m);
/* Reports which tokens of a message stand for its text, to the sink and to recall. Call with each
 * message, in order. */
void session_describe(struct session *s, const struct store_message *m,
                      const struct session_sink *k);
/* The same, and keeps track of the newest turn. */
void session_follow(struct session *s, const struct store_message *m, const struct session_sink *k);
/* Makes whole characters of an answer's bytes. */
void session_join_characters(const struct str *bytes, struct str *out);

const struct save_state *session_state_now(struct session *s);
int session_save_now(struct session *s, const struct save_token *first, struct err *e);

/* Runs all pending tokens. answers: an answer follows, so evicted units that the message is about
 * return first. The last chunk is not saved: its units are written together with the answer's first
 * token. SESSION_TURN_END = all tokens were run. */
int session_read_pending(struct session *s, bool answers, const struct session_sink *k,
                         enum session_end *end, struct err *e);

/* An error, if tokens that had to be read were not all read. */
int session_all_read(const struct session *s, enum session_end how, struct err *e);

/* ---- the newest turn (session_turn.c) ---- */

void session_turn_open(struct session *s);
void session_turn_release(struct session *s);
void session_turn_forget(struct session *s);
/* Tokens of its thought; ids of its answer, [n]. */
int64_t session_turn_thought(const struct session *s);
const int32_t *session_turn_ids(const struct session *s, size_t *n);
/* Copies its reader of thoughts; false: there is no turn. */
bool session_turn_reader(const struct session *s, struct thought_reader *out);
/* Ends the thought, if the answer has none of its marks, for what was heard. */
void session_turn_end_thought(struct session *s);
/* Adds the session's answer and its thought to the turn's. */
void session_turn_said(struct session *s);
/* A generated token; appends the text it adds to *thought and *answer. bytes [n]: its own text. */
void session_turn_token(struct session *s, int32_t id, const char *bytes, size_t n,
                        struct str *thought, struct str *answer);
/* A stored answer; appends what its tokens spell. */
void session_turn_answer(struct session *s, const struct store_message *m, struct str *thought,
                         struct str *answer);
/* Whether the token ends the assistant's turn, not only its thought. */
bool session_turn_is_over(const struct session *s, int32_t id);

/* The tokens that the template writes differently now that a message follows the turn; `again` is
 * to be released. */
struct session_change {
    int64_t from, end; /* positions to evict */
    bool drops_last;   /* the turn's last position too */
    struct tokens again;
    int32_t last; /* the last token of the conversation then, -1 = none */
};
/* Without a turn *out stays as it is. */
int session_turn_change(const struct session *s, struct session_change *out, struct err *e);
/* Evicts them; call when the message that follows is stored, but not pending. */
int session_turn_apply(struct session *s, const struct session_change *c,
                       const struct session_sink *k, struct err *e);
/* Follows the first n_messages that are stored. */
int session_follow_stored(struct session *s, size_t n_messages, struct err *e);
/* Runs the pending tokens of the stored turns, except the last one, and evicts what each turn made
 * superfluous. */
int session_run_stored(struct session *s, const struct session_sink *k, enum session_end *how,
                       struct err *e);
/* Evicts the units of positions, also from the archive, and tells it. */
int session_drop(struct session *s, int64_t from, int64_t end, const struct session_sink *k,
                 struct err *e);
/* Evicts it as far as it is in the cache: call when the answer is over and its units are saved. */
int session_turn_evict(struct session *s, const struct session_sink *k, struct err *e);

/* ---- recall (session_recall.c) ---- */

bool session_keeps_all(const struct session *s); /* its policy never evicts */

/* Call after opening the context; does nothing if recall is off. */
int session_recall_open(struct session *s, struct err *e);
void session_recall_close(struct session *s);
struct archive *session_recall_archive(const struct session *s); /* NULL = recall is off */
/* Takes a message (session_describe): n_bytes[m->n_tokens] of its text that each token stands for,
 * 0 = none; past[m->n_tokens]: text of the turn before that is run again. The tokens of an answer
 * follow one by one. */
void session_recall_message(struct session *s, const struct store_message *m,
                            const uint16_t *n_bytes, const bool *past);
/* Takes a token of an answer; said: it is text, not a mark. */
void session_recall_token(struct session *s, int32_t id, bool said, bool thought);
/* Forgets all messages and the archive; call before a conversation is loaded again. */
void session_recall_forget(struct session *s);
/* Call after save_load; the first n_run tokens of the conversation are in the cache. */
int session_recall_loaded(struct session *s, int64_t n_run, struct err *e);
/* Call after the next n tokens were run. */
void session_recall_ran(struct session *s, int n);
/* Archives the tokens that were run since the last call; call before an eviction. */
int session_recall_keep(struct session *s, struct err *e);
/* Returns units for the message; call before its last n_left tokens are run. */
int session_recall_bring(struct session *s, int n_left, const struct session_sink *k,
                         struct err *e);

/* Returns units again after an eviction inside an answer: those that the answer's newest words and
 * the message are about. */
int session_recall_again(struct session *s, struct err *e);

/* Returns the units of these windows; call when all units are saved. alone: sets other old units
 * aside for an answer. */
int session_recall_return(struct session *s, struct recall_window *w, int n, bool alone,
                          struct err *e);

/* ---- marks (session_marks.c) ---- */

/* Removes the marks of turns after n_turns. */
void session_marks_cut(struct session *s, int64_t n_turns);
/* Protects the pinned turns from the next eviction on; call when turns or marks have changed. */
void session_marks_pin(struct session *s);
/* Evicts the forgotten turns; call when the cache was loaded or read again. */
int session_marks_forget(struct session *s, const struct session_sink *k, struct err *e);
/* The same for turns that were marked since the last message; call it before tokens are run. */
int session_marks_settle(struct session *s, const struct session_sink *k, struct err *e);

/* The ids that a message adds to a conversation that ends with `last`; last -1: it is the first. */
int session_encode(const struct session *s, enum chat_role role, const char *text, size_t n,
                   int32_t last, struct tokens *ids, struct err *e);
/* Appends a saved message's ids, encoded again; an answer of the same model ends as it did. */
int session_encode_saved(const struct session *s, const struct store_message *m, int32_t last,
                         struct tokens *ids, struct err *e);

/* Encodes the stored messages again whose ids do not spell their text, and those after them: *n of
 * them. all: every message, and the system text is saved with them. Their cache is dropped. Call it
 * before they are loaded. */
int session_respell(struct session *s, struct store *store, bool all, size_t *n, struct err *e);

/* opts.system becomes the system text; and is saved, without what other models have read. */
void session_system_take(struct session *s);
int session_system_save(struct session *s, struct store *store, struct err *e);
/* Makes a stored message pending. */
void session_push_message(struct session *s, const struct store_message *m,
                          const struct session_sink *k);
/* Encodes a message, stores it, then makes it pending: it is stored before the model sees it. */
int session_take_message(struct session *s, enum chat_role role, const char *text, size_t n,
                         const struct session_sink *k, struct err *e);
/* Runs the taken messages, except their last token: it stays pending, as after an answer, and is
 * run with the next message. */
int session_read_taken(struct session *s, const struct session_sink *sink, struct err *e);

/* The random numbers change with each attempt at an answer; the scoring of units does not. */
void session_use_attempt(struct session *s, uint64_t attempt);
/* Runs the pending tokens and generates the answer. */
int session_run_turn(struct session *s, const struct session_sink *k, enum session_end *end,
                     struct err *e);
/* Makes the answer, complete or partial, part of the transcript. */
int session_finish_answer(struct session *s, const struct session_sink *k, struct err *e);

/* Makes the whole transcript pending, then loads its part of the saved cache, or replays it. */
int session_reload(struct session *s, const struct session_sink *k, struct err *e);

#endif
