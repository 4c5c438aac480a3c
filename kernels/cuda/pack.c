#include "kernels/cuda/pack.h"

#include <string.h>

#include "kernels/cuda/args.h"

enum { ROWS = KN_PANEL, HALF = KN_PANEL / 2 };

bool cuda_packs(enum kn_type type)
{
    return type == KN_Q4 || type == KN_Q8;
}

static int n_tiles(int n_in)
{
    return (n_in + CUDA_BLOCK - 1) / CUDA_BLOCK;
}

size_t cuda_panel_bytes(enum kn_type type, int n_in)
{
    return (size_t)n_tiles(n_in) * ROWS * CUDA_BLOCK / (type == KN_Q4 ? 2 : 1);
}

size_t cuda_panel_scale_bytes(enum kn_type type, int n_in)
{
    (void)type;
    return (size_t)n_tiles(n_in) * ROWS * 2 * sizeof(uint16_t);
}

/* Scale of row r of group g of a tile. */
static size_t scale_at(int r, int g)
{
    return (size_t)(r % HALF * 4 + g * 2 + r / HALF);
}

/* A panel's dword qs[t][r] is the word of lane 4 (r % 8) + t. */
static void pack_q4(uint8_t *q, uint16_t *d, const struct kn_q4_panel *p, int g)
{
    for (int r = 0; r < ROWS; r++) {
        d[scale_at(r, g)] = p->d[r];
        for (int t = 0; t < 4; t++)
            memcpy(q + (r % HALF * 4 + t) * 16 + g * 8 + r / HALF * 4, p->qs[t][r], 4);
    }
}

/* Bytes lose their offset: 128 more is 128 less, modulo 256. */
static void pack_q8(uint8_t *q, uint16_t *d, const struct kn_q8_panel *p, int g)
{
    for (int r = 0; r < ROWS; r++) {
        d[scale_at(r, g)] = p->d[r];
        for (int w = 0; w < 8; w++) {
            uint8_t *to = q + g * 512 + (r % HALF * 4 + w % 4) * 16 + w / 4 * 8 + r / HALF * 4;
            for (int i = 0; i < 4; i++) to[i] = p->qs[w][r][i] ^ 0x80;
        }
    }
}

void cuda_pack(void *q, void *d, const struct kn_weight *w, int panel, int n)
{
    const size_t q_panel = cuda_panel_bytes(w->type, w->n_in);
    const size_t d_panel = cuda_panel_scale_bytes(w->type, w->n_in);
    const int groups = w->n_in / KN_GROUP;
    const size_t q_tile = q_panel / (size_t)n_tiles(w->n_in);
    const size_t d_tile = d_panel / (size_t)n_tiles(w->n_in);

    memset(q, 0, (size_t)n * q_panel);
    memset(d, 0, (size_t)n * d_panel);
    for (int i = 0; i < n * groups; i++) {
        const size_t at = (size_t)panel * (size_t)groups + (size_t)i;
        const size_t tile = (size_t)(i / groups * n_tiles(w->n_in) + i % groups / 2);
        uint8_t *tq = (uint8_t *)q + tile * q_tile;
        uint16_t *td = (uint16_t *)((char *)d + tile * d_tile);

        if (w->type == KN_Q4)
            pack_q4(tq, td, (const struct kn_q4_panel *)w->data + at, i % groups % 2);
        else
            pack_q8(tq, td, (const struct kn_q8_panel *)w->data + at, i % groups % 2);
    }
}
