#include "quant/convert/convert_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "quant/convert/json.h"

/* Token types, with the same numbers in GGUF and SentencePiece. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct vocab_list {
    const char *name; /* the file's name, for messages */
    int n;
    struct vocab_token {
        const char *text; /* points into JSON or protobuf; NULL = unused */
        size_t bytes;
        int32_t type;
        float score;
    } * tokens;
};

static void list_init(struct vocab_list *v, int n, const char *name)
{
    *v = (struct vocab_list){.name = name, .n = n};
    v->tokens = memory_new((size_t)n, sizeof *v->tokens);
    for (int i = 0; i < n; i++) v->tokens[i] = (struct vocab_token){NULL, 0, UNUSED, -10000};
}

static int bad_id(const struct vocab_list *v, const char *text, struct err *e)
{
    struct utf8_shown shown = json_show(text);
    return err_set(e, ERR_FORMAT,
                   "%s: token '%s' has no id from 0 to %d, the rows that the model has", v->name,
                   shown.text, v->n - 1);
}

static void list_set(struct vocab_list *v, int64_t id, const char *text, int32_t type, float score)
{
    v->tokens[id] = (struct vocab_token){text, strlen(text), type, score};
}

/* Writes tokens and types; unused ids get a text that no input can have. */
static void list_keys(const struct vocab_list *v, struct gguf_keys *k, bool scores)
{
    struct str texts = {0}, types = {0}, all_scores = {0};
    char pad[24];
    for (int i = 0; i < v->n; i++) {
        const struct vocab_token *t = &v->tokens[i];
        snprintf(pad, sizeof pad, "[PAD%d]", i);
        gguf_keys_element(&texts, t->text ? t->text : pad, t->text ? t->bytes : strlen(pad));
        str_append(&types, &t->type, sizeof t->type);
        str_append(&all_scores, &t->score, sizeof t->score);
    }
    const uint64_t n = (uint64_t)v->n;
    gguf_keys_array(k, "tokenizer.ggml.tokens", GGUF_STRING, n, str_get(&texts), texts.n);
    gguf_keys_array(k, "tokenizer.ggml.token_type", GGUF_I32, n, str_get(&types), types.n);
    if (scores)
        gguf_keys_array(k, "tokenizer.ggml.scores", GGUF_F32, n, str_get(&all_scores),
                        all_scores.n);
    str_release(&texts);
    str_release(&types);
    str_release(&all_scores);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Some models don't mark tokens as special that can have no other meaning. */
static bool looks_special(const char *text)
{
    size_t n = strlen(text);
    if (!strcmp(text, "<pad>") || !strcmp(text, "<mask>")) return true;
    if (n > 4 && !strncmp(text, "<|", 2) && !strcmp(text + n - 2, "|>")) return true;
    return n > 8 && !strncmp(text, "<\xEF\xBD\x9C", 4) && !strcmp(text + n - 4, "\xEF\xBD\x9C>");
}

static int take_added(struct vocab_list *v, const cJSON *tokenizer, struct err *e)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, json_member(tokenizer, "added_tokens"))
    {
        const char *text = json_text(o, "content");
        int64_t id;
        if (!text || !json_int(o, "id", 0, v->n - 1, &id)) return bad_id(v, text ? text : "?", e);
        bool special = json_bool(o, "special", false) || looks_special(text);
        list_set(v, id, text, special ? CONTROL : USER_DEFINED, -1000);
    }
    return 0;
}

/* ---- byte-level BPE: tokenizer.json ---------------------------------------------------------- */

/* Patterns as written in tokenizer.json. */
#define SUFFIX                  "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(letters, digits) SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?" letters "+|" digits REST
#define UPPER                   "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER                   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix, digits)                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
    "*" suffix "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The steps of a pre_tokenizer, joined, and tokenizer.ggml.pre for them. Where the same pattern has
 * two names, `pre_whole` is the one that takes a piece that is a token whole (ignore_merges). */
static const struct {
    const char *steps, *pre, *pre_whole; /* NULL = no such model exists */
} patterns[] = {
    {"split " CL100K("\\p{L}", "\\p{N}{1,3}") " + bytes", "dbrx", "llama-bpe"},
    {"split " CL100K("\\p{L}", "\\p{N}") " + bytes", "qwen2", NULL},
    {"split " SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+ + bytes",
     "seed-coder", NULL},
    {"split " CASED("", "\\p{N}") " + bytes", NULL, "tekken"},
    {"split " CASED(SUFFIX "?", "\\p{N}{1,3}") " + bytes", "gpt-4o", NULL},
    {"digits + gpt2", "smollm", NULL},
    {"gpt2", "gpt-2", NULL},
};
#define N_PATTERNS (sizeof patterns / sizeof *patterns)

static void describe_step(const cJSON *o, struct str *out)
{
    const char *type = json_text(o, "type"), *behavior = json_text(o, "behavior");
    const char *regex = json_text(json_member(o, "pattern"), "Regex");
    if (out->n) str_puts(out, " + ");
    if (!type) {
        str_puts(out, "?");
    } else if (!strcmp(type, "Split") && regex) {
        bool plain = behavior && !strcmp(behavior, "Isolated") && !json_bool(o, "invert", false);
        str_printf(out, "%s%s", plain ? "split " : "Split ", regex);
    } else if (!strcmp(type, "ByteLevel")) {
        bool pattern = json_bool(o, "use_regex", true);
        str_puts(out, pattern ? "gpt2" : "bytes");
        if (json_bool(o, "add_prefix_space", true)) str_puts(out, " with prefix");
    } else if (!strcmp(type, "Digits") && json_bool(o, "individual_digits", false)) {
        str_puts(out, "digits");
    } else {
        str_puts(out, type);
    }
}

static void describe(const cJSON *pre_tokenizer, struct str *out)
{
    const cJSON *o, *steps = json_member(pre_tokenizer, "pretokenizers");
    if (!cJSON_IsArray(steps)) {
        describe_step(pre_tokenizer, out);
        return;
    }
    cJSON_ArrayForEach(o, steps) describe_step(o, out);
}

static int find_pre(const cJSON *tokenizer, const char *name, const char **pre, struct err *e)
{
    struct str steps = {0};
    bool whole = json_bool(json_member(tokenizer, "model"), "ignore_merges", false);
    describe(json_member(tokenizer, "pre_tokenizer"), &steps);
    *pre = NULL;
    for (size_t i = 0; i < N_PATTERNS; i++)
        if (!strcmp(str_get(&steps), patterns[i].steps))
            *pre = whole ? patterns[i].pre_whole : patterns[i].pre;
    int rc = 0;
    if (!*pre) {
        struct str safe = {0};
        for (size_t i = 0; i < steps.n && i < 300; i++)
            str_append(&safe, steps.data[i] >= 32 && steps.data[i] < 127 ? &steps.data[i] : "?", 1);
        rc = err_set(e, ERR_FORMAT,
                     "%s: unknown pre-tokenizer (%s%s): make a GGUF with llama.cpp's converter and "
                     "quantize that",
                     name, str_get(&safe), whole ? ", ignore_merges" : "");
        str_release(&safe);
    }
    str_release(&steps);
    return rc;
}

/* Some files have a blank inside a part: it is written like byte 32 of the vocabulary. */
static void append_part(struct str *out, const char *part)
{
    for (; *part; part++) str_append(out, *part == ' ' ? "\xC4\xA0" : part, *part == ' ' ? 2 : 1);
}

static int merge_keys(struct gguf_keys *k, const cJSON *merges, const char *name, struct err *e)
{
    const cJSON *o;
    struct str all = {0}, one = {0};
    uint64_t n = 0;
    int rc = cJSON_IsArray(merges) ? 0 : ERR_FORMAT;
    cJSON_ArrayForEach(o, merges)
    {
        const char *text = cJSON_GetStringValue(o);
        const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(o, 0));
        const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(o, 1));
        str_clear(&one);
        if (text && strchr(text, ' ')) {
            str_puts(&one, text);
        } else if (left && right) {
            append_part(&one, left);
            str_puts(&one, " ");
            append_part(&one, right);
        } else {
            rc = ERR_FORMAT;
            break;
        }
        gguf_keys_element(&all, str_get(&one), one.n);
        n++;
    }
    if (!rc) gguf_keys_array(k, "tokenizer.ggml.merges", GGUF_STRING, n, str_get(&all), all.n);
    str_release(&all);
    str_release(&one);
    return rc ? err_set(e, rc, "%s: model.merges is not a list of pairs", name) : 0;
}

/* Text is read unchanged, or composed (NFC), which no runtime does and which hardly changes
 * anything. */
static int check_normalizer(const cJSON *tokenizer, const char *name, struct err *e)
{
    const cJSON *o = json_member(tokenizer, "normalizer");
    const char *type = json_text(o, "type");
    if (!o || cJSON_IsNull(o) || (type && !strcmp(type, "NFC"))) return 0;
    struct utf8_shown shown = json_show(type ? type : "?");
    return err_set(e, ERR_FORMAT,
                   "%s: unsupported normalizer (%s) for byte-level BPE; supported: none, NFC", name,
                   shown.text);
}

/* Gemma 4: BPE of whole texts, blanks written U+2581, with tokens of bytes <0x00> to <0xFF>. */
static bool is_ranked(const cJSON *tokenizer)
{
    const cJSON *model = json_member(tokenizer, "model");
    const cJSON *normalizer = json_member(tokenizer, "normalizer");
    const char *type = json_text(model, "type"), *how = json_text(normalizer, "type");
    const char *blank = json_text(normalizer, "content");
    return type && !strcmp(type, "BPE") && json_bool(model, "byte_fallback", false) && how &&
           !strcmp(how, "Replace") && blank && !strcmp(blank, "\xE2\x96\x81");
}

static int32_t ranked_type(const char *text)
{
    unsigned byte;
    int n = 0;
    if (!strcmp(text, "<unk>")) return UNKNOWN;
    return sscanf(text, "<0x%2X>%n", &byte, &n) == 1 && n == 6 && !text[6] ? BYTE : NORMAL;
}

int convert_vocab_bpe(struct gguf_keys *k, const cJSON *tokenizer, int n_vocab, const char *name,
                      struct err *e)
{
    struct vocab_list v;
    const cJSON *o, *model = json_member(tokenizer, "model");
    const bool ranked = is_ranked(tokenizer);
    const char *pre = "default";
    int rc = ranked ? 0 : check_normalizer(tokenizer, name, e);
    list_init(&v, n_vocab, name);
    if (!rc && !ranked) rc = find_pre(tokenizer, name, &pre, e);
    if (!rc && !cJSON_IsObject(json_member(model, "vocab")))
        rc = err_set(e, ERR_FORMAT, "%s: has no model.vocab", name);
    const cJSON *words = rc ? NULL : json_member(model, "vocab");
    cJSON_ArrayForEach(o, words)
    {
        int64_t id;
        rc = json_is_int(o, 0, n_vocab - 1, &id) && !v.tokens[id].text ? 0
                                                                       : bad_id(&v, o->string, e);
        if (rc) break;
        list_set(&v, id, o->string, ranked ? ranked_type(o->string) : NORMAL, 0);
    }
    if (!rc) rc = take_added(&v, tokenizer, e);
    if (!rc) {
        gguf_keys_str(k, "tokenizer.ggml.model", ranked ? "gemma4" : "gpt2");
        gguf_keys_str(k, "tokenizer.ggml.pre", pre);
        if (ranked) gguf_keys_bool(k, "tokenizer.ggml.add_space_prefix", false);
        list_keys(&v, k, ranked);
        rc = merge_keys(k, json_member(model, "merges"), name, e);
    }
    free(v.tokens);
    return rc;
}

/* ---- SentencePiece: tokenizer.model, a protocol buffer --------------------------------------- */

struct wire {
    const uint8_t *p, *end;
};

static bool take_varint(struct wire *w, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && w->p < w->end; shift += 7) {
        uint8_t byte = *w->p++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

/* Takes one field: its number, and a range of bytes (kind 2) or a number (other kinds). False at
 * the end, and for malformed data; then p != end. */
static bool take_field(struct wire *w, int *field, int *kind, uint64_t *number, struct wire *bytes)
{
    uint64_t tag;
    if (w->p == w->end || !take_varint(w, &tag) || tag >> 3 > 1 << 28) return false;
    *field = (int)(tag >> 3);
    *kind = (int)(tag & 7);
    if (*kind == 0) return take_varint(w, number);
    if (*kind == 2 && !take_varint(w, number)) return false;
    uint64_t n = *kind == 1 ? 8 : *kind == 5 ? 4 : *kind == 2 ? *number : UINT64_MAX;
    if (n > (uint64_t)(w->end - w->p)) {
        w->p = w->end - 1; /* a group, or a wrong length */
        return false;
    }
    *bytes = (struct wire){w->p, w->p + n};
    *number = 0;
    if (*kind != 2) memcpy(number, w->p, n);
    w->p += n;
    return true;
}

enum {
    FIELD_PIECE = 1,
    FIELD_TRAINER = 2,
    FIELD_NORMALIZER = 3,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_MODEL_TYPE = 3,
    NORMALIZER_DUMMY_PREFIX = 3,
};

static int take_piece(struct vocab_list *v, int id, struct wire w, struct err *e)
{
    int field, kind;
    uint64_t number = 0;
    struct wire bytes;
    struct vocab_token *t = &v->tokens[id];
    *t = (struct vocab_token){"", 0, NORMAL, 0};
    while (take_field(&w, &field, &kind, &number, &bytes)) {
        if (field == PIECE_TEXT && kind == 2) {
            t->text = (const char *)bytes.p;
            t->bytes = (size_t)(bytes.end - bytes.p);
        } else if (field == PIECE_SCORE && kind == 5) {
            uint32_t bits = (uint32_t)number;
            memcpy(&t->score, &bits, sizeof bits);
        } else if (field == PIECE_TYPE && kind == 0 && number >= NORMAL && number <= BYTE) {
            t->type = (int32_t)number;
        }
    }
    return w.p == w.end ? 0 : err_set(e, ERR_FORMAT, "%s: piece %d is damaged", v->name, id);
}

struct spm_specs {
    uint64_t model_type, dummy_prefix;
};

/* Number of the field in a message of numbers and strings; `otherwise` when it is absent. */
static uint64_t number_in(struct wire w, int wanted, uint64_t otherwise)
{
    int field, kind;
    uint64_t number = 0;
    struct wire bytes;
    while (take_field(&w, &field, &kind, &number, &bytes))
        if (field == wanted && kind == 0) otherwise = number;
    return otherwise;
}

static int take_pieces(struct vocab_list *v, struct wire w, struct spm_specs *specs, struct err *e)
{
    int field, kind, id = 0, rc = 0;
    uint64_t number = 0;
    struct wire bytes;
    while (!rc && take_field(&w, &field, &kind, &number, &bytes)) {
        if (kind != 2) continue;
        if (field == FIELD_TRAINER)
            specs->model_type = number_in(bytes, TRAINER_MODEL_TYPE, specs->model_type);
        if (field == FIELD_NORMALIZER)
            specs->dummy_prefix = number_in(bytes, NORMALIZER_DUMMY_PREFIX, 1);
        if (field != FIELD_PIECE) continue;
        if (id == v->n)
            return err_set(e, ERR_FORMAT, "%s: has more tokens than the model has rows (%d)",
                           v->name, v->n);
        rc = take_piece(v, id++, bytes, e);
    }
    if (!rc && (w.p != w.end || id == 0))
        rc = err_set(e, ERR_FORMAT, "%s: is not a SentencePiece model, or damaged", v->name);
    return rc;
}

int convert_vocab_spm(struct gguf_keys *k, const void *model, size_t n, const cJSON *tokenizer,
                      int n_vocab, const char *name, struct err *e)
{
    enum { UNIGRAM = 1, BPE = 2 };
    struct vocab_list v;
    struct spm_specs specs = {.model_type = UNIGRAM, .dummy_prefix = 1};
    struct wire w = {model, (const uint8_t *)model + n};
    list_init(&v, n_vocab, name);
    int rc = take_pieces(&v, w, &specs, e);
    if (!rc && specs.model_type != BPE)
        rc = err_set(e, ERR_FORMAT,
                     "%s: is of SentencePiece's model type %d; only type 2 (BPE) is supported",
                     name, (int)specs.model_type);
    if (!rc) rc = take_added(&v, tokenizer, e);
    if (!rc) {
        gguf_keys_str(k, "tokenizer.ggml.model", "llama");
        gguf_keys_str(k, "tokenizer.ggml.pre", "default");
        list_keys(&v, k, true);
        gguf_keys_bool(k, "tokenizer.ggml.add_space_prefix", specs.dummy_prefix != 0);
    }
    free(v.tokens);
    return rc;
}

/* ---- special tokens and the chat template ---------------------------------------------------- */

/* A token's text is either a string or an object's "content". */
static const char *special_text(const cJSON *config, const char *name)
{
    const cJSON *v = json_member(config, name);
    const char *text = cJSON_GetStringValue(v);
    return text ? text : json_text(v, "content");
}

static bool added_id(const cJSON *tokenizer, const char *text, int n_vocab, int64_t *id)
{
    const cJSON *o;
    if (!text) return false;
    cJSON_ArrayForEach(o, json_member(tokenizer, "added_tokens"))
    {
        const char *content = json_text(o, "content");
        if (content && !strcmp(content, text)) return json_int(o, "id", 0, n_vocab - 1, id);
    }
    return false;
}

/* The first special token that the post-processor adds to a single text, or NULL. */
static const char *first_of_post_processor(const cJSON *o)
{
    const cJSON *step, *steps = json_member(o, "processors");
    const char *type = json_text(o, "type");
    if (type && !strcmp(type, "TemplateProcessing"))
        return json_text(
            json_member(cJSON_GetArrayItem(json_member(o, "single"), 0), "SpecialToken"), "id");
    cJSON_ArrayForEach(step, steps)
    {
        const char *kind = json_text(step, "type");
        if (kind && !strcmp(kind, "TemplateProcessing")) return first_of_post_processor(step);
    }
    return NULL;
}

/* The JSON files of a folder; NULL = it does not have that one. */
struct vocab_files {
    const cJSON *config;
    cJSON *tokenizer, *tokenizer_config, *generation_config;
};

/* The first id of a list of ends, or a single one, that is not `eos`. */
static bool other_end(const cJSON *ids, int64_t eos, int n_vocab, int64_t *id)
{
    const cJSON *o;
    if (!cJSON_IsArray(ids)) return json_is_int(ids, 0, n_vocab - 1, id) && *id != eos;
    cJSON_ArrayForEach(o, ids)
    {
        if (json_is_int(o, 0, n_vocab - 1, id) && *id != eos) return true;
    }
    return false;
}

static void special_keys(struct gguf_keys *k, const struct vocab_files *f, int n_vocab,
                         bool add_bos)
{
    static const char *const names[][3] = {
        {"bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id"},
        {"eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id"},
        {"unk_token", "unk_token_id", "tokenizer.ggml.unknown_token_id"},
        {"pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id"},
    };
    const cJSON *tokenizer = f->tokenizer, *tokenizer_config = f->tokenizer_config;
    int64_t eos = -1, eot;
    bool has_bos = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id;
        const cJSON *ids = json_member(f->config, names[i][1]);
        const cJSON *first = cJSON_IsArray(ids) ? cJSON_GetArrayItem(ids, 0) : ids;
        bool there =
            added_id(tokenizer, special_text(tokenizer_config, names[i][0]), n_vocab, &id) ||
            json_is_int(first, 0, n_vocab - 1, &id);
        if (there) gguf_keys_u32(k, names[i][2], (uint32_t)id);
        if (i == 0) has_bos = there;
        if (i == 1 && there) eos = id;
    }
    if (other_end(json_member(f->generation_config, "eos_token_id"), eos, n_vocab, &eot) ||
        other_end(json_member(f->config, "eos_token_id"), eos, n_vocab, &eot))
        gguf_keys_u32(k, "tokenizer.ggml.eot_token_id", (uint32_t)eot);
    const char *bos = special_text(tokenizer_config, "bos_token");
    const char *first = first_of_post_processor(json_member(tokenizer, "post_processor"));
    bool adds = json_bool(tokenizer_config, "add_bos_token", add_bos);
    if (first) adds = bos && !strcmp(first, bos);
    gguf_keys_bool(k, "tokenizer.ggml.add_bos_token", adds && has_bos);
}

static bool read_template(struct gguf_keys *k, const char *folder)
{
    char path[1024];
    struct str text = {0};
    struct err ignored; /* most folders have the template in another file */
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    bool there = file_read(path, FILE_MODEL, &text, &ignored) == 0 && text.n > 0;
    if (there) gguf_keys_str(k, "tokenizer.chat_template", str_get(&text));
    str_release(&text);
    return there;
}

/* As in transformers, the separate file counts before the member of tokenizer_config.json. */
static void template_key(struct gguf_keys *k, const char *folder, const cJSON *tokenizer_config)
{
    const cJSON *o, *v = json_member(tokenizer_config, "chat_template");
    const char *text = cJSON_GetStringValue(v);
    if (read_template(k, folder)) return;
    cJSON_ArrayForEach(o, v)
    {
        const char *name = json_text(o, "name");
        if (name && !strcmp(name, "default")) text = json_text(o, "template");
    }
    if (text) gguf_keys_str(k, "tokenizer.chat_template", text);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* *out is NULL when the file is absent. */
static int read_optional(cJSON **out, const char *folder, const char *name, char path[1024],
                         struct err *e)
{
    *out = NULL;
    snprintf(path, 1024, "%s/%s", folder, name);
    return access(path, F_OK) ? 0 : json_read(out, path, e);
}

/* Folders without tokenizer.json list their added tokens in tokenizer_config.json, by id. */
static cJSON *added_of_config(const cJSON *tokenizer_config)
{
    const cJSON *o;
    cJSON *tokenizer = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(tokenizer, "added_tokens");
    cJSON_ArrayForEach(o, json_member(tokenizer_config, "added_tokens_decoder"))
    {
        const char *name = o->string ? o->string : ""; /* an array's members have no name */
        char *end;
        long id = strtol(name, &end, 10);
        cJSON *copy = cJSON_Duplicate(o, true);
        cJSON_AddNumberToObject(copy, "id", *name && !*end ? (double)id : -1);
        cJSON_AddItemToArray(list, copy);
    }
    return tokenizer;
}

static int take_vocab(struct gguf_keys *k, const char *folder, const cJSON *tokenizer, int n_vocab,
                      bool *is_spm, struct err *e)
{
    char path[1024];
    struct str spm = {0};
    const cJSON *model = json_member(tokenizer, "model");
    const char *type = json_text(model, "type");
    struct utf8_shown shown = json_show(type ? type : "none");
    const bool bytes = type && !strcmp(type, "BPE") && !json_bool(model, "byte_fallback", false);
    snprintf(path, sizeof path, "%s/tokenizer.model", folder);
    const bool has_spm = !access(path, F_OK);
    *is_spm = !bytes; /* with a BOS, unless the folder says otherwise */
    if (bytes || (is_ranked(tokenizer) && !has_spm)) {
        snprintf(path, sizeof path, "%s/tokenizer.json", folder);
        return convert_vocab_bpe(k, tokenizer, n_vocab, path, e);
    }
    if (!has_spm)
        return err_set(e, ERR_FORMAT,
                       "%s: no supported tokenizer: tokenizer.json is not of the byte-level BPE "
                       "kind (found: %s) and there is no tokenizer.model; download that file too",
                       folder, shown.text);
    int rc = file_read(path, FILE_MODEL, &spm, e);
    if (!rc) rc = convert_vocab_spm(k, str_get(&spm), spm.n, tokenizer, n_vocab, path, e);
    str_release(&spm);
    return rc;
}

int convert_vocab(struct gguf_keys *k, const char *folder, const cJSON *config, int n_vocab,
                  struct err *e)
{
    char path[1024];
    struct vocab_files f = {.config = config};
    bool is_spm = false;
    int rc = read_optional(&f.tokenizer_config, folder, "tokenizer_config.json", path, e);
    if (!rc) rc = read_optional(&f.generation_config, folder, "generation_config.json", path, e);
    if (!rc) rc = read_optional(&f.tokenizer, folder, "tokenizer.json", path, e);
    if (!f.tokenizer) f.tokenizer = added_of_config(f.tokenizer_config);
    if (!rc) rc = take_vocab(k, folder, f.tokenizer, n_vocab, &is_spm, e);
    if (!rc) {
        special_keys(k, &f, n_vocab, is_spm);
        template_key(k, folder, f.tokenizer_config);
    }
    cJSON_Delete(f.tokenizer);
    cJSON_Delete(f.tokenizer_config);
    cJSON_Delete(f.generation_config);
    return rc;
}
