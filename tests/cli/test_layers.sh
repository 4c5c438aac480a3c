#!/bin/sh
# make check notices an arrow that points the wrong way, a circle of files, and a printf.
. "$(dirname "$0")/lib.sh"

check "the tree as it is" tests/check_layers.sh
for room in tests base store runtime/cache runtime/session runtime/model runtime/forward kernels cli/control \
    tui/term tui/chat quant; do mkdir -p "$T/tree/$room"; done
cp tests/check_layers.sh "$T/tree/tests/"
: >"$T/tree/main.c"
put() { printf '%s\n' "$2" >"$T/tree/$1"; }

# FILE HEADER…: a file of one room that includes another
for case in store/bad.c:tui/chat/app.h runtime/cache/bad.c:runtime/session/session.h \
    store/bad.c:runtime/cache/cache.h cli/control/bad.h:tui/term/screen.h runtime/model/bad.c:runtime/forward/plan.h \
    tui/term/bad.c:tui/text/edit.h kernels/bad.c:base/err.h base/bad.c:store/store.h; do
    file=${case%%:*} header=${case#*:}
    put "$file" "#include \"$header\""
    if out=$("$T/tree/tests/check_layers.sh"); then no "$file may include $header"; else ok; fi
    holds "names file, line and header" "$out" "^$file:1: .*$header"
    rm "$T/tree/$file"
done

# Three files may include each other, four may not.
for n in 1 2 3; do put "cli/control/f$n.h" "#include \"cli/control/f$((n % 3 + 1)).h\""; done
check "a circle of three" "$T/tree/tests/check_layers.sh"
put cli/control/f3.h '#include "cli/control/f4.h"'
put cli/control/f4.c '#include "cli/control/f1.h"'
if out=$("$T/tree/tests/check_layers.sh"); then no "a circle of four"; else ok; fi
holds "names the circle" "$out" '^circle: .*cli/control/f[1-4] .*cli/control/f[1-4] .*cli/control/f[1-4] .*cli/control/f[1-4]'
rm "$T"/tree/cli/control/f?.?

# Rooms may not form a circle, even if the rules are changed.
check "no circle" "$T/tree/tests/check_layers.sh"
sed -i 's/allowed\["base"\] .*/allowed["base"] = " base store "/' "$T/tree/tests/check_layers.sh"
put base/bad.c '#include "store/store.h"'
if out=$("$T/tree/tests/check_layers.sh"); then no "rules with a circle"; else ok; fi
holds "names the rooms" "$out" '^circle: .*(base.*store|store.*base)'
rm "$T/tree/base/bad.c"
cp tests/check_layers.sh "$T/tree/tests/"

printf 'int f(void)\n{\n    return printf("%%s", name());\n}\n' >"$T/tree/quant/loud.c"
holds "names a line that prints past the report" "$("$T/tree/tests/check_layers.sh")" '^quant/loud\.c:3:'
finish
