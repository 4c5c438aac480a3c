#!/bin/sh
# The chat without a screen, and the small commands. Usage: tmux_plain.sh [PROGRAM]
. tests/tui/tmux.inc

export HOME="$home" XDG_DATA_HOME="$home" XDG_STATE_HOME="$home" XDG_CONFIG_HOME="$home" XDG_CACHE_HOME="$home"
work=$home/work
mkdir "$work"

same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }

printf 'hello\n' | $program chat --plain --new --private --seed 1 >"$work/one" 2>"$work/err"
check 'pipe: status 0' same $? 0
check 'pipe: quiet' test ! -s "$work/err"
check 'pipe: an answer' test -s "$work/one"
printf 'hello\r\n/nonsense\n' | $program chat --plain --new --private --seed 1 >"$work/two" 2>"$work/err"
check 'pipe: CRLF, and commands are not sent' cmp "$work/one" "$work/two"
check 'pipe: no such command' grep -q '/help lists all' "$work/err"
printf 'hello' | $program chat --plain --new --private --seed 1 >"$work/two"
check 'pipe: last line without newline' cmp "$work/one" "$work/two"
$program chat --plain --new --private --seed 1 </dev/null >"$work/two"
check 'pipe: nothing in, nothing out' test ! -s "$work/two"
printf 'hello\nhello\n' | $program chat --plain --new --private | head -c 3 >/dev/null
check 'pipe: a reader that leaves' same $? 0
$program generate -p hello --seed 1 -n 4 >"$work/text"
check 'generate: status 0' same $? 0
check 'generate: text' test -s "$work/text"
$program generate -p hello --seed 1 -n 4 --json >"$work/json"
check 'generate: json' grep -q '^{"text":".*"n_prompt":[0-9]*.*"decode_tok_s":[0-9.]*.*}$' "$work/json"
check 'generate: one line' same "$(wc -l <"$work/json" | tr -d ' ')" 1
printf 'x\n' | $program generate -n 2 >/dev/null
check 'generate: standard input' same $? 0
$program show no-such-conversation >/dev/null 2>"$work/err"
check 'show: status 1' same $? 1
check 'show: says why' grep -q '^retain: no saved conversations\|no-such-conversation' "$work/err"
$program rename only-one 2>/dev/null
check 'rename: status 2' same $? 2

$program chat --plain --new --private --record "$work/record" </dev/null 2>"$work/err"
check 'record without a screen: status 2' same $? 2
check 'record without a screen: says why' grep -q 'here is none' "$work/err"

if [ $fake = 1 ]; then
    printf '/tint\n' | $program chat --plain -c rust-notes 2>"$work/tint"
    check 'tint: every line with its share' grep -q '^[ 0-9]*%  you  What did we decide' "$work/tint"
    $program list >"$work/list"
    check 'list: a row' grep -q '^rust-notes  *[a-z0-9]*  *2  *413 ' "$work/list"
    printf '/turns\n' | $program chat --plain -c rust-notes 2>"$work/turns"
    check 'turns: every turn with its share' grep -q '^turn 1: [0-9]* % kept: What did we decide' "$work/turns"
    check 'turns: a long message is cut' grep -q ', and why did we…$' "$work/turns"
    check 'list: json' sh -c "$program list --json | grep -q '^{\"name\":\"thesis-ch3\",.*\"n_turns\":2,'"
    $program show thesis-ch3 >"$work/show"
    check 'show: roles' grep -q '^## assistant (stopped)$' "$work/show"
    head -c 20000 /dev/zero | tr '\0' 'x' >"$work/big"
    printf '\n' >>"$work/big"
    $program --fake-rate 0 chat --plain --new --private --budget 16 <"$work/big" >"$work/two"
    check 'pipe: a line of 20 KB' same $? 0

    start 80 24
    run --fake-rate 50 show thesis-ch3
    check 'show: sanitised on a terminal' wait_for '␛]0;evil␇'
    check 'show: done' terminal_is_sane
fi

# At a terminal.
shows_twice() { [ "$(screen | grep -c -- "$1")" -ge 2 ]; }
start 80 24
run generate --temp 0
check 'generate: says that it reads the terminal' wait_for 'reading the prompt; Ctrl-D ends it'
type_text 'hello'
keys Enter C-d
check 'generate: one Ctrl-D ends it' wait_for '^rc=0'
start 80 24
run chat --plain --new --private --ignore-end --seed 1
check 'plain: prompt' wait_for '^you>'
type_text '/map'
keys Enter
check 'plain: map' wait_for '^[0-9,]* of [0-9,]* kept'
type_text 'hello'
keys Enter
check 'plain: answers' wait_for '^llm> *[^ ]'
keys C-c
check 'plain: stopped' wait_for 'stopped; /continue continues it'
check 'plain: goes on' wait_for '^you>$'
keys C-c
check 'plain: a stop is no first Ctrl-C' wait_for 'Ctrl-C again or Ctrl-D quits'
type_text '/stats'
keys Enter
check 'plain: a command' wait_for '^speed'
keys C-c
check 'plain: nor is one before a command' wait_until shows_twice 'Ctrl-C again or Ctrl-D quits'
type_text "/tokens $(printf '%05000d' 0)"
keys Enter
check 'plain: a line that is too long for the terminal' wait_for 'cut this line after 4095 bytes'
check 'plain: is read as far as it came' wait_for 'tokens, 4087 bytes'
type_text '/turns'
keys Enter C-d
check 'plain: status 0 after Ctrl-D with a line' wait_for 'rc=0'
check 'plain: terminal as before' terminal_is_sane
finish
