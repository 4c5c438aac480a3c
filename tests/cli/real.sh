#!/bin/sh
# make real MODELS=FOLDER: what the random models of make test cannot say, with SmolLM2-135M-Instruct
# (Q4_1) and Gemma 3 270M (Q4_K_M) in the folder: figures of llama.cpp, and a talk of 40 turns. The
# way of a new user with them is tests/tui/tmux_flow.sh.
. "$(dirname "$0")/lib.sh"
S=${MODELS:?}/SmolLM2-135M-Instruct.Q4_1.gguf
G=$MODELS/gemma-3-270m-q4_k_m.gguf
for m in "$S" "$G"; do [ -f "$m" ] || { no "$m is missing"; finish; }; done

# ---- llama.cpp b11549, the same files: greedy texts with f16 units, up to the first close call
greedy() { "$RETAIN" generate --temp 0 --repeat-penalty 1 --kv f32 "$@" 2>/dev/null; }
holds "SmolLM2: llama.cpp's greedy words" "$(greedy -m "$S" -n 12 -p 'What is the capital of France?')" "^L'Étoile, la "
holds "Gemma: continues a text" "$(greedy -m "$G" -n 16 --raw -p 'The capital of France is')" '[a-z]+ [a-z]+'
# The prompts and the ids of a template are those of the file's own program in jinja2.
printf '[{"role":"user","content":"Hello"}]' >"$T/m.json"
equal "SmolLM2: the prompt" '<|im_start|>system|You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>|<|im_start|>user|Hello<|im_end|>|<|im_start|>assistant|' \
    "$("$RETAIN" template -m "$S" "$T/m.json" | tr '\n' '|')"

# ---- a talk: facts, other subjects, questions. Each answer ends, the memory stays, nothing fails.
{
    echo 'My name is Anna and my dog is called Biscuit.'
    for i in $(seq 19); do
        echo "Tell me something about the number $i."
        echo "What did you say about the number $i?"
    done
    echo 'What is the name of my dog?'
    echo /stats
} >"$T/talk"
talk() { # talk MODEL NAME
    "$RETAIN" chat --plain -m "$1" -c "$2" --budget 256 -n 60 --seed 7 <"$T/talk" >"$T/$2" 2>"$T/$2.err"
    equal "$2: a talk of 40 turns" 0 $?
    holds "$2: all turns" "$(cat "$T/$2.err")" '^chat .* 40 turns  0 re-read'
    holds "$2: the budget" "$(cat "$T/$2.err")" ' 256 per head'
    equal "$2: no mark of a template in an answer" 0 "$(grep -c '<|im_\|<start_of\|<end_of' "$T/$2")"
    printf '/stats\n' | "$RETAIN" chat --plain -c "$2" 2>"$T/again" >"$T/out"
    equal "$2: resumed as it was" "$(grep '^chat\|^cache' "$T/$2.err" | sed 's/evicted.*//')" \
        "$(grep '^chat\|^cache' "$T/again" | sed 's/evicted.*//')"
    check "$2: every checksum" "$RETAIN" check
}
talk "$S" smollm2
talk "$G" gemma
finish
