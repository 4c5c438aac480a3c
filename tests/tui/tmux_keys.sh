#!/bin/sh
# A draft survives kill -9; $EDITOR, pastes and copies through a real terminal.
# Usage: tmux_keys.sh [PROGRAM]
. tests/tui/tmux.inc

drafts() { cat "$home"/retain/draft-* 2>/dev/null | tr '\0' '\n'; }
holds() { drafts | grep -q "$1"; }
is_gone() { [ -z "$(pid_of "$1")" ]; }

start 80 24
run chat --new --seed 901
check 'draft: ready' wait_for 'ready'
type_text 'half a thought'
check 'draft: shown' wait_for '> half a thought'
check 'draft: on the disk' wait_until holds 'half a thought'
check 'draft: for its owner only' [ "$(stat -c %a "$home"/retain/draft-*)" = 600 ]
kill -s KILL "$(pid_of 901)"
wait_until is_gone 901
start 80 24
run chat --new --seed 902
check 'draft: brought back' wait_for '> half a thought'
keys C-u
type_text 'another'
check 'draft: the new one' wait_for '> another'
keys C-c
check 'draft: stashed' wait_for 'stashed'
type_text '/quit'
keys Enter
check 'draft: status 0' wait_for '^rc=0'
check 'draft: nothing is left' [ -z "$(drafts)" ]

# A draft belongs to its conversation.
start 80 24
run chat -c trip --seed 907
check 'draft of trip: ready' wait_for 'ready'
type_text 'secret plan'
keys F10
check 'draft of trip: left' wait_for '^rc=0'
start 80 24
run chat -c tax --seed 908
check 'draft of trip: not in tax' wait_for '^> *$'
check 'draft of trip: tax is ready' wait_for 'ready'
check 'draft of trip: still not in tax' wait_for '^> *$'
type_text 'of tax'
keys F10
check 'draft of tax: left' wait_for '^rc=0'
start 80 24
run chat -c trip --seed 909
check 'draft of trip: back' wait_for '> secret plan$'
keys C-u F10
check 'draft of trip: left again' wait_for '^rc=0'
rm "$home"/retain/draft-*

if [ $fake = 1 ]; then
    start 80 24
    run --fake-load 600000 chat --new --seed 903
    check 'queue: loading' wait_for 'loading .*%'
    for i in 1 2 3; do
        type_text "message $i"
        keys Enter
    done
    check 'queue: three' wait_for 'queued 3 .*message 3'
    check 'queue: on the disk' wait_until holds 'message 3'
    kill -s KILL "$(pid_of 903)"
    wait_until is_gone 903
    start 80 24
    run chat --new --seed 904
    check 'queue: brought back' wait_for 'queued 3 .*message 3'
    check 'queue: held' wait_for 'queued messages are held'
    keys Enter
    check 'queue: sent in order' wait_for 'you message 3'
    check 'queue: all answered' wait_for 'turn 3 .*ready'
    keys F10
    check 'queue: status 0' wait_for '^rc=0'
fi

start 80 24
printf 'printf "%%s, by hand" "$(cat "$1")" >"$1.new"; mv "$1.new" "$1"\n' >"$home/edit.sh"
keys "EDITOR='sh $home/edit.sh'; export EDITOR; unset VISUAL" Enter
run chat --new --private --seed 905
check 'editor: ready' wait_for 'ready'
type_text 'edited'
keys C-x C-e
check 'editor: its text' wait_for '> edited, by hand'
keys C-u
seq 1 40 >"$home/lines"
tm load-buffer "$home/lines"
tm paste-buffer -p -t t
check 'paste: a label' wait_for '> \[paste 1: 40 lines, 111 B\]'
keys M-o
check 'paste: unfolded' wait_for '^  40'
keys C-_ Enter
check 'paste: one message' wait_for 'turn 1 .*ready'
type_text '/copy'
keys Enter
check 'copy: to tmux' wait_for 'copied [0-9]* bytes to tmux'
check 'copy: as it is' [ -n "$(tm show-buffer)" ]
type_text "/save $home/talk.md"
keys Enter
check 'save: said' wait_for 'saved as '
check 'save: written' grep -q '^## assistant' "$home/talk.md"
keys C-r
type_text 'cop'
check '^R: found' wait_for '> /copy'
keys Escape
check '^R: given up' wait_for '^> *$'
keys F10
check 'keys: status 0' wait_for '^rc=0'
check 'keys: terminal as before' terminal_is_sane

# A terminal that does not mark pastes: the lines still make one message.
start 80 24
keys 'TERM=vt100; export TERM' Enter
run chat --new --private --seed 906
check 'vt100: ready' wait_for 'ready'
tm set-buffer 'one
two
three'
tm paste-buffer -t t
check 'vt100: three lines, not sent' wait_for '^  three'
check 'vt100: they stand together' wait_for '^> one'
keys Enter
check 'vt100: one message' wait_for 'turn 1 .*ready'
keys C-d
check 'vt100: status 0' wait_for '^rc=0'
finish
