/* fuzz: bytes as a file of retaining heads, loaded when they fit together. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/heads.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct gguf *g;
    struct heads *h;
    struct arena plan, memory;
    struct err e;
    if (gguf_open_bytes(&g, bytes, n, "fuzz", &e)) return 0;
    if (heads_open(&h, g, &e)) return 0; /* which owns the file in every case */
    arena_init_plan(&plan, "heads");
    heads_plan(h, &plan);
    if (plan.used < 64 * n + (1 << 20) && !arena_init(&memory, "heads", plan.used, &e)) {
        heads_plan(h, &memory);
        heads_load(h);
        arena_release(&memory);
    }
    heads_close(h);
    return 0;
}
