#!/bin/sh
# Retaining heads for a model at its first chat: fitted beside it, taken by the conversation that
# runs, the same file after a kill, none for a private chat. Usage: tmux_fit.sh [PROGRAM]
program=${1:-${RETAIN:-build/retain}}
set -- "$program"
. tests/tui/tmux.inc
model=$PWD/build/golden/families/gemma3.gguf
export HOME="$home" XDG_STATE_HOME="$home" XDG_CONFIG_HOME="$home" XDG_CACHE_HOME="$home"

"$program" heads fit -m "$model" --out "$home/expected" >/dev/null 2>&1
check 'heads fit alone' test -s "$home/expected"
fitted() { set -- "$home"/retain/heads/*.gguf && test -f "$1"; }
child() { child=$(pgrep -f "^retain heads fit -m $model"); }
idle() { screen | grep . | tail -n 1 | grep -q '^you> *$'; }
no_child() { ! child; }
begun() { child || fitted; }
chat() { # chat W H ARGS…: with an empty state
    rm -rf "$home/retain"
    start "$1" "$2"
    shift 2
    keys "'$program' chat -m '$model' -n 4 $*" Enter
}
say() {
    type_text "$1"
    keys Enter
}

# Killed while it is stopped in the middle, if it is not done by then: the child ends with it, and
# leaves nothing.
chat 80 24 --plain
wait_for '^you>'
check 'plain: none before the first answer' no_child
say hello
check 'plain: begins after the first answer' wait_until begun
child && kill -STOP "$child" 2>/dev/null
done=$(find "$home/retain/heads" -name '*.gguf' 2>/dev/null)
check 'plain: says so' wait_for 'are being fitted'
pid=$(pgrep -f "^$program chat -m $model")
kill -9 "$pid"
check 'killed: the child ends too' wait_until no_child
check 'killed: no more files' test "$done" = "$(find "$home/retain/heads" -name '*.gguf' 2>/dev/null)"
rm -f "$home"/retain/heads/*.gguf

# The next chat begins again, and the conversation takes the heads without reading.
start 80 24
keys "'$program' chat -m '$model' -n 4 --plain --new" Enter
wait_for '^you>'
say hello
check 'again: a file' wait_until fitted
check 'again: the same to the bit' cmp "$home/expected" "$home"/retain/heads/*.gguf
wait_until no_child
wait_until idle
say /stats
check 'again: the running conversation takes them' wait_for 'policy keeper with retaining heads'
check 'again: says so' wait_for 'retaining heads are ready'
check 'again: nothing was read' wait_for ' 0 re-read'
say hello
wait_until idle
say /why
check 'again: and keeps them' wait_for 'policy: keeper, with retaining heads'

# On the screen: after the first frame, and while nobody types.
chat 100 30
check 'screen: a frame' wait_for 'gemma3'
check 'screen: fits without a message' wait_until fitted
check 'screen: the same file' cmp "$home/expected" "$home"/retain/heads/*.gguf
check 'screen: says that they are taken' wait_for 'retaining heads are ready'

# A private chat fits none, and uses those that are there.
rm "$home"/retain/heads/*.gguf
start 80 24
keys "'$program' chat -m '$model' -n 4 --private --plain" Enter
wait_for '^you>'
check 'private: says so' shows 'no retaining heads are fitted'
say hello
wait_until idle
check 'private: fits none' no_child
"$program" heads fit -m "$model" >/dev/null 2>&1
start 80 24
keys "'$program' chat -m '$model' -n 4 --private --plain" Enter
wait_for '^you>'
check 'private: uses what is there' shows 'that were fitted to this model'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
