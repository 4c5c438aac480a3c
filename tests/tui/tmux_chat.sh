#!/bin/sh
# A conversation on the screen at two sizes: answer, eviction in strip and map, resize while
# streaming, Ctrl-C keeps the partial answer, quit. Usage: tmux_chat.sh [PROGRAM]
. tests/tui/tmux.inc

# "64 of 253 kept": fewer than all
kept_is_less() { screen | sed -n 's/.* \([0-9,]*\) of \([0-9,]*\) kept.*/\1 \2/p' | { read -r kept seen && [ "$kept" != "$seen" ]; }; }

# The map has cells in the colours of few, some and many.
map_has_gaps() { tm capture-pane -e -p -t t | grep -q '48;5;\(94\|136\|183\)m'; }

# The ribbon's numbers.
strip_numbers() { screen | sed -n 's/^memory .* \([0-9,]* of [0-9,]* kept\).*/\1/p'; }

went_on() { numbers=$(strip_numbers); [ -n "$numbers" ] && [ "$numbers" != "$1" ]; }

go_on() {
    check "$1: partial answer is marked" wait_for '■'
    before=$(strip_numbers)
    type_text '/continue'
    keys Enter
    check "$1: it goes on" wait_for 'Ctrl-C stop'
    check "$1: the conversation grows" wait_until went_on "$before"
    keys C-c
    check "$1: stopped again" wait_for 'stopped and kept'
}

conversation() {
    start "$1" "$2"
    run chat --new --budget 96 --policy auto:reserve=16 --ignore-end --seed 1
    check "$1x$2: ready" wait_for 'ready'
    check "$1x$2: strip" wait_for '^memory '
    check "$1x$2: memory" wait_for '^taken .*weights [0-9.]*, cache [0-9.]*, scratch [0-9.]*'
    check "$1x$2: hints" wait_for 'F10 quit'
    type_text 'tell me about the sea'
    check "$1x$2: typed text" wait_for '> tell me about the sea'
    keys Enter
    check "$1x$2: it answers" wait_for 'Ctrl-C stop'
    check "$1x$2: the message is shown" wait_for 'you tell me about the sea'
    check "$1x$2: event of an eviction" wait_for 'evicted [0-9,]* units\|forgot [0-9]* word'
    check "$1x$2: strip shows it" wait_until kept_is_less
    keys F3
    check "$1x$2: map" wait_for ' live'
    check "$1x$2: map shows it" wait_until map_has_gaps
    keys q
    check "$1x$2: back in the chat" wait_for 'Ctrl-C stop'

    for size in '100 30' '30 8' '20 5' '1 1' '160 50' "$1 $2"; do
        # shellcheck disable=SC2086
        resize $size
        [ "$size" = '1 1' ] || wait_for '>' || fail "$1x$2: prompt after resize to $size"
    done
    check "$1x$2: whole after resizing" wait_for '^memory '
    check "$1x$2: still answering" wait_for 'Ctrl-C stop'

    keys C-c
    check "$1x$2: stopped" wait_for 'stopped and kept'
    type_text '/stats'
    keys Enter
    check "$1x$2: numbers" wait_for 'kept [0-9,]* of [0-9,]* units'
    keys q
    if [ $fake = 1 ] || shows '/continue continues it'; then # else it was stopped after its last word
        go_on "$1x$2"
    fi
    type_text '/mpa'
    keys Enter
    check "$1x$2: unknown command" wait_for 'did you mean /map '
    keys C-u
    type_text '/quit'
    keys Enter
    check "$1x$2: status 0" wait_for '^rc=0'
    check "$1x$2: terminal as before" terminal_is_sane
}

conversation 80 24
conversation 160 50
finish
