/* fuzz: any text through both kinds of tokenizer and back. The first byte chooses the vocabulary,
 * the second splits the text in two; if no part is trusted, decoding gives the same bytes, except
 * that SentencePiece's vocabularies write a blank as U+2581. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/token/tokenizer.h"
#include "tests/unit/make_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { N_PRES = 6 };
static const char *const pres[N_PRES] = {"llama-bpe", "gpt-2", "qwen2", "smollm", "tekken", NULL};
static struct tokenizer *tokenizers[N_PRES + 1]; /* created once */

static void make_tokenizers(void)
{
    for (int i = 0; i <= N_PRES; i++) {
        struct maker m;
        struct gguf *g;
        struct err e;
        if (i < N_PRES)
            make_bpe(&m, pres[i]);
        else
            make_spm(&m);
        maker_end(&m);
        if (gguf_open_bytes(&g, m.file.data, m.file.n, "fuzz", &e)) abort();
        if (tokenizer_open(&tokenizers[i], g, &e)) abort();
        gguf_close(g);
        maker_release(&m);
    }
}

static void check_way_back(const struct tokenizer *t, const struct tokens *ids, const char *text,
                           size_t n)
{
    size_t at = 0, length;
    for (size_t i = 0; i < ids->n; i++) {
        const char *piece = tokenizer_bytes(t, ids->ids[i], true, &length);
        if (length > n - at || memcmp(piece, text + at, length)) abort();
        at += length;
    }
    if (at != n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!tokenizers[0]) make_tokenizers();
    if (n < 2) return 0;
    const struct tokenizer *t = tokenizers[bytes[0] % (N_PRES + 1)];
    bool trusts = bytes[0] >= 128;
    size_t n_text = n - 2, cut = n_text * bytes[1] / 256;
    const char *text = (const char *)bytes + 2;
    struct tokenizer_span spans[] = {{text, cut, trusts}, {text + cut, n_text - cut, false}};
    struct tokens ids = {0};
    struct err e;
    bool blank = t == tokenizers[N_PRES] && memmem(text, n_text, "\xE2\x96\x81", 3);
    if (!tokenizer_encode(t, spans, 2, false, &ids, &e) && !trusts && !blank)
        check_way_back(t, &ids, text, n_text);
    tokens_release(&ids);
    return 0;
}
