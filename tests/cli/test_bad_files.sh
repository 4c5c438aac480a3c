#!/bin/sh
# Whatever stands where a model should be gets one clear line and exit status 3.
. "$(dirname "$0")/lib.sh"

printf 'this is no model\n' >"$T/text.gguf"
: >"$T/empty.gguf"
mkdir "$T/folder.gguf"
# magic, version 3, 2^60 tensors, 0 keys
printf 'GGUF\003\000\000\000\000\000\000\000\000\000\000\020\000\000\000\000\000\000\000\000' >"$T/huge.gguf"
# magic, version 3, one tensor "a", 1 dimension of 32, type 99, offset 0, then data
printf 'GGUF\003\000\000\000\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000' >"$T/type.gguf"
printf '\001\000\000\000\000\000\000\000a\001\000\000\000\040\000\000\000\000\000\000\000\143\000\000\000\000\000\000\000\000\000\000\000' >>"$T/type.gguf"
head -c 256 /dev/zero >>"$T/type.gguf"
head -c 100000 quant/demo/retain-demo.gguf >"$T/truncated.gguf"

for f in text empty folder huge type truncated missing; do
    "$RETAIN" generate -m "$T/$f.gguf" -p hello >"$T/out" 2>"$T/err"
    equal "$f: exit status" 3 $?
    equal "$f: nothing on stdout" 0 "$(wc -c <"$T/out" | tr -d ' ')"
    equal "$f: one line on stderr" 1 "$(wc -l <"$T/err" | tr -d ' ')"
    holds "$f: names the file" "$(cat "$T/err")" "^retain: .*$f\.gguf"
done
holds "type: names the type" "$("$RETAIN" info -m "$T/type.gguf" 2>&1)" '99'

"$RETAIN" info --heads "$T/text.gguf" >/dev/null 2>&1
equal "bad heads: exit status" 3 $?
"$RETAIN" nonsense >/dev/null 2>&1
equal "unknown command: exit status" 2 $?
"$RETAIN" generate --bugdet 12 >"$T/out" 2>&1
equal "misspelt option: exit status" 2 $?
holds "misspelt option: nearest" "$(cat "$T/out")" 'budget'
"$RETAIN" generate -p hi --memory 1M >"$T/out" 2>&1
equal "does not fit: exit status" 4 $?
holds "does not fit: numbers" "$(cat "$T/out")" 'needs [0-9.]+ MiB.*may be used'
finish
