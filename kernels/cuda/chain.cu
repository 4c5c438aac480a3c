/* chain: products of one token that follow each other, in one launch. A step begins when all blocks have
 * ended the one before; its first weights are loaded while they wait, and while its input is normed. So
 * memory is not idle between two matrices, as it is between two launches.
 *
 * The blocks wait for each other as cooperative groups do (CUDA C++ Programming Guide, grid
 * synchronization): a fence and a count by one thread of each block, between two barriers. */
#include "kernels/cuda/matvec.cuh"

/* Until the steps' ends count up to n. Reads after it see what was written before those ends. */
DEVICE void wait_for(const uint32_t *ended, uint32_t n)
{
    if (thread_id() == 0) {
        while (load_changing(ended) < n) {
        }
        memory_fence();
    }
    barrier();
}

/* After a barrier behind the block's writes. */
DEVICE void end_step(uint32_t *ended)
{
    if (thread_id() == 0) {
        memory_fence();
        atomic_add(ended, 1);
    }
}

template <int FORMAT, class JOB>
DEVICE void run_step(const JOB &a, const uint32_t *ended, uint32_t before)
{
    struct share<FORMAT> w = own_share<FORMAT>(a, min_int(block_x(), blocks_of(a) - 1));

    if (before) wait_for(ended, before);
    compute_blocks<FORMAT>(a, &w, block_x(), grid_x());
}

template <int FORMAT>
DEVICE void run_format(const struct cuda_chain_step &s, const uint32_t *ended, uint32_t before)
{
    if (s.gates)
        run_step<FORMAT>(s.gate, ended, before);
    else
        run_step<FORMAT>(s.product, ended, before);
}

KERNEL(chain, struct cuda_chain, CUDA_MATVEC_THREADS, CUDA_CHAIN_BLOCKS)
{
    for (int i = 0; i < a.n; i++) {
        const struct cuda_chain_step &s = a.steps[i];
        const uint32_t before = s.waits ? (uint32_t)(i * grid_x()) : 0;

        if (s.format == CUDA_Q4) run_format<CUDA_Q4>(s, a.ended, before);
        if (s.format == CUDA_Q8) run_format<CUDA_Q8>(s, a.ended, before);
        if (s.format == CUDA_Q4A) run_format<CUDA_Q4A>(s, a.ended, before);
        if (s.format == CUDA_Q5A) run_format<CUDA_Q5A>(s, a.ended, before);
        if (s.format == CUDA_Q6) run_format<CUDA_Q6>(s, a.ended, before);
        if (i + 1 < a.n) end_step(a.ended);
    }
    last_block(a.ended, a.n * grid_x(), (uint32_t *)shared_memory()); /* makes it 0 again */
}
