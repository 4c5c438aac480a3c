#!/bin/sh
# make check notices an arrow that points the wrong way, and a printf.
. "$(dirname "$0")/lib.sh"

check "the tree as it is" tests/check_layers.sh
for room in tests base store runtime kernels cli tui quant; do mkdir -p "$T/tree/$room"; done
cp tests/check_layers.sh "$T/tree/tests/"
: >"$T/tree/main.c"
printf '#include "tui/chat.h"\n' >"$T/tree/store/bad.c"
if out=$("$T/tree/tests/check_layers.sh"); then no "store may include tui"; else ok; fi
holds "names file, line and header" "$out" '^store/bad\.c:1: .*tui/chat\.h'
printf 'int f(void)\n{\n    return printf("%%s", name());\n}\n' >"$T/tree/quant/loud.c"
holds "names a line that prints past the report" "$("$T/tree/tests/check_layers.sh")" '^quant/loud\.c:3:'
finish
