/* fuzz: bytes as a file of retaining heads, loaded when consistent. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/model/retaining.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct gguf *g;
    struct retaining *h;
    struct arena plan, memory;
    struct err e;
    if (gguf_open_bytes(&g, bytes, n, "fuzz", &e)) return 0;
    if (retaining_open(&h, g, &e)) return 0; /* always takes ownership of the file */
    arena_init_plan(&plan, "heads");
    retaining_plan(h, &plan);
    if (plan.used < 64 * n + (1 << 20) && !arena_init(&memory, "heads", plan.used, &e)) {
        retaining_plan(h, &memory);
        retaining_load(h);
        arena_release(&memory);
    }
    retaining_close(h);
    return 0;
}
