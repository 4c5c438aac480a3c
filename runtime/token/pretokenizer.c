#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/token/pretokenizer.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "base/utf8.h"

#define PATTERNS_MAX 6

/* Unicode's White_Space. PCRE2's \s also matches U+180E, which no tokenizer treats as a space. */
#define WS     \
    "\\t-\\r " \
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

/* Letter cases are spelled out: (?i) would also match U+017F as an s. */
#define SUFFIX_ANY_CASE "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|"
#define GPT2                                                                                     \
    "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|[" WS "]+(?![^" WS "])|" \
    "[" WS "]+"
#define CL100K(digits)                                                 \
    SUFFIX_ANY_CASE "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" WS \
                    "\\p{L}\\p{N}]+[\\r\\n]*|[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"
/* Qwen 3.5: combining marks belong to the letters before them. */
#define QWEN35                                                                                     \
    SUFFIX_ANY_CASE "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS                         \
                    "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS \
                    "]+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

/* A word is any capitals, then small letters, and `after`. This is the models' own pattern;
 * llama.cpp knows the case of A to Z only and leaves marks out. */
#define CASED_OF(upper, lower, after, digits, ends)                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" after "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower \
    "*" after "|" digits "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n" ends "]*|[" WS "]*[\\r\\n]+|[" WS    \
    "]+(?![^" WS "])|[" WS "]+"
#define CASED(after, digits) CASED_OF(UPPER, LOWER, after, digits, "/")
#define OPTIONAL_SUFFIX      "(?:'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?"
/* DeepSeek's first models: the letters of scripts with case, as the Unicode version of that time
 * had them. */
#define CASED_LETTERS                                                                       \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"          \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"  \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"           \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"          \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"          \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}" \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"  \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"          \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"           \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"            \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}" \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"  \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"           \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"          \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"        \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"  \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
/* The characters of Unicode's script Han, which are in pieces of their own. */
#define HAN                                                                           \
    "\\x{2E80}-\\x{2E99}\\x{2E9B}-\\x{2EF3}\\x{2F00}-\\x{2FD5}\\x{3005}\\x{3007}"     \
    "\\x{3021}-\\x{3029}\\x{3038}-\\x{303B}\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}"    \
    "\\x{F900}-\\x{FA6D}\\x{FA70}-\\x{FAD9}\\x{16FE2}\\x{16FE3}\\x{16FF0}-\\x{16FF6}" \
    "\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2EE5D}\\x{2F800}-\\x{2FA1D}\\x{30000}-\\x{33479}"
#define NO_LETTERS "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}"
#define EAST_ASIAN "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"

struct row {
    const char *names; /* separated by spaces */
    bool takes_whole, adds_bos;
    const char *patterns[PATTERNS_MAX];
};

static const struct row rows[] = {
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     true,
     true,
     {CL100K("\\p{N}{1,3}")}},
    {"dbrx smaug-bpe chatglm-bpe", false, false, {CL100K("\\p{N}{1,3}")}},
    {"glm4 glm5", true, false, {CL100K("\\p{N}{1,3}")}},
    {"qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2 solar-open grok-2",
     false,
     false,
     {CL100K("\\p{N}")}},
    {"gpt-2 phi-2 olmo mpt jais trillion granite-docling gigachat a.x-4.0 mellum exaone4",
     false,
     false,
     {GPT2}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
     false,
     false,
     {"\\p{N}", GPT2}},
    {"qwen35", false, false, {QWEN35}},
    /* line ends are separate from the punctuation before them */
    {"seed-coder",
     false,
     false,
     {SUFFIX_ANY_CASE "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" WS "\\p{L}\\p{N}]+|[" WS
                      "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"}},
    /* words are not separate; groups of three digits, from the right */
    {"superbpe",
     false,
     false,
     {"\\p{N}+", "\\P{N}+|(?<=\\p{Nd})\\p{Nd}{3}(?=\\p{Nd})|"
                 "(?s:.)+?(?=(?:\\p{Nd}{3})++(?!\\p{Nd}))|(?s:.)+"}},
    {"tekken", true, true, {CASED("", "\\p{N}")}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2",
     false,
     false,
     {CASED(OPTIONAL_SUFFIX, "\\p{N}{1,3}")}},
    /* groups of three digits, from the right */
    {"tiny_aya",
     false,
     false,
     {"\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*+(?![\\p{L}\\p{M}\\p{N}\\p{Pc}]))",
      CASED(OPTIONAL_SUFFIX, "\\p{N}{1,3}")}},
    {"kimi-k2",
     false,
     false,
     {"[" HAN "]+|" CASED_OF("[^\\p{Ll}" NO_LETTERS HAN "]", "[^\\p{Lu}\\p{Lt}" NO_LETTERS HAN "]",
                             OPTIONAL_SUFFIX, "\\p{N}{1,3}", "")}},
    {"deepseek-llm",
     false,
     false,
     {"[\\r\\n]", "[" WS "]?[" CASED_LETTERS "]+",
      "[" WS "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-"
      "\\x{3002}]+",
      "[" WS "]+\\z", EAST_ASIAN, "\\p{N}+"}},
    {"deepseek-coder",
     false,
     false,
     {"[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+", EAST_ASIAN, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     false,
     false,
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+",
      "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"}},
    {"falcon", false, false, {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"default", false, false, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};
#define N_ROWS (sizeof rows / sizeof *rows)

struct pretokenizer {
    const struct row *row;
    int n;
    pcre2_code *codes[PATTERNS_MAX];
    pcre2_match_context *limits;
};

static bool is_named(const struct row *row, const char *name, size_t n)
{
    for (const char *at = row->names; *at;) {
        size_t length = strcspn(at, " ");
        if (length == n && !memcmp(at, name, n)) return true;
        at += length + (at[length] == ' ');
    }
    return false;
}

static const struct row *find_row(const char *name, size_t n)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (is_named(&rows[i], name, n)) return &rows[i];
    return NULL;
}

static int unknown(const char *name, size_t n, struct err *e)
{
    struct str known = {0};
    for (size_t i = 0; i < N_ROWS; i++) /* the whole lists are longer than a message */
        str_printf(&known, "%s%.*s", i ? ", " : "", (int)strcspn(rows[i].names, " "),
                   rows[i].names);
    int rc = err_set(e, ERR_FORMAT,
                     "unknown pre-tokenizer '%s' (tokenizer.ggml.pre); known are %s, and others "
                     "that equal one of these",
                     utf8_show(name, n).text, str_get(&known));
    str_release(&known);
    return rc;
}

static int compile(struct pretokenizer *p, struct err *e)
{
    p->limits = pcre2_match_context_create(NULL);
    if (!p->limits) return err_set(e, ERR_FAIL, "out of memory for the pre-tokenizer");
    /* A page of blanks is one match that backtracks once per blank: allow it. */
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    for (; p->n < PATTERNS_MAX && p->row->patterns[p->n]; p->n++) {
        int code;
        PCRE2_SIZE at;
        p->codes[p->n] = pcre2_compile((PCRE2_SPTR)p->row->patterns[p->n], PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
        if (!p->codes[p->n])
            return err_set(e, ERR_FAIL, "pre-tokenizer '%s': PCRE2 error %d at %zu", p->row->names,
                           code, (size_t)at);
        pcre2_jit_compile(p->codes[p->n], PCRE2_JIT_COMPLETE); /* slower on platforms without JIT */
    }
    return 0;
}

int pretokenizer_open(struct pretokenizer **out, const char *name, size_t n, struct err *e)
{
    *out = NULL;
    const struct row *row = name ? find_row(name, n) : find_row("default", strlen("default"));
    if (!row) return unknown(name, n, e);
    struct pretokenizer *p = memory_new(1, sizeof *p);
    p->row = row;
    int rc = compile(p, e);
    if (rc) {
        pretokenizer_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void pretokenizer_close(struct pretokenizer *p)
{
    if (!p) return;
    for (int i = 0; i < PATTERNS_MAX; i++) pcre2_code_free(p->codes[i]);
    pcre2_match_context_free(p->limits);
    free(p);
}

bool pretokenizer_takes_whole(const struct pretokenizer *p)
{
    return p->row->takes_whole;
}

bool pretokenizer_adds_bos(const struct pretokenizer *p)
{
    return p->row->adds_bos;
}

/* ---- splitting ------------------------------------------------------------------------------- */

struct splitter {
    const struct pretokenizer *p;
    pcre2_match_data *found[PATTERNS_MAX];
    void (*piece)(void *ctx, const char *text, size_t n);
    void *ctx;
    int failed; /* PCRE2's error, 0 = none */
};

/* Splits valid UTF-8 by the patterns from `level` on. */
static void split(struct splitter *s, int level, const char *text, size_t n)
{
    if (n == 0 || s->failed) return;
    if (level == s->p->n) {
        s->piece(s->ctx, text, n);
        return;
    }
    size_t done = 0, at = 0;
    while (at < n) {
        int rc = pcre2_match(s->p->codes[level], (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK,
                             s->found[level], s->p->limits);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) {
            s->failed = rc;
            return;
        }
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->found[level]);
        size_t start = range[0], end = range[1];
        /* no pattern of the table matches an empty string; avoids an endless loop if one did */
        if (end == start) {
            at = start < n ? start + (size_t)utf8_length(text + start, n - start) : n;
            continue;
        }
        split(s, level + 1, text + done, start - done);
        split(s, level + 1, text + start, end - start);
        done = at = end;
    }
    split(s, level + 1, text + done, n - done);
}

/* Alternates runs of valid and of invalid UTF-8. */
static void split_any(struct splitter *s, const char *text, size_t n)
{
    for (size_t start = 0, at = 0; start < n; start = at) {
        int length;
        while (at < n && (length = utf8_length(text + at, n - at)) > 0) at += (size_t)length;
        split(s, 0, text + start, at - start);
        start = at;
        while (at < n && (length = utf8_length(text + at, n - at)) <= 0)
            at += length < 0 ? (size_t)-length : n - at;
        if (at > start && !s->failed) s->piece(s->ctx, text + start, at - start);
    }
}

int pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n,
                       void (*piece)(void *ctx, const char *text, size_t n), void *ctx,
                       struct err *e)
{
    struct splitter s = {.p = p, .piece = piece, .ctx = ctx};
    for (int i = 0; i < p->n; i++) {
        s.found[i] = pcre2_match_data_create(1, NULL);
        if (!s.found[i]) s.failed = PCRE2_ERROR_NOMEMORY;
    }
    if (!s.failed) split_any(&s, text, n);
    for (int i = 0; i < p->n; i++) pcre2_match_data_free(s.found[i]);
    if (!s.failed) return 0;
    char message[120] = "";
    pcre2_get_error_message(s.failed, (PCRE2_UCHAR *)message, sizeof message);
    return err_set(e, ERR_FAIL, "cannot split the text for the tokenizer: %s", message);
}
