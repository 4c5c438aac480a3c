#include "kernels/cuda/pack.h"

#include <string.h>

#include "kernels/cuda/args.h"

enum { ROWS = KN_PANEL, HALF = KN_PANEL / 2 };

static const int formats[KN_TYPES] = {
    [KN_Q4] = CUDA_Q4,   [KN_Q8] = CUDA_Q8, [KN_Q4A] = CUDA_Q4A,
    [KN_Q5A] = CUDA_Q5A, [KN_Q6] = CUDA_Q6, [KN_MX4] = CUDA_MX4,
};

bool cuda_packs(enum kn_type type)
{
    return type <= KN_Q6 || type == KN_MX4;
}

static size_t n_tiles(int n_in)
{
    return (size_t)((n_in + CUDA_BLOCK - 1) / CUDA_BLOCK);
}

size_t cuda_panel_bytes(enum kn_type type, int n_in)
{
    return n_tiles(n_in) * CUDA_TILE_BYTES(formats[type]);
}

size_t cuda_panel_scale_bytes(enum kn_type type, int n_in)
{
    return n_tiles(n_in) * CUDA_TILE_SCALE_BYTES(formats[type]);
}

/* The pair of row and group of a scale, or of a word of high bits. */
static int pair_of(int r, int g)
{
    return r % HALF * 4 + g * 2 + r / HALF;
}

/* Nibbles: a panel's dword qs[t][r] is the word of lane 4 (r % 8) + t. */
static void pack_nibbles(uint8_t *q, const uint8_t (*qs)[KN_PANEL][4], int g)
{
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < 4; t++)
            memcpy(q + (r % HALF * 4 + t) * 16 + g * 8 + r / HALF * 4, qs[t][r], 4);
}

/* Stores scales singly, or as pairs {first, second}. */
static void pack_scales(uint16_t *d, const uint16_t *first, const uint16_t *second, int g)
{
    for (int r = 0; r < ROWS; r++) {
        uint16_t *to = d + pair_of(r, g) * (second ? 2 : 1);
        to[0] = first[r];
        if (second) to[1] = second[r];
    }
}

/* Nibbles with offset 8 as two's complement. */
static void pack_q4(uint8_t *q, uint16_t *d, const struct kn_q4_panel *p, int g)
{
    pack_nibbles(q, p->qs, g);
    for (int i = 0; i < ROWS * 16; i++) q[i / 8 * 16 + g * 8 + i % 8] ^= 0x88;
    pack_scales(d, p->d, NULL, g);
}

/* Removes the offset of bytes: adding 128 equals subtracting 128, modulo 256. */
static void pack_q8(uint8_t *q, uint16_t *d, const struct kn_q8_panel *p, int g)
{
    pack_scales(d, p->d, NULL, g);
    for (int r = 0; r < ROWS; r++)
        for (int w = 0; w < 8; w++) {
            uint8_t *to = q + g * 512 + (r % HALF * 4 + w % 4) * 16 + w / 4 * 8 + r / HALF * 4;
            for (int i = 0; i < 4; i++) to[i] = p->qs[w][r][i] ^ 0x80;
        }
}

static void pack_q4a(uint8_t *q, uint16_t *d, const struct kn_q4a_panel *p, int g)
{
    pack_nibbles(q, p->qs, g);
    pack_scales(d, p->d, p->m, g);
}

static void pack_q5a(uint8_t *q, uint16_t *d, const struct kn_q5a_panel *p, int g)
{
    pack_nibbles(q, p->qs, g);
    pack_scales(d, p->d, p->m, g);
    for (int r = 0; r < ROWS; r++) memcpy(q + 512 + pair_of(r, g) * 4, p->qh[r], 4);
}

static void pack_q6(uint8_t *q, uint16_t *d, const struct kn_q6_panel *p, int g)
{
    pack_nibbles(q, p->qs, g);
    pack_scales(d, p->d[0], p->d[1], g);
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < 2; h++) memcpy(q + 512 + (pair_of(r, g) * 2 + h) * 4, p->qh[h][r], 4);
}

/* A scale of 2^(e - 128) is the upper half of a float with exponent e - 1; 0 below. */
static void pack_mx4(uint8_t *q, uint16_t *d, const struct kn_mx4_panel *p, int g)
{
    uint16_t scale[ROWS];
    for (int r = 0; r < ROWS; r++) scale[r] = (uint16_t)(p->e[r] ? (p->e[r] - 1) << 7 : 0);
    pack_nibbles(q, p->qs, g);
    pack_scales(d, scale, NULL, g);
}

/* Packs group g of a tile from the CPU's panel number `at`. */
static void pack_group(uint8_t *q, uint16_t *d, const struct kn_weight *w, size_t at, int g)
{
    switch (w->type) {
    case KN_Q4: pack_q4(q, d, (const struct kn_q4_panel *)w->data + at, g); break;
    case KN_Q8: pack_q8(q, d, (const struct kn_q8_panel *)w->data + at, g); break;
    case KN_Q4A: pack_q4a(q, d, (const struct kn_q4a_panel *)w->data + at, g); break;
    case KN_Q5A: pack_q5a(q, d, (const struct kn_q5a_panel *)w->data + at, g); break;
    case KN_MX4: pack_mx4(q, d, (const struct kn_mx4_panel *)w->data + at, g); break;
    default: pack_q6(q, d, (const struct kn_q6_panel *)w->data + at, g); break;
    }
}

void cuda_pack(void *q, void *d, const struct kn_weight *w, int panel, int n)
{
    const size_t q_tile = CUDA_TILE_BYTES(formats[w->type]), tiles = n_tiles(w->n_in);
    const size_t d_tile = CUDA_TILE_SCALE_BYTES(formats[w->type]);
    const size_t groups = (size_t)w->n_in / KN_GROUP;

    memset(q, 0, (size_t)n * tiles * q_tile);
    memset(d, 0, (size_t)n * tiles * d_tile);
    for (size_t i = 0; i < (size_t)n * groups; i++) {
        const size_t tile = i / groups * tiles + i % groups / 2;
        pack_group((uint8_t *)q + tile * q_tile, (uint16_t *)((char *)d + tile * d_tile), w,
                   (size_t)panel * groups + i, (int)(i % groups % 2));
    }
}
