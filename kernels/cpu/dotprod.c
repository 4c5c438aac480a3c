/* dotprod: the kernels of ARMv8.2 with dot products. Differs from neon.c only in the products with
 * quantized weights: sdot adds 4 products of signed bytes to a row. */
enum { PANEL_TOK = 8 };

#include "kernels/cpu/neon_sdot.h"

V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job)
{
    (void)R;
    tile_by_quarters(type, T, job);
}

const struct kernels kn_dotprod = V16_PRODUCTS_TABLE("dotprod");
