#!/bin/sh
# retain quantize: its output runs and is close to the original; no file is overwritten or left
# incomplete.
. "$(dirname "$0")/lib.sh"

# The demo model is always present; it replaces a larger one.
M=quant/demo/retain-demo.gguf
say() { printf '<|user|> %s<|end|><|assistant|> %s<|end|>' "$1" "$2"; }
{
    say "Hello!" "Hello! How can I help you today?"
    say "My dog is called Biscuit." "Okay, I will remember that your dog's name is Biscuit."
    say "My locker code is 48213." "Got it, thanks for telling me."
    say "What does an owl eat?" "An owl eats mice."
    say "What is my locker code?" "Your locker code is 48213."
    say "What is my dog called?" "Your dog is called Biscuit."
} >"$T/text"
ppl() {
    "$RETAIN" perplexity --json -m "$1" -f "$T/text" --length 60 --kv f16 2>/dev/null |
        sed 's/.*"perplexity":\([0-9.]*\).*/\1/'
}
near() { # NAME A B PERCENT
    if awk "BEGIN { d = $2 - $3; if (d < 0) d = -d; exit !(d <= $3 * $4 / 100) }"; then ok
    else no "$1: $2 is not within $4 % of $3"; fi
}

"$RETAIN" quantize "$M" "$T/q8.gguf" --type q8 >"$T/out" 2>"$T/err"
equal "q8: exit status" 0 $?
equal "q8: the digest is the file's" "$(cut -c 1-64 "$T/out")" \
    "$("$RETAIN" verify -m "$T/q8.gguf" 2>/dev/null | head -n 1 | cut -c 1-64)"
# A byte of the last tensor.
cp "$T/q8.gguf" "$T/bit.gguf"
size=$(wc -c <"$T/bit.gguf")
printf 'U' | dd of="$T/bit.gguf" bs=1 seek=$((size - 100)) conv=notrunc 2>/dev/null
check "verify: exit status" "$RETAIN" verify -m "$T/q8.gguf"
holds "q8: says that int4 was the source" "$(cat "$T/err")" 'already quantized'
refused "verify, damaged" 3 'tensor [a-z].* digest' "$RETAIN" verify -m "$T/bit.gguf"
near "q8 of the demo" "$(ppl "$T/q8.gguf")" "$(ppl "$M")" 5
"$RETAIN" quantize "$T/q8.gguf" "$T/q4.gguf" >"$T/out" 2>&1
equal "q4: exit status" 0 $?
near "q4 of q8 of the demo" "$(ppl "$T/q4.gguf")" "$(ppl "$M")" 6

before=$(cksum <"$T/q4.gguf")
refused "is there" 2 'q4\.gguf already exists; --force' "$RETAIN" quantize "$M" "$T/q4.gguf"
equal "is there: unchanged" "$before" "$(cksum <"$T/q4.gguf")"
check "--force replaces" "$RETAIN" quantize "$M" "$T/q4.gguf" --force
refused "one name" 2 '' "$RETAIN" quantize "$M"
refused "unknown type" 2 '' "$RETAIN" quantize "$M" "$T/x.gguf" --type q5
head -c 100000 "$M" >"$T/cut.gguf"
refused "damaged" 3 '' "$RETAIN" quantize "$T/cut.gguf" "$T/x.gguf"
equal "damaged: one line" 1 "$(wc -l <"$T/out" | tr -d ' ')"
refused "heads" 3 '' "$RETAIN" quantize quant/demo/retain-demo-heads.gguf "$T/x.gguf"
mkdir "$T/folder"
refused "empty folder" 3 'folder/config\.json' "$RETAIN" quantize "$T/folder" "$T/x.gguf"
equal "no file was made" "" "$(ls "$T" | grep '^x')"

# Interrupted: neither OUT nor OUT.tmp remains. Killed: no OUT.
F16=$DATA/random/small-f16.gguf
if [ -r "$F16" ]; then
    "$RETAIN" quantize "$F16" "$T/s.gguf" --threads 1 >"$T/out" 2>&1 &
    pid=$!
    wait_for test -e "$T/s.gguf.tmp"
    kill -TERM $pid
    wait $pid
    equal "stopped: exit status" 130 $?
    equal "stopped: nothing is left" "" "$(ls "$T" | grep '^s\.')"
    "$RETAIN" quantize "$F16" "$T/s.gguf" --threads 1 >"$T/out" 2>&1 &
    pid=$!
    wait_for test -e "$T/s.gguf.tmp"
    kill -KILL $pid
    wait $pid 2>/dev/null
    equal "killed: no file" "" "$(ls "$T" | grep '^s\.gguf$')"
    check "after a kill" "$RETAIN" quantize "$F16" "$T/s.gguf"
    equal "after a kill: no rest" "s.gguf" "$(ls "$T" | grep '^s\.')"
    head -c 4000 README.md >"$T/page"
    full=$("$RETAIN" perplexity --json -m "$F16" -f "$T/page" --length 128 | sed 's/.*"perplexity":\([0-9.]*\).*/\1/')
    small=$("$RETAIN" perplexity --json -m "$T/s.gguf" -f "$T/page" --length 128 | sed 's/.*"perplexity":\([0-9.]*\).*/\1/')
    near "int4 of a model in F16" "$small" "$full" 1
else
    skip "random/small-f16.gguf is missing"
fi
finish
