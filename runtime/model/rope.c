#include "runtime/model/rope.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/model/blocks.h"
#include "runtime/model/model.h"

/* The inputs of all ways of scaling. */
struct source {
    const struct model *m;
    int half; /* rotated pairs */
    float base;
};

static bool has(const struct source *s, const char *suffix)
{
    float v;
    return model_get_float(s->m, suffix, &v);
}

static double plain(const struct source *s, int i)
{
    return pow((double)s->base, -(double)i / s->half);
}

/* Divides the frequencies by the factors of a tensor. */
static int divide(float *freq, const struct source *s, const char *name, struct err *e)
{
    const struct gguf_tensor *t = gguf_tensor_find(s->m->file, name);
    if (t && gguf_is_start(s->m->file)) return 0; /* for a plan, which needs sizes alone */
    if (!t || t->type != GGUF_T_F32 || t->ne[0] != s->half || t->ne[1] != 1 || !t->data)
        return err_set(e, ERR_FORMAT, "%s: tensor %s is missing or does not have %d float32",
                       gguf_name(s->m->file), name, s->half);
    for (int i = 0; i < s->half; i++) {
        float factor;
        blocks_to_float(&factor, t->type, (const char *)t->data + 4 * i, 1);
        if (!isfinite(factor) || factor <= 0.0f)
            return err_set(e, ERR_FORMAT, "%s: number %d of %s is %g, expected one above 0",
                           gguf_name(s->m->file), i, name, (double)factor);
        freq[i] /= factor;
    }
    return 0;
}

/* ---- ways of scaling ------------------------------------------------------------------------- */

static int scale_none(struct rope *r, const struct source *s, struct err *e)
{
    (void)e;
    for (int i = 0; i < s->half; i++) r->freq[i] = (float)plain(s, i);
    return 0;
}

static int scale_linear(struct rope *r, const struct source *s, struct err *e)
{
    float factor = 1.0f;
    int rc = model_get_scale(s->m, "rope.scale_linear", &factor, e); /* files of 2023 */
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.factor", &factor, e);
    for (int i = 0; i < s->half; i++) r->freq[i] = (float)(plain(s, i) / factor);
    return rc;
}

/* Waves longer than the trained context are stretched, short ones are kept, those between are
 * interpolated. Some converters write the result as rope_freqs.weight; then nothing is left to
 * do. */
static int scale_llama3(struct rope *r, const struct source *s, struct err *e)
{
    float factor = 8.0f, low = 1.0f, high = 4.0f;
    int orig = 8192;
    int rc = model_get_scale(s->m, "rope.scaling.factor", &factor, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.low_freq_factor", &low, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.high_freq_factor", &high, e);
    if (!rc)
        rc = model_get_optional(s->m, "rope.scaling.original_context_length", 1, INT_MAX, &orig, e);
    if (rc || gguf_tensor_find(s->m->file, "rope_freqs.weight"))
        return rc ? rc : scale_none(r, s, e);
    if (high <= low)
        return err_set(e, ERR_FORMAT,
                       "%s: rope.scaling: high_freq_factor %g is not above low_freq_factor %g",
                       gguf_name(s->m->file), (double)high, (double)low);
    for (int i = 0; i < s->half; i++) {
        double f = plain(s, i), waves = orig * f / (2 * M_PI);
        double keep = fmin(1.0, fmax(0.0, (waves - low) / (high - low)));
        r->freq[i] = (float)(f * keep + f / factor * (1.0 - keep));
    }
    return 0;
}

/* The pair that makes `n_rotations` rotations over the original context: eq. 17 solved for d. */
static double yarn_pair(const struct source *s, int n_ctx_orig, double n_rotations)
{
    return s->half * log(n_ctx_orig / (n_rotations * 2 * M_PI)) / log((double)s->base);
}

/* YaRN: pairs that rotate more than beta_fast times are kept, those below beta_slow are stretched,
 * with a ramp between; attention is sharpened by 0.1 ln(factor) + 1 (eq. 22), or by
 * yarn_attn_factor. Converters write two things there: a model's own number, and 1 for the usual
 * one. gpt-oss does not round the ends of the ramp. */
static int scale_yarn(struct rope *r, const struct source *s, struct err *e)
{
    float factor = 1.0f, fast = 32.0f, slow = 1.0f, share = 1.0f, all_dims = 0.0f, extra = 1.0f,
          own = 1.0f;
    int rc = model_get_scale(s->m, "rope.scaling.factor", &factor, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.yarn_beta_fast", &fast, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.yarn_beta_slow", &slow, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.yarn_ext_factor", &share, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.yarn_log_multiplier", &all_dims, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.attn_factor", &extra, e);
    if (!rc) rc = model_get_scale(s->m, "rope.scaling.yarn_attn_factor", &own, e);
    if (rc) return rc;
    if (share != 1.0f)
        return err_set(e, ERR_FORMAT, "%s: %s.rope.scaling.yarn_ext_factor is %g, expected 1",
                       gguf_name(s->m->file), s->m->arch, (double)share);
    double low = yarn_pair(s, r->n_ctx_orig, fast), high = yarn_pair(s, r->n_ctx_orig, slow);
    const bool rounds = strcmp(s->m->arch, "gpt-oss") != 0;
    low = fmax(0.0, rounds ? floor(low) : low);
    high = fmin(2 * s->half - 1, rounds ? ceil(high) : high);
    for (int i = 0; i < s->half; i++) {
        double ramp = fmin(1.0, fmax(0.0, (i - low) / fmax(0.001, high - low)));
        double keep = 1.0 - ramp, f = plain(s, i);
        r->freq[i] = (float)(f * keep + f / factor * (1.0 - keep));
    }
    double grow = factor > 1.0f ? 0.1 * log((double)factor) : 0.0;
    r->magnitude = (float)((1.0 + grow) / (1.0 + all_dims * grow) * extra);
    if (own != 1.0f) r->magnitude = own;
    return 0;
}

/* LongRoPE: every pair has its own divisor, with one list for short conversations and one for long.
 * The magnitude is the same for both, as in training. */
static int scale_longrope(struct rope *r, const struct source *s, struct err *e)
{
    double stretch = (double)s->m->n_ctx / r->n_ctx_orig;
    if (stretch > 1.0 && r->n_ctx_orig > 1)
        r->magnitude = (float)sqrt(1.0 + log(stretch) / log(r->n_ctx_orig));
    int rc = model_get_scale(s->m, "rope.scaling.attn_factor", &r->magnitude, e);
    if (!rc) rc = scale_none(r, s, e);
    if (rc) return rc;
    memcpy(r->freq_long, r->freq, (size_t)s->half * sizeof *r->freq);
    rc = divide(r->freq, s, "rope_factors_short.weight", e);
    return rc ? rc : divide(r->freq_long, s, "rope_factors_long.weight", e);
}

static const struct scaling {
    const char *name; /* ARCH.rope.scaling.type */
    int (*scale)(struct rope *r, const struct source *s, struct err *e);
} scalings[] = {
    {"none", scale_none}, {"linear", scale_linear},     {"llama3", scale_llama3},
    {"yarn", scale_yarn}, {"longrope", scale_longrope},
};

/* Files that name no scaling type but have factors mean these types. */
static const char *implied(const struct source *s)
{
    if (gguf_tensor_find(s->m->file, "rope_factors_long.weight")) return "longrope";
    return has(s, "rope.scaling.factor") || has(s, "rope.scale_linear") ? "linear" : "none";
}

static const struct scaling *find_scaling(const struct source *s, struct err *e)
{
    char key[128], known[128] = "";
    struct gguf_str type;
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->m->arch);
    if (!gguf_get_str(s->m->file, key, &type))
        type = (struct gguf_str){implied(s), strlen(implied(s))};
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
        const char *name = scalings[i].name;
        size_t n = strlen(known);
        if (strlen(name) == type.n && !memcmp(name, type.data, type.n)) return &scalings[i];
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", name);
    }
    err_set(e, ERR_FORMAT, "%s: %s \"%s\" is not known; known are: %s", gguf_name(s->m->file), key,
            gguf_show(type).text, known);
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int read_source(struct rope *r, struct source *s, int head_dim, struct err *e)
{
    int rc = model_get_optional(s->m, "rope.dimension_count", 2, INT_MAX, &r->n_rot, e);
    if (!rc)
        rc = model_get_optional(s->m, "rope.scaling.original_context_length", 1, INT_MAX,
                                &r->n_ctx_orig, e);
    if (!rc) rc = model_get_scale(s->m, "rope.freq_base", &s->base, e);
    if (!rc && (r->n_rot > head_dim || r->n_rot % 2 || s->base <= 1.0f))
        rc = err_set(e, ERR_FORMAT,
                     "%s: %d numbers of a head of %d cannot be rotated with frequency base %g",
                     gguf_name(s->m->file), r->n_rot, head_dim, (double)s->base);
    s->half = r->n_rot / 2;
    return rc;
}

int rope_init(struct rope *r, const struct model *m, int head_dim, struct err *e)
{
    struct source s = {.m = m, .base = 10000.0f};
    *r = (struct rope){.n_rot = head_dim, .n_ctx_orig = m->n_ctx, .magnitude = 1.0f};
    int rc = read_source(r, &s, head_dim, e);
    if (rc) return rc;
    const struct scaling *scaling = find_scaling(&s, e);
    if (!scaling) return ERR_FORMAT;
    bool both = scaling->scale == scale_longrope;
    r->freq = memory_new((size_t)head_dim / 2, sizeof *r->freq);
    if (both) r->freq_long = memory_new((size_t)head_dim / 2, sizeof *r->freq_long);
    rc = scaling->scale(r, &s, e);
    bool divided = gguf_tensor_find(m->file, "rope_freqs.weight") != NULL;
    return rc || !divided ? rc : divide(r->freq, &s, "rope_freqs.weight", e);
}

int rope_init_plain(struct rope *r, int n_rot, int head_dim, float base, struct err *e)
{
    const struct source s = {.half = n_rot / 2, .base = base};
    *r = (struct rope){.n_rot = n_rot, .n_ctx_orig = INT_MAX, .magnitude = 1.0f};
    r->freq = memory_new((size_t)head_dim / 2, sizeof *r->freq);
    return scale_none(r, &s, e);
}

void rope_release(struct rope *r)
{
    free(r->freq);
    free(r->freq_long);
    r->freq = r->freq_long = NULL;
}

const float rope_still[KN_HEAD_DIM_MAX / 2];

const float *rope_freq(const struct rope *r, int n_pos)
{
    return r->freq_long && n_pos > r->n_ctx_orig ? r->freq_long : r->freq;
}

/* Angles are exact in double: a float times a position. Sine and cosine are computed for every 32nd
 * position and for 0 to 31; the others are products of two of those, within 2^-51: four times as
 * fast as computing each, and the same floats for 131,072 positions of a head of 128. */
#define STEPS 32

struct rotation {
    double c[KN_HEAD_DIM_MAX / 2], s[KN_HEAD_DIM_MAX / 2];
};

static void rotation_at(struct rotation *t, const float *freq, int half, int p)
{
    for (int i = 0; i < half; i++) {
        t->c[i] = cos((double)p * (double)freq[i]);
        t->s[i] = sin((double)p * (double)freq[i]);
    }
}

void rope_table(float *cosines, float *sines, const float *freq, int half, int n_pos)
{
    struct rotation small[STEPS], large;
    for (int j = 0; j < STEPS; j++) rotation_at(&small[j], freq, half, j);
    for (int p = 0; p < n_pos; p++, cosines += half, sines += half) {
        const struct rotation *t = &small[p % STEPS];
        if (p % STEPS == 0) rotation_at(&large, freq, half, p);
        for (int i = 0; i < half; i++) {
            cosines[i] = (float)(large.c[i] * t->c[i] - large.s[i] * t->s[i]);
            sines[i] = (float)(large.s[i] * t->c[i] + large.c[i] * t->s[i]);
        }
    }
}
