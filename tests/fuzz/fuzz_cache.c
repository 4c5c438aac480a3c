/* fuzz: a saved conversation whose cache, checkpoints, state and running answer are forged, with
 * right checksums: as an import brings it. Opening it, continuing and going back may refuse or drop
 * the cache; the text stays and the database stays whole. The input is a list of forgeries. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/options/options.h"
#include "runtime/forward/engine.h"
#include "runtime/save/conversations.h"
#include "runtime/session/session.h"
#include "store/store.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const policies[] = {"keydiff+global", "random", "sink", "full"};
enum { POLICIES = sizeof policies / sizeof *policies, ENTRIES_MAX = 256 };

/* An entry of the log or of the archive. */
struct entry {
    struct store_segment row;
    struct str bytes;
};

/* The conversation of one policy as it was saved. */
static struct saved {
    struct str file;
    struct entry entries[ENTRIES_MAX];
    int n_entries;
    char *state;
} saved[POLICIES];

static struct engine *engine;
static char folder[64], path[96];

static struct options options_of(const char *policy)
{
    struct options o;
    options_init(&o);
    o.engine.model = "build/golden/families/llama3.gguf";
    o.engine.threads = 1;
    o.session.plan.policy = policy_choice(policy);
    o.session.plan.budget = 24;
    o.session.plan.chunk = 16;
    o.session.plan.policy.reserve = 40;
    o.session.sampling.seed = 3;
    o.session.max_tokens = 6;
    o.session.ignore_end = true;
    o.session.conversation = "talk";
    if (!strcmp(policy, "full")) o.session.plan.policy.context = 200;
    return o;
}

static void must(int rc, const struct err *e)
{
    if (rc >= 0) return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static int take_entry(void *ctx, const struct store_segment *g)
{
    struct saved *s = ctx;
    if (s->n_entries == ENTRIES_MAX) return 1;
    struct entry *x = &s->entries[s->n_entries++];
    x->row = *g;
    str_append(&x->bytes, g->bytes, g->n_bytes);
    return 0;
}

static void clean(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", ".lock"};
    char name[112];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static void talk(struct saved *out, const char *policy)
{
    static const char *const said[] = {"My locker code is 48213.", "Tell me about cats."};
    const struct session_sink k = {0};
    struct options o = options_of(policy);
    struct conversations *l;
    struct session *s;
    enum session_end end;
    struct err e;
    must(conversations_open(&l, path, NULL, &e), &e);
    must(session_open(&s, engine, l, &o.session, NULL, &e), &e);
    for (int i = 0; i < 4; i++)
        must(session_say(s, said[i % 2], strlen(said[i % 2]), &k, &end, &e), &e);
    session_close(s);
    struct store *store = conversations_store(l);
    must(store_segment_each(store, 1, -1, take_entry, out, &e), &e);
    must(store_segment_each(store, 1, STORE_PIECES, take_entry, out, &e), &e);
    must(store_state_get(store, 1, &out->state, &e), &e);
    conversations_close(l);
    must(file_read(path, FILE_DATA, &out->file, &e), &e);
    clean();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct options o = options_of("full");
    struct err e;
    snprintf(folder, sizeof folder, "/dev/shm/retain_fuzz_XXXXXX");
    if (!mkdtemp(folder)) abort();
    snprintf(path, sizeof path, "%s/retain.db", folder);
    must(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &e), &e);
    for (int i = 0; i < POLICIES; i++) talk(&saved[i], policies[i]);
    return 0;
}

/* ---- forging --------------------------------------------------------------------------------- */

struct input {
    const uint8_t *p, *end;
};

static uint32_t take(struct input *in, int n_bytes)
{
    uint32_t v = 0;
    for (; n_bytes > 0 && in->p < in->end; n_bytes--) v = v << 8 | *in->p++;
    return v;
}

/* Overwrites, cuts and lengthens bytes as the input says. */
static void change(struct input *in, struct str *bytes)
{
    for (uint32_t n = 1 + take(in, 1) % 4; n > 0; n--) {
        uint32_t what = take(in, 1), at = take(in, 2), value = take(in, 4);
        if (bytes->n == 0) return;
        if (what == 0) bytes->n = at % bytes->n;
        if (what == 1) {
            str_reserve(bytes, 2 * bytes->n); /* the appended bytes are its own */
            str_append(bytes, bytes->data, at % bytes->n);
        }
        if (what > 1)
            for (size_t i = at % bytes->n, j = 0; i < bytes->n && j < 1 + what % 4; i++, j++)
                bytes->data[i] = (char)(value >> (8 * j));
    }
}

static int forge_entry(struct store *store, const struct saved *from, struct input *in,
                       struct err *e)
{
    const struct entry *x = &from->entries[take(in, 1) % (uint32_t)from->n_entries];
    struct store_segment row = x->row;
    struct str bytes = {0};
    str_append(&bytes, x->bytes.data, x->bytes.n);
    change(in, &bytes);
    uint32_t moved = take(in, 1);
    if (moved == 1) row.seq = (int64_t)take(in, 4);
    if (moved == 2) row.layer = (int)take(in, 1) - 2;
    if (moved == 3) row.kind = (enum store_kind)(take(in, 1) % 10);
    row.bytes = str_get(&bytes);
    row.n_bytes = bytes.n;
    int rc = x->row.kind == STORE_PIECE
                 ? store_piece_drop(store, 1, (uint32_t)x->row.layer, 1, e)
                 : store_segment_delete(store, 1, x->row.layer, x->row.seq, x->row.seq, e);
    if (!rc && moved != 4) rc = store_segment_put(store, 1, &row, e);
    str_release(&bytes);
    return rc;
}

static int forge_state(struct store *store, const struct saved *from, struct input *in,
                       struct err *e)
{
    struct str text = {0};
    str_puts(&text, from->state);
    change(in, &text);
    str_append(&text, "", 1);
    int rc = store_state_put(store, 1, text.data, e);
    str_release(&text);
    return rc;
}

static int forge_tail(struct store *store, const struct saved *from, struct input *in,
                      struct err *e)
{
    const struct entry *x = &from->entries[take(in, 1) % (uint32_t)from->n_entries];
    struct str units = {0};
    str_append(&units, x->bytes.data, x->bytes.n);
    change(in, &units);
    const size_t cut = take(in, 2) % (units.n + 1);
    struct store_tail row = {.position = take(in, 1),
                             .token = (int32_t)take(in, 1),
                             .text = "x",
                             .n_text = 1,
                             .units = str_get(&units),
                             .n_units = units.n - cut,
                             .rest = str_get(&units) + units.n - cut,
                             .n_rest = cut};
    int rc = store_tail_add(store, 1, &row, e);
    str_release(&units);
    return rc;
}

static int forge_point(struct store *store, struct input *in, struct err *e)
{
    struct store_checkpoint c = {.seq = take(in, 1), .n_run = (int64_t)take(in, 4)};
    return store_checkpoint_put(store, 1, &c, e);
}

static void forge(const struct saved *from, struct input *in)
{
    struct store *store;
    struct err e;
    must(store_open(&store, path, NULL, &e), &e);
    while (in->p < in->end) {
        switch (take(in, 1) % 8) {
        case 0: forge_state(store, from, in, &e); break;
        case 1: forge_tail(store, from, in, &e); break;
        case 2: forge_point(store, in, &e); break;
        default: forge_entry(store, from, in, &e); break;
        }
    }
    store_close(store);
}

static void put_file(const struct str *bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes->data, 1, bytes->n, f) != bytes->n || fclose(f)) abort();
}

/* ---- using it -------------------------------------------------------------------------------- */

static void use(struct conversations *l, const char *policy)
{
    const struct session_sink k = {0};
    struct options o = options_of(policy);
    struct session *s;
    enum session_end end;
    struct err e;
    if (session_open(&s, engine, l, &o.session, NULL, &e)) return;
    session_say(s, "What is my code?", 16, &k, &end, &e);
    session_regenerate(s, &k, &end, &e);
    if (!session_must_reopen(s)) {
        session_rewind(s, 1, &k, &e);
        session_say(s, "And?", 4, &k, &end, &e);
    }
    session_close(s);
}

static int count(void *ctx, const struct store_message *m)
{
    ++*(int *)ctx;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct conversations *l;
    struct err e;
    int n_messages = 0;
    if (n < 2) return 0;
    int i = bytes[0] % POLICIES;
    struct input in = {bytes + 1, bytes + n};
    put_file(&saved[i].file);
    forge(&saved[i], &in);
    must(conversations_open(&l, path, NULL, &e), &e);
    use(l, policies[i]);
    must(conversations_check(l, &e), &e);
    must(conversations_messages(l, "talk", count, &n_messages, &e), &e);
    if (n_messages < 2) abort();
    conversations_close(l);
    clean();
    return 0;
}
