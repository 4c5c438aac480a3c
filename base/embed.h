/* embed: a file as bytes of the program, in its read-only data. */
#ifndef RETAIN_BASE_EMBED_H
#define RETAIN_BASE_EMBED_H

/* Defines `symbol`, aligned to 64, and `symbol`_end, after which a 0 follows. path: from the root
 * of the tree; the Makefile must name it as a dependency of the object. */
#define EMBED(symbol, path)                                       \
    __asm__(".section .rodata\n"                                  \
            ".balign 64\n"                                        \
            ".globl " #symbol ", " #symbol "_end\n" #symbol ":\n" \
            ".incbin \"" path "\"\n" #symbol "_end:\n"            \
            ".byte 0\n"                                           \
            ".previous\n")

#endif
