#!/bin/sh
# The way of a new user with real models: pulled from a hub, offered, chatted with, /model to two
# others and back, left, continued without options. At 80x24 and 120x40, with random models in the
# shape of real ones; with MODELS=FOLDER, with those in the folder and the demo (make real).
# Usage: tmux_flow.sh [PROGRAM]
program=${1:-${RETAIN:-build/retain}}
set -- "$program"
. tests/tui/tmux.inc
PULL=${PULL:-build/tests}
unset http_proxy https_proxy HTTPS_PROXY ALL_PROXY all_proxy
if "$program" pull hf:a/b 2>&1 | grep -q 'this build cannot'; then
    echo 'skip: libcurl is missing'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

# The hub has an instruct model, which is pulled last, and another one.
mkdir "$home/hub"
if [ -n "${MODELS:-}" ]; then
    cp "$MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" "$home/hub/first-Q4_1.gguf"
    cp "$MODELS/gemma-3-270m-q4_k_m.gguf" "$home/hub/second-Q4_K_M.gguf"
    first=first-Q4_1 second=second-Q4_K_M third=demo third_name='retain demo'
else
    for kind in chatml llama3 gemma; do "$PULL/make_model" $kind "$home/hub/$kind-Q4_1.gguf"; done
    first=chatml-Q4_1 second=gemma-Q4_1 third=llama3-Q4_1 third_name=llama3-Q4_1
fi
"$PULL/hub" "$home/hub" "$home/log" >"$home/ports" &
hub=$!
trap 'kill $hub; tm kill-server 2>/dev/null; rm -rf "$home"' EXIT
wait_until test -s "$home/ports"
read -r port _ <"$home/ports"

n_commands=0
in_shell() { # in_shell WHAT COMMAND: it succeeds
    n_commands=$((n_commands + 1))
    keys "clear; $2; echo \"$n_commands rc=\$?\"" Enter
    check "$1" wait_for "^$n_commands rc=0"
}
say() {
    turn=$((turn + 1))
    type_text "$1"
    keys Enter
    check "$size: turn $turn" wait_for "turn $turn .*ready"
}
is_there_or_asks() { shows "$1 .*turn $turn" || shows 'y continue\|y yes\|\[y\]'; }
to_model() { # to_model NAME TITLE: the question comes where reading takes long
    type_text "/model $1"
    keys Enter
    wait_until is_there_or_asks "$2"
    shows "$2 .*turn $turn" || keys y
    wait_for "$2 .*turn $turn"
    check "$size: /model $1" wait_for "turn $turn .*ready"
}
# what the screen says: model, tokens and turn of the header, kept units, budget
numbers() {
    screen | sed -n 's/^.* \([^ ]* [^ ]*\) kv [^ ]* | \([0-9,]*\) tok | turn \([0-9]*\).*/\1, \2 tok, turn \3/p
        s/.* \([0-9,]* of [0-9,]* kept\).*/\1/p; s/.*forgets from \([0-9,]*\).*/budget \1/p; s/.* budget \([0-9,]*\)$/budget \1/p'
}
has_numbers() { [ "$(numbers | wc -l)" -eq 3 ]; }
# the same from the program without a screen
stats() { printf '/stats\n' | XDG_DATA_HOME=$home XDG_CONFIG_HOME=$home XDG_STATE_HOME=$home XDG_CACHE_HOME=$home "$program" chat --plain --continue 2>&1; }

flow() {
    size=$1x$2 turn=0
    rm -rf "$home/retain"
    start "$1" "$2"
    in_shell "$size: an address" "export HF_ENDPOINT=http://127.0.0.1:$port/"
    for file in "$home"/hub/*.gguf; do
        file=$(basename "$file" .gguf)
        [ "$file" = "$first" ] || in_shell "$size: pull $file" "$program pull hf:normal/demo:$file.gguf >/dev/null"
    done
    in_shell "$size: pull" "$program pull hf:normal/demo:$first.gguf"
    check "$size: pull names it" shows "chat with it: retain -m $first"

    run --seed 3 -n 24
    check "$size: the demo offers it" wait_for "4 /model $first"
    check "$size: ready" wait_for ready
    keys 4
    check "$size: the key writes the command" wait_for "^> /model $first"
    keys Enter
    check "$size: the model is open" wait_for "$first .*turn 0"
    check "$size: nothing failed" wait_for ready
    check "$size: no error is shown" test -z "$(screen | grep 'no conversation\|cannot')"
    type_text '/set budget 128'
    keys Enter
    check "$size: a budget" wait_for 'forgets from 128'
    say 'My name is Anna.'
    to_model "$second" "$second"
    say 'What is my name?'
    to_model "$third" "$third_name"
    say 'What did you find in the garden?'
    to_model "$first" "$first"
    say 'What is my name?'
    keys F2
    check "$size: F2 has the model" wait_for "^\* .* 4 .*$(echo "$first" | cut -c 1-8)"
    keys F2
    check "$size: numbers" wait_until has_numbers
    before=$(numbers)
    keys F10
    check "$size: left" wait_for '^rc=0'

    run --continue
    check "$size: continued" wait_for 'turn 4 .*ready'
    check "$size: with the same words" shows 'llm '
    check "$size: numbers again" wait_until has_numbers
    after=$(numbers)
    if [ "$before" = "$after" ]; then pass; else fail "$size: after --continue \"$after\", before \"$before\""; fi
    keys F10
    check "$size: left again" wait_for '^rc=0'
    out=$(stats)
    kept=$(echo "$out" | sed -n 's/^cache   kept \([0-9,]*\) of \([0-9,]*\) units.*/\1 \2/p' | tr -d ,)
    heads=$(XDG_DATA_HOME=$home "$program" info -m "$first" 2>/dev/null | sed -n 's/^shape  *\([0-9]*\) layers.* \([0-9]*\) KV heads.*/\1 \2/p')
    # shellcheck disable=SC2086
    set -- $kept $heads
    seen=$(($2 / ($3 * $4)))
    mean=$((($1 + $3 * $4 / 2) / ($3 * $4)))
    n=$(echo "$out" | sed -n 's/^chat  *\([0-9,]*\) tokens.*/\1/p' | tr -d ,)
    [ "$mean" = "$seen" ] && mean=$n # the newest token is run with the next message
    case $(echo "$after" | tr -d ,) in
    *"$first"*" $n tok"*"turn 4"*"$mean of $n kept"*"budget 128"*) pass ;;
    *) fail "$size: the screen says \"$after\", the cache has $mean of $n, budget 128" ;;
    esac
    case $out in *"model   $first "*"4 turns  0 re-read"*"128 per head"*) pass ;; *) fail "$size: /stats: $out" ;; esac
}
flow 80 24
flow 120 40
finish
