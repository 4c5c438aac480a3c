/* Matrix products with the dot products of ARMv8.2: sdot adds 4 products of signed bytes to a row.
 */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_matmul.h"

enum { PANEL_TOK = 8, PANEL_STREAMS = 1 };

#include "kernels/cpu/v16_panels.h"

#include "kernels/cpu/neon_sdot.h"

V16_INLINE void panel_tile(enum kn_type type, const uint8_t *panels, size_t ahead, int n_group,
                           const struct act_group *x, int n_tok, float *y, size_t stride, int n_row,
                           int first)
{
    tile_by_quarters(type, panels, ahead, n_group, x, n_tok, y, stride, n_row, first);
}

static void matmul_q8(const struct kn_matmul *job, float *y)
{
    matmul_panels(KN_Q8, job, y);
}

void kn_matmul_q4_dotprod(const struct kn_matmul *job)
{
    matmul_panels(KN_Q4, job, job->y + job->row0);
}

void kn_matmul_q8_dotprod(const struct kn_matmul *job)
{
    matmul_q8(job, job->y + job->row0);
}

void kn_matmul_q4a_dotprod(const struct kn_matmul *job)
{
    matmul_panels(KN_Q4A, job, job->y + job->row0);
}

void kn_matmul_q5a_dotprod(const struct kn_matmul *job)
{
    matmul_panels(KN_Q5A, job, job->y + job->row0);
}

void kn_matmul_q6_dotprod(const struct kn_matmul *job)
{
    matmul_panels(KN_Q6, job, job->y + job->row0);
}

void kn_score_dotprod(const struct kn_score *job)
{
    score_v16(job, matmul_q8);
}
