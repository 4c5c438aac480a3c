#!/bin/sh
# template and tokenize: the exact prompt of the model file's own template, from its vocabulary alone.
. "$(dirname "$0")/lib.sh"

cat >"$T/talk" <<'EOF'
[{"role": "user", "content": "Hello <|end|>"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Bye"}]
EOF
equal "the demo model's prompt" \
    '<|bos|><|user|> Hello <|end|><|end|><|assistant|> Hi<|end|><|user|> Bye<|end|><|assistant|>' \
    "$("$RETAIN" template "$T/talk")"
equal "from standard input, a system text" \
    '<|bos|><|system|> Be brief.<|end|><|user|> x<|end|><|assistant|>' \
    "$(echo '[{"role":"user","content":"x"}]' | "$RETAIN" template --system 'Be brief.' -)"
equal "an answer at the end is not followed by an opening" '<|bos|><|user|> x<|end|><|assistant|> Once<|end|>' \
    "$(echo '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"Once"}]}' | "$RETAIN" template -)"
equal "another format" "<|im_start|>user
x<|im_end|>
<|im_start|>assistant" "$(echo '[{"role":"user","content":"x"}]' | "$RETAIN" template --template chatml -)"

# Ids: marks are single tokens, a typed mark is not, BOS occurs once.
ids=$("$RETAIN" template --ids "$T/talk")
bos=$("$RETAIN" tokenize --ids -p '' | tr -d ' ')
end=$("$RETAIN" tokenize --ids -p '<|end|>' | awk '{print $NF}')
equal "BOS once" 1 "$(echo "$ids" | tr ' ' '\n' | grep -c "^$bos\$")"
equal "ends of three turns" 3 "$(echo "$ids" | tr ' ' '\n' | grep -c "^$end\$")"

# Thinking is a variable of the template; other variables come with the messages.
"$RETAIN" template --think off "$T/talk" >"$T/out" 2>"$T/err"
equal "--think: exit status" 0 $?
refused "--think maybe" 2 '' "$RETAIN" template --think maybe "$T/talk"

# Mistakes.
refused "no file" 2 '' "$RETAIN" template
echo '{"role": "user"}' >"$T/wrong"
refused "no messages" 2 '' "$RETAIN" template "$T/wrong"
equal "no messages: one line" 1 "$(wc -l <"$T/err" | tr -d ' ')"
refused "unknown format" 2 '' "$RETAIN" template --template nonsense "$T/talk"

# A template that cannot be run is named, and the nearest format is used. Same length, so that the
# file stays whole.
sed 's/{{ bos_token }}/{% bos_token %}/' quant/demo/retain-demo.gguf >"$T/odd.gguf"
"$RETAIN" template -m "$T/odd.gguf" "$T/talk" >"$T/out" 2>"$T/err"
equal "unknown tag: exit status" 0 $?
holds "unknown tag: notice" "$(cat "$T/err")" "line 1 of the chat template: the tag 'bos_token' is not known.*using retain"
equal "unknown tag: the nearest format" \
    '<|user|> Hello <|end|><|end|><|assistant|> Hi<|end|><|user|> Bye<|end|><|assistant|>' "$(cat "$T/out")"

# Files with a vocabulary and nothing else.
if [ -d "$DATA/vocabs" ]; then
    equal "Qwen's ids" "9707 1879" "$("$RETAIN" tokenize -m "$DATA/vocabs/ggml-vocab-qwen2.gguf" --ids -p 'Hello world')"
    equal "Llama 3's ids" "128000 9906 1917" \
        "$("$RETAIN" tokenize -m "$DATA/vocabs/ggml-vocab-llama-bpe.gguf" --ids -p 'Hello world')"
    equal "GPT-2's ids, of a family that cannot be run" "15496 995" \
        "$("$RETAIN" tokenize -m "$DATA/vocabs/ggml-vocab-gpt-2.gguf" --ids -p 'Hello world')"
else
    skip "$DATA/vocabs is missing"
fi
finish
