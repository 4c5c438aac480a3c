#!/bin/sh
# A file that is not a model gives one clear line and exit status 3.
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

# A file's names reach terminals in many lines: none may contain a control sequence.
escapes=$(printf '\033]2;x\007\302\23331m')
LC_ALL=C sed "s/retain demo/$escapes/" quant/demo/retain-demo.gguf >"$T/name.gguf"
LC_ALL=C sed "s/output_norm/\x1b[31m__norm/" quant/demo/retain-demo.gguf >"$T/tensor.gguf"
LC_ALL=C sed "s/architecture\(.\{12\}\)llama/architecture\1\x1b[31m/" quant/demo/retain-demo.gguf \
    >"$T/family.gguf"
for f in name tensor family; do
    for command in info plan "generate -n 1 -p hi"; do
        # shellcheck disable=SC2086 # a command and its options
        "$RETAIN" $command -m "$T/$f.gguf" >"$T/out" 2>&1
        hits=$(LC_ALL=C tr -cd '\033\007\233' <"$T/out" | wc -c | tr -d ' ')
        equal "$command, $f: nothing that a terminal obeys" 0 "$hits"
    done
done
holds "name: is shown" "$("$RETAIN" info -m "$T/name.gguf" 2>&1)" 'model +name \(\?]2;x\?\?31m\),'
holds "family: is shown" "$("$RETAIN" info -m "$T/family.gguf" 2>&1)" 'family "\?\[31m"'
holds "tensor: is shown" "$("$RETAIN" info -m "$T/tensor.gguf" 2>&1)" 'output_norm'
echo '/stats' | "$RETAIN" chat --plain --private -m "$T/name.gguf" >"$T/out" 2>&1
equal "/stats, name: nothing that a terminal obeys" 0 \
    "$(LC_ALL=C tr -cd '\033\007\233' <"$T/out" | wc -c | tr -d ' ')"

refused "bad heads" 3 '' "$RETAIN" info --heads "$T/text.gguf"
refused "unknown command" 2 '' "$RETAIN" nonsense
refused "misspelt option" 2 'budget' "$RETAIN" generate --bugdet 12
refused "a name that chat does not take" 2 '"talk"; .* -c NAME' "$RETAIN" chat talk
holds "a text that generate does not take" "$("$RETAIN" generate hello 2>&1)" '"hello"; .* -p TEXT'
holds "nothing to answer" "$("$RETAIN" generate </dev/null 2>&1)" 'prompt is empty'
holds "no place to save in" "$(XDG_DATA_HOME=/dev/null/x "$RETAIN" list 2>&1)" '/dev/null/x: Not a directory; choose .* --db FILE'
holds "help COMMAND" "$("$RETAIN" help list 2>&1)" '^usage: retain list'
holds "no space ends the usage" "$("$RETAIN" help chat 2>&1)" '^usage: retain chat \[OPTION...\]$'
holds "--help COMMAND" "$("$RETAIN" --help list 2>&1)" '^usage: retain list'
holds "a tag that is not given" "$("$RETAIN" tag chat-1 2>&1)" 'usage: retain tag NAME TAG'
holds "help of what is none" "$("$RETAIN" help lisp 2>&1)" 'did you mean "retain list"'
refused "does not fit" 4 'needs [0-9.]+ MiB.*may be used' "$RETAIN" generate -p hi --memory 1M
finish
