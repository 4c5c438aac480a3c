/* fuzz: bytes as a file written by torch.save. */
#include <stddef.h>
#include <stdint.h>

#include "quant/heads/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct torch_file *f;
    struct err e;
    torch_file_open(&f, bytes, n, "fuzz", &e);
    torch_file_close(f);
    return 0;
}
