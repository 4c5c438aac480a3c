/* make_models: writes a model file of the tests from its recipe. The weights are random, so only
 * the recipe and the logits are stored, and the weights are drawn when the tests are built. It
 * shares nothing with the program. drawn.py is its twin, which writes the recipes and computes the
 * logits; the numbers of both are equal to the bit. A recipe has a line for each key and tensor:
 *
 *   str KEY TEXT, u32 KEY N, f32 KEY X, bool KEY 0, i32s KEY N…, bools KEY 0…     as in GGUF
 *   u16 KEY N, i32 KEY N        of split models
 *   vocab N                     the keys of a vocabulary of N tokens, at least 300
 *   tensor NAME TYPE N…         the outermost dimension first; its numbers are in the next lines:
 *   draw - MEAN STEP            mean + step * u, u odd from -127 to 127, for each number of the
 *                               tensor; in blocks, random codes whose scale is a multiple of step
 *   draw NAME MEAN STEP         the same with the numbers of another name, all of them, or
 *   draw NAME MEAN STEP OFFSET N STRIDE N STRIDE…       a view of them
 *   list X…                     these numbers
 *
 *   make_models RECIPE FILE.gguf      make_models RECIPE FILE.safetensors */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIMS_MAX = 8, TENSORS_MAX = 512, LINE_MAX_BYTES = 1 << 16 };

struct bytes {
    unsigned char *data;
    size_t n, room;
};

static struct bytes keys, infos, data; /* infos: GGUF's tensors, or the members of a JSON object */
static uint32_t n_keys, n_tensors;
static int is_gguf;
static const char *line_text = "";

static void die(const char *message)
{
    fprintf(stderr, "make_models: %s: %s\n", message, line_text);
    exit(1);
}

/* Room for n more bytes. */
static unsigned char *grow(struct bytes *b, size_t n)
{
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->data = realloc(b->data, b->room);
        if (!b->data) die("out of memory");
    }
    b->n += n;
    return b->data + b->n - n;
}

static void put(struct bytes *b, const void *from, size_t n)
{
    memcpy(grow(b, n), from, n);
}

static void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, 4);
}

static void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, 8);
}

static void put_f32(struct bytes *b, double v)
{
    const float f = (float)v;
    put(b, &f, 4);
}

static void put_text(struct bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void pad(struct bytes *b)
{
    while (b->n % 32) put(b, "", 1);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* FNV-1a of a name, and the top byte of splitmix64's number. */
static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3;
    return h;
}

static int drawn_byte(uint64_t name, uint64_t index)
{
    uint64_t z = name + (index + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int)((z ^ z >> 31) >> 56);
}

/* Numbers are chosen so that nothing is rounded. */
static uint16_t half(double v)
{
    int power;
    const double fraction = frexp(fabs(v), &power); /* in [1/2, 1) */
    const int field = power + 14 < 1 ? 1 : power + 14;
    const double bits = ldexp(fraction, 11 + power + 14 - field);
    if (v != 0 && (bits != floor(bits) || field > 30)) die("no number of half precision");
    const uint16_t h = (uint16_t)((field - 1) * 1024 + (int)bits + (v < 0) * 32768);
    return v == 0 ? 0 : h;
}

static const struct type {
    const char *name;
    uint32_t id;
    int block, bytes;
    int halves[2]; /* where a block has its scales, -1: nowhere */
    double ratio;  /* the second scale is that much larger: numbers are around 0 */
} types[] = {{"F32", 0, 1, 4, {-1, -1}, 0},        {"F16", 1, 1, 2, {-1, -1}, 0},
             {"-EXP", 0, 1, 4, {-1, -1}, 0}, /* F32: -exp of what is drawn */
             {"Q4_0", 2, 32, 18, {0, -1}, 0},      {"Q5_0", 6, 32, 22, {0, -1}, 0},
             {"Q8_0", 8, 32, 34, {0, -1}, 0},      {"Q4_K", 12, 256, 144, {0, 2}, 7.5},
             {"Q6_K", 14, 256, 210, {208, -1}, 0}, {"NVFP4", 40, 64, 36, {-1, -1}, 0}};

struct tensor {
    const struct type *type;
    char name[128];
    uint64_t wanted, n; /* numbers, and how many it has */
};

static struct tensor tensor;

static void put_number(double v)
{
    if (!strcmp(tensor.type->name, "F16"))
        put(&data, &(uint16_t){half(v)}, 2);
    else
        put_f32(&data, *tensor.type->name == '-' ? -exp((float)v) : v);
    tensor.n++;
}

/* A block of random bits with scales from 16 to 31 steps; NVFP4's four scales are from 1
 * to 3.75. */
static void put_block(uint64_t name, uint64_t at, double step)
{
    const struct type *t = tensor.type;
    unsigned char *out = grow(&data, (size_t)t->bytes);
    for (int i = 0; i < t->bytes; i++) {
        const int byte = drawn_byte(name, at + (uint64_t)i);
        out[i] = (uint8_t)(t->id == 40 && i < 4 ? 56 + byte % 16 : byte);
    }
    for (int i = 0; i < 2 && t->halves[i] >= 0; i++) {
        const uint16_t scale = half(step * (16 + out[t->halves[i]] % 16) * (i ? t->ratio : 1));
        memcpy(out + t->halves[i], &scale, 2);
    }
    tensor.n += (uint64_t)t->block;
}

struct draw {
    uint64_t name;
    double mean, step;
    int n_dims;
    int64_t n[DIMS_MAX], stride[DIMS_MAX];
};

static void put_view(const struct draw *d, int dim, int64_t at)
{
    if (dim == d->n_dims) {
        put_number(d->mean + d->step * (int8_t)(drawn_byte(d->name, (uint64_t)at) | 1));
        return;
    }
    for (int64_t i = 0; i < d->n[dim]; i++) put_view(d, dim + 1, at + i * d->stride[dim]);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static char *word(void)
{
    char *w = strtok(NULL, " ");
    if (!w) die("too short");
    return w;
}

static void read_draw(void)
{
    const char *name = word();
    struct draw d = {.name = hash_name(*name == '-' ? tensor.name : name)};
    d.mean = atof(word());
    d.step = atof(word());
    const char *w = strtok(NULL, " ");
    const int64_t offset = w ? atoll(w) : 0;
    for (; w && (w = strtok(NULL, " ")); d.n_dims++) {
        if (d.n_dims == DIMS_MAX) die("too many dimensions");
        d.n[d.n_dims] = atoll(w);
        d.stride[d.n_dims] = atoll(word());
    }
    if (!w && !d.n_dims)
        d = (struct draw){d.name, d.mean, d.step, 1, {(int64_t)tensor.wanted}, {1}};
    const uint64_t n_blocks = tensor.wanted / (uint64_t)tensor.type->block;
    for (uint64_t i = 0; tensor.type->block > 1 && i < n_blocks; i++)
        put_block(d.name, i * (uint64_t)tensor.type->bytes, d.step);
    if (tensor.type->block == 1) put_view(&d, 0, offset);
}

/* The last tensor has all of its numbers. */
static void end_tensor(void)
{
    if (tensor.n != tensor.wanted) die("a tensor has other numbers than its shape says, before");
    if (is_gguf) pad(&data);
}

static void tell_safetensors(const uint64_t *shape, int n_dims, uint64_t bytes)
{
    char text[512];
    int n =
        snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", n_tensors ? "," : "",
                 tensor.name, tensor.type->id ? tensor.type->name : "F32");
    for (int i = 0; i < n_dims; i++)
        n += snprintf(text + n, sizeof text - n, "%s%d", i ? "," : "", (int)shape[i]);
    n += snprintf(text + n, sizeof text - n, "],\"data_offsets\":[%zu,%zu]}", data.n,
                  data.n + (size_t)bytes);
    put(&infos, text, (size_t)n);
}

static void tell_gguf(const uint64_t *shape, int n_dims)
{
    put_text(&infos, tensor.name);
    put_u32(&infos, (uint32_t)n_dims);
    for (int i = n_dims; i-- > 0;) put_u64(&infos, shape[i]);
    put_u32(&infos, tensor.type->id);
    put_u64(&infos, data.n);
}

static void read_tensor(void)
{
    uint64_t shape[DIMS_MAX];
    int n_dims = 0;
    end_tensor();
    tensor = (struct tensor){.wanted = 1, .type = types};
    snprintf(tensor.name, sizeof tensor.name, "%s", word());
    const char *type = word();
    while (strcmp(tensor.type->name, type) != 0)
        if (++tensor.type == types + sizeof types / sizeof *types) die("no such type");
    for (char *w; (w = strtok(NULL, " ")) && n_dims < DIMS_MAX;) {
        shape[n_dims++] = strtoull(w, NULL, 10);
        tensor.wanted *= shape[n_dims - 1];
    }
    if (is_gguf)
        tell_gguf(shape, n_dims);
    else
        tell_safetensors(shape, n_dims, tensor.wanted * (uint64_t)tensor.type->bytes);
    n_tensors++;
}

static void put_key(const char *key, uint32_t type)
{
    put_text(&keys, key);
    put_u32(&keys, type);
    n_keys++;
}

static void put_array(const char *key, uint32_t type, uint64_t n)
{
    put_key(key, 9);
    put_u32(&keys, type);
    put_u64(&keys, n);
}

static void read_numbers(const char *key, int is_bool)
{
    char *w[256];
    size_t n = 0;
    while (n < 256 && (w[n] = strtok(NULL, " "))) n++;
    put_array(key, is_bool ? 7 : 5, n);
    for (size_t i = 0; i < n; i++)
        put(&keys, &(int32_t){atoi(w[i])}, is_bool ? 1 : 4); /* the lowest byte first */
}

static void read_key(const char *kind)
{
    const char *key = word();
    if (!strcmp(kind, "str"))
        put_key(key, 8), put_text(&keys, strtok(NULL, ""));
    else if (!strcmp(kind, "u32") || !strcmp(kind, "i32"))
        put_key(key, *kind == 'u' ? 4 : 5), put_u32(&keys, (uint32_t)atoll(word()));
    else if (!strcmp(kind, "u16"))
        put_key(key, 2), put(&keys, &(uint16_t){(uint16_t)atoi(word())}, 2);
    else if (!strcmp(kind, "f32"))
        put_key(key, 6), put_f32(&keys, atof(word()));
    else if (!strcmp(kind, "bool"))
        put_key(key, 7), put(&keys, *word() == '0' ? "\0" : "\1", 1);
    else if (!strcmp(kind, "i32s") || !strcmp(kind, "bools"))
        read_numbers(key, *kind == 'b');
    else
        die("no such line");
}

/* Three marks, 256 bytes, a blank, letters, letters after a blank, the mark that llama.cpp requires
 * in a phi3 file, pairs of letters, and words that occur in no text. */
enum { BYTES = 3, BLANK = 259, LETTERS = 260, WORDS = 286, LAST = 299 };

static void put_vocabulary_word(int id)
{
    static const char *const marks[] = {"<unk>", "<s>", "</s>"};
    char text[32];
    if (id > LAST + 26)
        snprintf(text, sizeof text, "~%d~", id);
    else if (id > LAST)
        snprintf(text, sizeof text, "%c%c", 'a' + id - LAST, 'a' + id - LAST);
    else if (id < BYTES || id == LAST)
        snprintf(text, sizeof text, "%s", id == LAST ? "<|endoftext|>" : marks[id]);
    else if (id < BLANK)
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)(id - BYTES));
    else if (id == BLANK || id >= WORDS)
        snprintf(text, sizeof text, "\xE2\x96\x81%.1s",
                 id == BLANK ? "" : (char[]){(char)('a' + id - WORDS), 0});
    else
        snprintf(text, sizeof text, "%c", 'a' + id - LETTERS);
    put_text(&keys, text);
}

static void put_vocabulary(int n)
{
    put_key("tokenizer.ggml.model", 8);
    put_text(&keys, "llama");
    put_array("tokenizer.ggml.tokens", 8, (uint64_t)n);
    for (int i = 0; i < n; i++) put_vocabulary_word(i);
    put_array("tokenizer.ggml.scores", 6, (uint64_t)n);
    for (int i = 0; i < n; i++) put_f32(&keys, -i);
    put_array("tokenizer.ggml.token_type", 5, (uint64_t)n);
    for (int i = 0; i < n; i++)
        put_u32(&keys, i == 0 ? 2 : i < BYTES || i == LAST ? 3 : i < BLANK ? 6 : 1);
    put_key("tokenizer.ggml.bos_token_id", 4);
    put_u32(&keys, 1);
    put_key("tokenizer.ggml.eos_token_id", 4);
    put_u32(&keys, 2);
    put_key("tokenizer.ggml.unknown_token_id", 4);
    put_u32(&keys, 0);
}

static void read_line(char *line)
{
    char *kind = strtok(line, " ");
    if (!strcmp(kind, "tensor"))
        read_tensor();
    else if (!strcmp(kind, "draw"))
        read_draw();
    else if (!strcmp(kind, "list"))
        for (char *w; (w = strtok(NULL, " "));) put_number(atof(w));
    else if (!strcmp(kind, "vocab"))
        put_vocabulary(atoi(word()));
    else
        read_key(kind);
}

static void write_file(const char *path)
{
    struct bytes head = {0};
    char temporary[4096];
    if (is_gguf) {
        put(&head, "GGUF\3\0\0\0", 8);
        put_u64(&head, n_tensors);
        put_u64(&head, n_keys);
        put(&head, keys.data, keys.n);
        put(&head, infos.data, infos.n);
        pad(&head);
    } else {
        put_u64(&head, infos.n + 2);
        put(&head, "{", 1);
        put(&head, infos.data, infos.n);
        put(&head, "}", 1);
    }
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    FILE *f = fopen(temporary, "wb");
    if (!f || fwrite(head.data, 1, head.n, f) != head.n ||
        fwrite(data.data, 1, data.n, f) != data.n || fclose(f) || rename(temporary, path))
        die("cannot write the file");
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
    FILE *f = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!f) die("needs a recipe and the name of the file");
    const size_t n = strlen(argv[2]);
    is_gguf = n > 5 && !strcmp(argv[2] + n - 5, ".gguf");
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        memcpy(text, line, sizeof text);
        line_text = text;
        if (*line) read_line(line);
    }
    end_tensor();
    write_file(argv[2]);
    return 0;
}
