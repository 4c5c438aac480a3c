#include "kernels/cuda/pack.h"

#include <string.h>

#include "kernels/cuda/args.h"

enum { ROWS = 16, GROUP = 32 };

static size_t n_tiles(int n_out, int n_in)
{
    return (size_t)((n_out + ROWS - 1) / ROWS) * (size_t)((n_in + CUDA_BLOCK - 1) / CUDA_BLOCK);
}

size_t cuda_q4_bytes(int n_out, int n_in)
{
    return n_tiles(n_out, n_in) * ROWS * CUDA_BLOCK / 2;
}

size_t cuda_q8_bytes(int n_out, int n_in)
{
    return n_tiles(n_out, n_in) * ROWS * CUDA_BLOCK;
}

size_t cuda_scale_bytes(int n_out, int n_in)
{
    return n_tiles(n_out, n_in) * ROWS * 2 * sizeof(uint16_t);
}

/* Tile of row r and group g. */
static size_t tile_of(int r, int g, int n_in)
{
    return (size_t)(r / ROWS) * (size_t)((n_in + CUDA_BLOCK - 1) / CUDA_BLOCK) + (size_t)(g / 2);
}

static void pack_scale(uint16_t *d, size_t tile, int r, int g, const uint8_t *block)
{
    const int row = r % ROWS;
    memcpy(d + tile * ROWS * 2 + row % 8 * 4 + g % 2 * 2 + row / 8, block, 2);
}

/* Q4_0: half d, then byte j holds column j (low nibble) and column j + 16: bytes 4t .. 4t + 3 are
 * the word of lane 4 (row % 8) + t. */
void cuda_pack_q4(uint8_t *q, uint16_t *d, int r, int n_in, const void *blocks)
{
    const uint8_t *block = blocks;
    const int row = r % ROWS;

    for (int g = 0; g < n_in / GROUP; g++, block += 18) {
        const size_t tile = tile_of(r, g, n_in);
        pack_scale(d, tile, r, g, block);
        for (int t = 0; t < 4; t++)
            memcpy(q + tile * 512 + (size_t)(row % 8 * 4 + t) * 16 + (size_t)(g % 2 * 8) +
                       (size_t)(row / 8 * 4),
                   block + 2 + 4 * t, 4);
    }
}

/* Q8_0: half d, then 32 signed bytes. */
void cuda_pack_q8(uint8_t *q, uint16_t *d, int r, int n_in, const void *blocks)
{
    const uint8_t *block = blocks;
    const int row = r % ROWS;

    for (int g = 0; g < n_in / GROUP; g++, block += 34) {
        const size_t tile = tile_of(r, g, n_in);
        pack_scale(d, tile, r, g, block);
        for (int w = 0; w < 8; w++)
            memcpy(q + tile * 1024 + (size_t)(g % 2 * 512) + (size_t)(row % 8 * 4 + w % 4) * 16 +
                       (size_t)(w / 4 * 8) + (size_t)(row / 8 * 4),
                   block + 2 + 4 * w, 4);
    }
}
