#!/bin/sh
# The pictures of docs/screen.md and README, from real runs of the demo model: docs/pictures.sh
# [PROGRAM]. Needs tmux. The model's answers depend on the processor, so the pictures
# differ from machine to machine.
set -u
cd "$(dirname "$0")/.." || exit 1
# shellcheck disable=SC2034
set -- "$PWD/${1:-build/retain}"
. tests/tui/tmux.inc
test_term=xterm-256color

# say TEXT: sends a message and waits for the whole answer
turn=0
say() {
    turn=$((turn + 1))
    type_text "$1"
    keys Enter
    wait_for "turn $turn .*ready" || { screen; exit 1; }
}

# picture NAME SCREEN: waits until the screen shows SCREEN, then draws the recording so far
picture() {
    wait_for "$2" || { screen; exit 1; }
    sleep 0.5 # a frame is recorded after it is shown
    cp "$home/talk.cast" "$home/$1.cast"
    XDG_CONFIG_HOME=$home "$program" replay "$home/$1.cast" --svg "docs/$1.svg"
    ls -l "docs/$1.svg"
}

talk() {
    turn=0
    mkdir -p "$home/retain"
    printf 'color = true\nbackground = dark\nreduced-motion = yes\npace = 0\n' >"$home/retain/config"
    keys "clear; $program chat -c locker --budget 64 --policy locret:reserve=64 --seed 4 --record $home/talk.cast; echo \"rc=\$?\"" Enter
    wait_for 'ready' || { screen; exit 1; }
    say 'My locker code is 48213.'
    say 'Tell me about cats.'
    say 'Tell me a story about a fox.'
    say 'How are you?'
    say 'Tell me a joke.'
    say 'Tell me a story about an owl.'
    say 'What is my locker code?'
}

start 120 40
talk
picture chat 'locker code is'
resize 100 30
keys F3
wait_for 'live  1 column'
keys ] ] Right Right
picture map 'kept by'
keys w
picture waterfall 'map  waterfall'
keys w F8
picture graphs 'one that keeps everything'
keys q F4
keys [ [ [ [ [ [ [ Right Right Right Right Right Right Right
picture tint 'kept by'
keys q C-p
type_text 'set'
picture palette 'set budget'
keys Escape
wait_for '^> '
keys F10
wait_for '^rc='
