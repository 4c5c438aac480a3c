#!/bin/sh
# `retain demo` in a small and in a large terminal: told, asked, the map, killed, resumed; a key takes over.
# Usage: tmux_demo.sh [PROGRAM]
program=${1:-${RETAIN:-build/retain}}
set -- "$program"
. tests/tui/tmux.inc

for size in '80 24' '160 50'; do
    start $size
    keys "TMPDIR=$home $program demo --pace 0; echo \"rc=\$?\"" Enter
    check "$size: it types" wait_for 'you Hello! My name is Marta'
    check "$size: the code is asked for" wait_for 'you What is my locker code?'
    check "$size: and known" wait_for 'locker code is 48213\.'
    check "$size: the map" wait_for ' live'
    check "$size: it was killed and started again" wait_for 'you What is my name?'
    check "$size: and knows the name" wait_for 'name is Marta'
    keys x
    check "$size: a key takes over" wait_for 'the chat is yours'
    keys C-u
    type_text 'Hello!'
    keys Enter
    check "$size: and the chat goes on" wait_for 'you Hello! *│\|you Hello!$'
    keys F10
    check "$size: left" wait_for '^rc=0'
done

# A key in the first part: nothing is killed. A terminal that goes away: its folder is removed, too.
start 80 24
run demo
check 'it types slowly' wait_for '^> H'
keys x
check 'stopped by a key' wait_for 'the chat is yours'
keys F10
check 'left by the user' wait_for '^rc=0'
check 'terminal as before' terminal_is_sane
check 'nothing remembered' test ! -e "$home/retain/history"
start 80 24
keys "TMPDIR=$home $program demo" Enter
check 'once more' wait_for '^> H'
tm kill-server
check 'nothing left behind' wait_until sh -c "! ls -d '$home'/retain-demo-* 2>/dev/null"
finish
