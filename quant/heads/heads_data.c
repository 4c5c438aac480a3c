#include "quant/heads/heads_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cli/options/options.h"
#include "runtime/token/tokenizer.h"

#define MEASURED 65536 /* bytes of a file whose tokens are counted */
#define WORD_MAX 256   /* bytes; longer words are cut */

/* ---- rows ------------------------------------------------------------------------------------ */

/* Appends a row that begins at byte `at`; all text that follows belongs to it. */
static void add_row(struct heads_data *d, size_t at)
{
    d->rows = memory_more(d->rows, (size_t)d->n + 1, &d->n_max, sizeof *d->rows);
    d->rows[d->n++] = at;
    d->rows[d->n] = d->text.n;
}

static int check_count(const struct heads_data *d, const char *hint, struct err *e)
{
    return d->n >= 2 ? 0
                     : err_set(e, ERR_FORMAT, "%s has %d rows; 2 or more are needed%s", d->name,
                               d->n, hint);
}

/* ---- lines of JSON --------------------------------------------------------------------------- */

static int read_lines(struct heads_data *d, struct err *e)
{
    int rc = file_read(d->name, FILE_DATA, &d->text, e);
    for (size_t at = 0; !rc && at < d->text.n;) {
        const char *line = d->text.data + at, *end = memchr(line, '\n', d->text.n - at);
        size_t n = end ? (size_t)(end - line) : d->text.n - at;
        if (n) add_row(d, at);
        at += n + (end != NULL);
    }
    return rc ? rc : check_count(d, "", e);
}

/* ---- files of text --------------------------------------------------------------------------- */

/* Adds a file as one row. */
static int read_text(struct heads_data *d, const char *path, struct err *e)
{
    size_t at = d->text.n;
    int rc = file_read(path, FILE_DATA, &d->text, e);
    if (rc) return rc;
    const char *text = str_get(&d->text) + at;
    const size_t n = d->text.n - at;
    if (n && utf8_invalid(text, n) == n && !memchr(text, 0, n)) {
        add_row(d, at);
        return 0;
    }
    return err_set(e, ERR_FORMAT, "%s is empty or no text in UTF-8", path);
}

void heads_data_add(struct heads_data *d, const char *text, size_t n)
{
    const size_t at = d->text.n;
    str_append(&d->text, text, n);
    add_row(d, at);
}

int heads_data_open(struct heads_data *d, const struct options *o, struct err *e)
{
    const struct training_opts *t = &o->training;
    *d = (struct heads_data){.name = t->text ? t->text : t->data, .plain = t->text != NULL};
    if (!t->text == !t->data)
        return err_set(e, ERR_USAGE, "heads %s needs either --text FILE or --data FILE",
                       o->args[0]);
    if (t->data) return read_lines(d, e);
    int rc = read_text(d, t->text, e);
    for (int i = 1; !rc && i < o->n_args; i++) rc = read_text(d, o->args[i], e);
    return rc;
}

void heads_data_close(struct heads_data *d)
{
    str_release(&d->text);
    free(d->rows);
}

int heads_data_length(const struct options *o, int n_ctx, int usual, int *out, struct err *e)
{
    int64_t length = n_ctx < usual ? n_ctx : usual;
    if (o->sweep.lengths.n) length = o->sweep.lengths.item[0];
    *out = (int)length;
    if (length >= 64 && length <= n_ctx) return 0;
    return err_set(e, ERR_USAGE, "--length %lld: expected a number of tokens from 64 to %d",
                   (long long)length, n_ctx);
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* The last byte offset from at - WORD_MAX to `at` that follows white space; without one, the start
 * of the character at `at`. */
static size_t word_start(const char *text, size_t at)
{
    size_t i = at, low = at > WORD_MAX ? at - WORD_MAX : 0;
    while (i > low && !strchr(" \n\t\r", text[i - 1])) i--;
    if (i > low) return i;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
    return at;
}

/* Bytes of text in n_tokens tokens, as in the text's beginning. */
static int measure(size_t *out, const struct tokenizer *t, const char *text, size_t n, int n_tokens,
                   struct err *e)
{
    struct tokens ids = {0};
    if (n > MEASURED) n = word_start(text, MEASURED);
    struct tokenizer_span span = {text, n, false};
    int rc = tokenizer_encode(t, &span, 1, false, &ids, e);
    *out = ids.n ? n * (size_t)n_tokens / ids.n : n;
    if (*out < 1) *out = 1;
    tokens_release(&ids);
    return rc;
}

int heads_data_cut(struct heads_data *d, const struct tokenizer *t, int n_tokens, struct err *e)
{
    struct heads_data whole = *d;
    int rc = 0;
    if (!d->plain) return 0;
    d->rows = NULL;
    d->n = 0;
    d->n_max = 0;
    for (int i = 0; !rc && i < whole.n; i++) {
        const char *text = d->text.data + whole.rows[i];
        size_t n = whole.rows[i + 1] - whole.rows[i], size;
        rc = measure(&size, t, text, n, n_tokens, e);
        size_t parts = rc ? 0 : (n + size - 1) / size;
        for (size_t k = 0, last = 0, at; !rc && k < parts; k++, last = at) {
            at = k ? word_start(text, n * k / parts) : 0;
            if (!k || at > last) add_row(d, whole.rows[i] + at);
        }
    }
    free(whole.rows);
    return rc ? rc : check_count(d, "; give more text, or a smaller --length", e);
}
