#!/bin/sh
# Every exit restores the terminal: signals, crashes, suspend and fg, a model that cannot be
# loaded. Usage: tmux_exit.sh [PROGRAM]
. tests/tui/tmux.inc

# by_signal NAME STATUS
by_signal() {
    start 80 24
    run chat --new --private --seed "7$2"
    check "$1: ready" wait_for 'ready'
    kill -s "$1" "$(pid_of "7$2")"
    check "$1: status $2" wait_for "^rc=$2"
    check "$1: terminal as before" terminal_is_sane
}

by_signal TERM 143
by_signal HUP 129
by_signal SEGV 139
by_signal ABRT 134

# In the middle of an answer.
start 80 24
run chat --new --private --ignore-end --seed 7143
check 'TERM while answering: ready' wait_for 'ready'
type_text 'hello'
keys Enter
check 'TERM while answering: answering' wait_for 'Ctrl-C stop'
kill -s TERM "$(pid_of 7143)"
check 'TERM while answering: status' wait_for '^rc=143'
check 'TERM while answering: terminal as before' terminal_is_sane

# Ctrl-Z and fg in a window of another size; the draft is still there.
start 80 24
keys 'set -m' Enter
run chat --new --private --seed 70
check 'suspend: ready' wait_for 'ready'
type_text 'a draft'
check 'suspend: draft' wait_for '> a draft'
keys C-z
check 'suspend: in the shell' wait_for 'rc=1[0-9]*'
check 'suspend: terminal as before' terminal_is_sane
resize 100 30
keys 'clear; fg; echo back=$?' Enter
check 'suspend: draft is back' wait_for '> a draft'
check 'suspend: redrawn' wait_for '^memory '
keys C-c
check 'suspend: draft stashed' wait_for 'stashed'
keys F10
check 'suspend: status 0' wait_for '^back=0'

# Ctrl-C twice and Ctrl-D.
start 80 24
run chat --new --private --seed 7
check 'Ctrl-C: ready' wait_for 'ready'
check "Ctrl-C: the window's title" wait_until titled 'retain: private'
keys C-c
check 'Ctrl-C: once does not quit' wait_for 'Ctrl-C again'
keys C-d
check 'Ctrl-D: status 0' wait_for '^rc=0'
check 'Ctrl-D: terminal as before' terminal_is_sane

if [ $fake = 1 ]; then
    start 80 24
    keys "clear; stty -g >$home/stty.before; $program --fake-load 400 --fake-fail 'model.gguf: not a GGUF file' chat --new; echo rc=\$?; stty -g >$home/stty.after; echo 'do'ne" Enter
    check 'no model: says why' wait_for '^retain: model.gguf: not a GGUF file'
    check 'no model: status 3' wait_for '^rc=3'
    check 'no model: terminal as before' terminal_is_sane

    # Typing before the model is loaded.
    start 80 24
    run --fake-load 2000 chat --new
    check 'loading: shown' wait_for 'loading .*%'
    type_text 'an early question'
    keys Enter
    check 'loading: queued' wait_for 'queued 1 .*an early question'
    check 'loading: answered' wait_for 'llm The cache keeps'
    keys F10
    check 'loading: status 0' wait_for '^rc=0'
fi
finish
