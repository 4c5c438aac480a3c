#!/bin/sh
# Random models in the shape of real ones (tests/unit/make_model.h): role names are ordinary words of
# their vocabularies, templates are the files' own, answers end by themselves.
. "$(dirname "$0")/lib.sh"
PULL=${PULL:-build/tests}

shape() { # shape KIND SHAPE ROLE
    m=$T/$1.gguf
    "$PULL/make_model" "$1" "$m" || no "$1 is not made"
    holds "$1: its shape" "$("$RETAIN" info -m "$m" 2>&1)" "$2"
    ids=$("$RETAIN" tokenize -m "$m" --ids --no-special -p "$3")
    holds "$1: $3 is one token" "$ids" '^[0-9]+$'
    for seed in 1 2 3; do
        "$RETAIN" generate -m "$m" --seed $seed -n 500 --json -p 'What is my name?' >"$T/json" 2>"$T/err"
        holds "$1, seed $seed: an answer of words that ends" "$(cat "$T/json")" '"text":"[a-zI ]*".*"end":"turn"'
    done
}
shape chatml '30 layers, width 96, 9 heads, 3 KV heads x 32, vocabulary [3-5]..,' assistant
shape llama3 '16 layers, width 96, 8 heads, 8 KV heads x 32, vocabulary [3-5]..,' assistant
shape gemma '18 layers, width 96, 4 heads, 1 KV heads x 32, vocabulary [3-5]..,' model
shape base '18 layers, width 96, 4 heads, 1 KV heads x 32, vocabulary [3-5]..,' model
for kind in chatml llama3 gemma; do
    holds "$kind: the file's template" "$("$RETAIN" info -m "$T/$kind.gguf" 2>/dev/null)" '^template file'
    prompt=$(printf '[{"role":"user","content":"it is"}]' >"$T/m.json" && "$RETAIN" template -m "$T/$kind.gguf" --ids "$T/m.json")
    role=$("$RETAIN" tokenize -m "$T/$kind.gguf" --ids --no-special -p user)
    holds "$kind: the role is an ordinary word of the prompt" " $prompt " " $role "
done
finish
