#!/bin/sh
# A fact is told, evicted, asked for and comes back, on a small and on a large screen: the tint and the
# strip show it gone and returned, /recalled names it. Usage: tmux_recall.sh [PROGRAM]
program=${1:-${RETAIN:-build/retain}}
set -- "$program"
. tests/tui/tmux.inc

# colours of the words evicted and returned (cli/control/ramp.h, tui/term), before the first letters
fact_is() { tm capture-pane -e -p -t t | grep -q "$1" && shows 'My locker code is 48213'; }

absent() { ! shows "$1"; }

# say TEXT: a message and its whole answer
say() {
    turn=$((turn + 1))
    type_text "$1"
    keys Enter
    wait_until shows "turn $turn .*ready"
}

for size in '80 24' '160 50'; do
    start $size
    turn=0
    keys "$program chat --policy sink:reserve=64 --chunk 32 --budget 24 --temp 0 --pace 0; echo \"rc=\$?\"" Enter
    wait_for 'message'
    for text in 'My locker code is 48213.' 'Tell me about cats.' 'Tell me a story about a fox.' \
        'Tell me about dogs.'; do
        check "$size: $text" say "$text"
    done
    check "$size: it has not come back" absent '1▲▲'
    keys F4
    check "$size: the tint shows it gone" wait_for '> tint .*gone'
    keys q
    check "$size: it is asked for" say 'What is my locker code?'
    check "$size: and known" wait_for 'llm Your locker code is 48213'
    check "$size: the strip marks it" wait_for '1▲▲'
    keys F4
    check "$size: the tint shows what came back" wait_for ' tint .*gone .*returned'
    check "$size: in a colour of its own" fact_is '81mMy locker code is 48213'
    keys q
    type_text /recalled
    keys Enter
    check "$size: /recalled names it" wait_for 'came back for the last message'
    check "$size: with its turn" wait_for 'turn 1 .*My locker code is 48213'
    keys F10
    check "$size: left" wait_for '^rc=0'
done
finish
