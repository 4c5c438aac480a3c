#!/bin/sh
# make check notices an arrow that points the wrong way.
. "$(dirname "$0")/lib.sh"

check "the tree as it is" tests/check_layers.sh
mkdir -p "$T/tree/tests" "$T/tree/store" "$T/tree/runtime" "$T/tree/kernels" "$T/tree/tui" "$T/tree/quant"
cp tests/check_layers.sh "$T/tree/tests/"
: >"$T/tree/main.c"
printf '#include "tui/chat.h"\n' >"$T/tree/store/bad.c"
if out=$("$T/tree/tests/check_layers.sh"); then no "store may include tui"; else ok; fi
holds "names file, line and header" "$out" '^store/bad\.c:1: .*tui/chat\.h'
finish
