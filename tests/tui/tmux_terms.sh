#!/bin/sh
# Kinds of terminal, character sets and colours, by the bytes that reach the terminal. Usage:
# tmux_terms.sh [PROGRAM]
. tests/tui/tmux.inc

bytes=$home/bytes
# capture VARIABLES…: one short conversation with them set, its bytes in $bytes
capture() {
    start 80 24
    tm pipe-pane -t t "cat >>$bytes"
    : >"$bytes"
    keys "clear; stty -g >$home/stty.before; env $* $program chat --new --private --budget 96 --seed 1; echo \"rc=\$?\"; stty -g >$home/stty.after; echo 'do'ne" Enter
    check "$*: ready" wait_for 'ready'
    type_text 'hello unicode 漢字'
    keys Enter
    check "$*: answered" wait_for 'llm .*[A-Za-z?]'
    check "$*: ready again" wait_for 'turn 1 .*ready'
    keys F3
    check "$*: map" wait_for ' live'
    resize 60 20
    keys q F2
    check "$*: list" wait_for 'nothing is saved'
    keys q
    keys F10
    check "$*: status 0" wait_for '^rc=0'
    check "$*: terminal as before" terminal_is_sane
    tm pipe-pane -t t
    wait_until grep -q rc=0 "$bytes"
}

count() { grep -a -o -e "$1" "$bytes" | wc -l | tr -d ' '; }
esc=$(printf '\033')

unset COLORTERM
capture TERM=screen-256color
check '256 colours' [ "$(count "$esc\[38;5;\|$esc\[[0-9;]*38;5")" -gt 0 ]
check 'bracketed paste is switched on once' [ "$(count "$esc\[?2004h")" = 1 ]
check 'bracketed paste is switched off' [ "$(count "$esc\[?2004l")" -ge 1 ]
# the shell's clear, entering the second screen, and the resize may clear the screen: nothing else
# may
check 'no full clears' [ "$(count "$esc\[2\?J")" -le 6 ]

capture TERM=screen-256color COLORTERM=truecolor
check '24 bits: colours' [ "$(count "$esc\[[0-9;]*48;2;")" -gt 0 ]
check '24 bits: no full clears' [ "$(count "$esc\[2\?J")" -le 6 ]

capture TERM=screen-256color NO_COLOR=1
check 'NO_COLOR: none' [ "$(count "$esc\[[0-9;]*[34][0-79][;m]")" = 0 ]

capture TERM=screen-256color LC_ALL=C
check 'LC_ALL=C: the ASCII ramp' wait_until true
check 'LC_ALL=C: no byte beyond ASCII' \
    [ "$(sed -n '/1049h/,/1049l/p' "$bytes" | LC_ALL=C tr -d '\000-\177' | wc -c | tr -d ' ')" = 0 ]

for term in xterm-256color linux vt100 screen; do
    infocmp "$term" >/dev/null 2>&1 || continue
    capture "TERM=$term"
done

# A terminal without a second screen: the shell goes on below the chat, on an empty line.
start 80 24
keys "clear; TERM=linux $program chat --new --private --seed 1; echo \"rc=\$?\"" Enter
check 'linux: ready' wait_for 'ready'
keys F10
check 'linux: an empty line for the shell' wait_for '^rc=0$'

start 80 24
keys "clear; TERM=dumb $program chat --new --private --seed 1; echo \"rc=\$?\"" Enter
check 'dumb: plain' wait_for '^you>'
keys C-d
check 'dumb: status 0' wait_for 'rc=0'
finish
