/* pack: converts weights from the CPU's panels (kernels.h) to the order in which the device reads
 * them.
 *
 * Runs on the host, once, while loading. Layout: struct cuda_weight in args.h. Lossless, and of the
 * same size. */
#ifndef RETAIN_KERNELS_CUDA_PACK_H
#define RETAIN_KERNELS_CUDA_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

bool cuda_packs(
    enum kn_type type); /* whether kernels exist for the type; floats stay as they are */

/* Bytes of a panel of 16 rows: its quants and its scales. */
size_t cuda_panel_bytes(enum kn_type type, int n_in);
size_t cuda_panel_scale_bytes(enum kn_type type, int n_in);

static inline int cuda_panels(int n_out)
{
    return (n_out + KN_PANEL - 1) / KN_PANEL;
}

/* Panels [panel, panel + n) of w, to q and d: both begin with panel `panel`. */
void cuda_pack(void *q, void *d, const struct kn_weight *w, int panel, int n);

#endif
