/* chain: products of one token that follow each other, in one launch. A step begins when all blocks have
 * ended the one before; its first weights are loaded while they wait, three quads of every warp. So
 * memory is not idle between two matrices, as it is between two launches.
 *
 * The blocks wait for each other as cooperative groups do (CUDA C++ Programming Guide, grid
 * synchronization): one thread of each block counts and waits, then a barrier. */
#include "kernels/cuda/matvec.cuh"

/* Waits until n steps have ended. Reads after this see what those steps wrote. */
DEVICE void wait_for(const uint32_t *ended, uint32_t n)
{
    if (thread_id() == 0) {
        while (load_changing(ended) < n) {
        }
        load_acquire(ended);
    }
    barrier();
}

/* Of a step, whose results warp 0 has written. The count returns to 0 after `all` ends. */
DEVICE void end_step(uint32_t *ended, uint32_t all)
{
    if (warp_id() > 0) return;
    warp_sync();
    if (lane_id() == 0) count_release(ended, all);
}

template <int FORMAT, class JOB>
DEVICE void run_step(const JOB &a, const uint32_t *ended, uint32_t before)
{
    struct ring<FORMAT> r = ring_of<FORMAT>(a, block_x(), blocks_of(a), grid_x());
    float norm[NORM_HELD][4];

    load_columns(norm, a.made.w, 0, columns_of(a));
    if (before)
        wait_for(ended, before);
    else
        barrier(); /* shared memory was read */
    if (block_x() < blocks_of(a)) compute_blocks<FORMAT>(a, &r, norm, block_x(), grid_x());
}

template <int FORMAT>
DEVICE void run_format(const struct cuda_chain_step &s, const uint32_t *ended, uint32_t before)
{
    if (s.gates)
        run_step<FORMAT>(s.gate, ended, before);
    else
        run_step<FORMAT>(s.product, ended, before);
}

/* Every block counts before each step that waits, and at the end. */
KERNEL(chain, struct cuda_chain, CUDA_MATVEC_THREADS, CUDA_CHAIN_BLOCKS)
{
    uint32_t all = (uint32_t)grid_x(), before = 0;

    for (int i = 1; i < a.n; i++)
        if (a.steps[i].waits) all += (uint32_t)grid_x();
    for (int i = 0; i < a.n; i++) {
        const struct cuda_chain_step &s = a.steps[i];
        const bool waits = i && s.waits;

        if (waits) end_step(a.ended, all);
        if (waits) before += (uint32_t)grid_x();
        if (s.format == CUDA_Q4) run_format<CUDA_Q4>(s, a.ended, waits ? before : 0);
        if (s.format == CUDA_Q8) run_format<CUDA_Q8>(s, a.ended, waits ? before : 0);
        if (s.format == CUDA_Q4A) run_format<CUDA_Q4A>(s, a.ended, waits ? before : 0);
        if (s.format == CUDA_Q5A) run_format<CUDA_Q5A>(s, a.ended, waits ? before : 0);
        if (s.format == CUDA_Q6) run_format<CUDA_Q6>(s, a.ended, waits ? before : 0);
    }
    end_step(a.ended, all);
}
