/* broken: kernels that are wrong on purpose, one mistake each, for test_emu. */
#include "broken.h"

#include "kernels/cuda/device.cuh"

/* Half of the block reaches another barrier. */
KERNEL(divergent_barrier, struct broken, 64, 1)
{
    if (warp_id())
        barrier();
    else if (a.wrong)
        barrier();
    else
        return;
}

/* Lanes reach different shuffles. */
KERNEL(divergent_warp, struct broken, 32, 1)
{
    uint32_t x = 1;
    if (a.wrong && lane_id() < 16)
        x = shfl_xor_u32(x, 1);
    else
        x = shfl_xor_u32(x, 2);
    a.out[thread_id()] = (float)x;
}

/* One lane never arrives. */
KERNEL(missing_lane, struct broken, 32, 1)
{
    if (a.wrong && lane_id() == 7) return;
    a.out[thread_id()] = warp_sum(1.0f);
}

/* A thread reads a value that its neighbour in another warp writes. */
KERNEL(missing_barrier, struct broken, 64, 1)
{
    float *shared = (float *)shared_memory();
    shared[thread_id()] = 1.0f;
    if (!a.wrong) barrier();
    a.out[thread_id()] = shared[thread_id() ^ 32];
}

/* The same inside a warp. */
KERNEL(missing_warp_sync, struct broken, 32, 1)
{
    float *shared = (float *)shared_memory();
    shared[thread_id()] = 1.0f;
    if (!a.wrong) warp_sync();
    a.out[thread_id()] = shared[thread_id() ^ 1];
}

/* A copy is read before it has arrived. */
KERNEL(missing_wait, struct broken, 32, 1)
{
    float *shared = (float *)shared_memory();
    cp_async16(shared + thread_id() * 4, a.in + thread_id() * 4, 16);
    cp_async_commit();
    if (a.wrong)
        cp_async_wait<1>();
    else
        cp_async_wait<0>();
    a.out[thread_id()] = shared[thread_id() * 4];
}

KERNEL(misaligned, struct broken, 32, 1)
{
    const u32x4 v = load16((const u32x4 *)(a.in + (a.wrong ? 1 : 0)));
    a.out[thread_id()] = bits_float(v.x);
}

/* The last lane copies past the end of shared memory. */
KERNEL(beyond_shared, struct broken, 32, 1)
{
    float *shared = (float *)shared_memory();
    const int i = thread_id() * 4 + (a.wrong ? 4 : 0);
    cp_async16(shared + i, a.in + thread_id() * 4, 16);
    cp_async_commit();
    cp_async_wait<0>();
    a.out[thread_id()] = shared[i];
}
