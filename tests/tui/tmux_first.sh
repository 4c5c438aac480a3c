#!/bin/sh
# A first quarter of an hour with the real program, its demo model or another: no configuration,
# ask, see an eviction, open the map, jump to a sentence, quit, resume by name. Recorded, and the
# recording shows the same. Usage: tmux_first.sh [PROGRAM]
program=${1:-${RETAIN:-build/retain}}
set -- "$program"
. tests/tui/tmux.inc

strip_is_full() { screen | sed -n 's/.* \([0-9,]*\) of \([0-9,]*\) kept.*/\1 \2/p' | { read -r kept seen && [ "$kept" != "$seen" ]; }; }
first_line() { screen | sed -n 1p; }
differs() { [ "$(first_line)" != "$before" ]; }
turn=0
say() {
    turn=$((turn + 1))
    type_text "$1"
    keys Enter
    check "turn $turn" wait_for "turn $turn .*ready"
}

start 80 24
run chat -c first --budget 64 --policy auto:reserve=32 --temp 0 -n 60 --record "$home/first.cast"
check 'ready without any configuration' wait_for 'ready'
say 'My locker code is 48213.'
check 'it answers' wait_for '^. llm '
say 'Tell me a story about a fox.'
say 'Tell me about cats.'
check 'an eviction is told' wait_for 'evicted [0-9,]* units\|forgot [0-9]* word'
check 'and seen' wait_until strip_is_full
keys F3
check 'the map' wait_for 'map .* live'
keys Home
check 'its cursor' wait_for 'of the chat format #0'
for key in Right Right Right; do keys $key; done
check 'a token' wait_for 'kept by [0-9]*/[0-9]* heads'
keys Enter
check 'its sentence' wait_for 'you My locker code is 48213'
check 'the token in it' wait_for '^token .*#[0-9]*  kept by'
keys m
check 'back in the map' wait_for ' live'
for step in 1 2 3; do
    before=$(first_line)
    keys l
    check "other rows $step" wait_until differs
done
keys w
check 'waterfall' wait_for 'map  waterfall, '
keys q F10
check 'left' wait_for '^rc=0'
check 'terminal as before' terminal_is_sane
run chat -c first --temp 0
check 'resumed by name' wait_for 'turn 3 .*ready'
check 'with its text' wait_for 'llm '
keys F4
check 'and what is left of it' wait_for '> tint'
keys q F10
check 'left again' wait_for '^rc=0'
$program replay "$home/first.cast" >"$home/replayed"
check 'replay into a file' grep -q 'locker' "$home/replayed"
start 80 24
keys "clear; $program replay $home/first.cast; echo rc=\$?" Enter
check 'replay on the screen' wait_for '^memory '
keys q
check 'replay ends' wait_for '^rc=0'
sed '1a [0.1, "r", "200x60"]' "$home/first.cast" >"$home/wide.cast"
keys "clear; $program replay $home/wide.cast" Enter
check 'replay: a recording that grows' wait_for 'is 200 x 60, this terminal'

# An answer that was cut off is marked whenever its conversation is opened.
for i in 1 2 3; do
    start 80 24
    run chat -c cut -n 4 --temp 0
    check "cut off: opened $i" wait_for 'ready'
    if [ $i = 1 ]; then
        turn=0
        say 'Tell me a story about a fox.'
    fi
    check "cut off: marked $i" wait_for 'length limit$'
    keys F10
    check "cut off: left $i" wait_for '^rc=0'
done

echo sesame >"$home/pass"
start 80 24
run chat -c sealed --db "$home/sealed.db" --encrypt --passphrase-file "$home/pass" --temp 0
check 'an encrypted conversation' wait_for 'ready'
turn=0
say 'My cousin lives in Ljubljana.'
keys F10
check 'left once more' wait_for '^rc=0'
check 'what was typed stands nowhere in the clear' test -z "$(grep -rli ljubljana "$home")"
# Leaving at the passphrase prompt restores the terminal, too.
start 80 24
keys "stty -g >$home/before; $program list --db $home/sealed.db" Enter
check 'the passphrase is asked for' wait_for '^passphrase:'
keys C-c
check 'the shell is back, what was typed before is dropped' wait_for '^\$ *$'
keys "stty -g >$home/after; echo 'ov'er" Enter
check 'left at the question' wait_for '^over'
check 'and the terminal is as before' cmp "$home/before" "$home/after"
start 80 24
run chat --private
check 'a private chat' wait_for 'ready'
if shows 'retain demo'; then
    check 'says what it is' wait_for 'a toy model of [0-9.]* MiB'
    check 'with a small budget' wait_for 'forgets from 96'
    keys 1
    check 'a key writes a message' wait_for '^> My locker code is 48213'
    keys C-u
fi
type_text '/set temp'
keys Enter
check 'and a low temperature' wait_for 'temp.*0\.3'
check "is told by the window's title" wait_until titled 'retain: private'
check 'and on the screen' wait_for '^ private .*| private'
keys F10
check 'the shell is back after the chat' wait_for '^\$ *$'
# Ctrl-Z restores the terminal, too; fg asks again, and the typed passphrase is not shown.
keys "clear; set -m; echo 'un'sealed" Enter
check 'a clean screen' wait_for '^unsealed'
keys "$program list --db $home/sealed.db" Enter
check 'asked again' wait_for 'passphrase:'
keys C-z
check 'stopped' wait_for 'Stopped\|Suspended'
keys "stty -g >$home/stopped; echo 'stop'ped" Enter
check 'in the shell' wait_for '^stopped'
check 'the terminal of a stopped question is as before' cmp "$home/before" "$home/stopped"
keys "clear; echo 'clean'ed" Enter
check 'the first question is gone' wait_for '^cleaned'
keys fg Enter
check 'fg asks again' wait_for 'passphrase:'
type_text "$(cat "$home/pass")"
keys Enter
check 'the passphrase is taken' wait_for '^sealed '
check 'and was not shown' test -z "$(screen | grep sesame)"
finish
