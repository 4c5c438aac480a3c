#include "runtime/model/demo.h"

/* One symbol pair per file, embedded unchanged in the read-only data. */
#define EMBED(symbol, path)                                       \
    __asm__(".section .rodata\n"                                  \
            ".balign 64\n"                                        \
            ".globl " #symbol ", " #symbol "_end\n" #symbol ":\n" \
            ".incbin \"" path "\"\n" #symbol "_end:\n"            \
            ".byte 0\n"                                           \
            ".previous\n")

EMBED(demo_model, "quant/demo/retain-demo.gguf");
EMBED(demo_heads, "quant/demo/retain-demo-heads.gguf");
