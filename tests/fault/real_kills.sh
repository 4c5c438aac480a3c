#!/bin/bash
# real_kills.sh RETAIN MODEL [KILLS]: a talk with evictions and recall, killed at KILLS random moments (200), is the
# talk that was never killed: after each kill it is checked and continued, no token is read again, and
# after each message text and cache are the same. MODEL: a chat model in GGUF, such as SmolLM2-135M-Instruct.
set -u
retain=$1 model=$2 kills=${3:-200}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME=$folder/state XDG_CONFIG_HOME=$folder/config XDG_CACHE_HOME=$folder/cache HOME=$folder
RANDOM=7
said=()
for name in Ada Bo Cy Di Ed Flo Gus Hal Ida Jo; do
    said+=("My friend $name lives at number $((10 + ${#said[@]} * 7)) in the harbour street, and has a dog."
        "Tell me in two sentences about the town of $name." "Where does $name live?")
done

at() { XDG_DATA_HOME=$folder/$1 "$retain" "${@:2}"; }
chat() { # chat DATABASE: the lines of standard input
    XDG_DATA_HOME=$folder/$1 exec "$retain" chat --plain -c talk -m "$model" --seed 1 --budget 192 --chunk 64 \
        --threads 1 >"$folder/out" 2>"$folder/err"
}
# state DATABASE LINE…: the text, and these lines of /stats. What is evicted after an answer is evicted before the
# next message if the kill came between.
state() {
    at "$1" show talk | sed 's/^## assistant .*/## assistant/'
    (chat "$1" <<<'/stats')
    grep -E "^$2 " "$folder/err" | sed 's/ *evicted [0-9,]* since opened//; s/ *[0-9,]* re-read//'
}
same() { # same LINE WHAT
    killed=$(state killed "$1") whole=$(state whole "$1")
    [ "$killed" = "$whole" ] && return
    echo "FAIL: not the same after: $2"
    diff <(echo "$whole") <(echo "$killed") | head -n 6
    rm -rf "$folder/killed" && cp -r "$folder/whole" "$folder/killed"
    return 1
}

n_killed=0 n_equal=0 n_read=0 n_damaged=0
while [ $n_killed -lt "$kills" ]; do
    rm -rf "$folder/whole" "$folder/killed"
    for message in "${said[@]}"; do
        began=$(date +%s%N)
        (chat whole <<<"$message")
        ms=$((($(date +%s%N) - began) / 1000000 + 1)) after=$((RANDOM * 32768 + RANDOM))
        (chat killed <<<"$message") &
        sleep "$(printf '%d.%03d' $((after % ms / 1000)) $((after % ms % 1000)))"
        kill -9 $! 2>/dev/null && n_killed=$((n_killed + 1))
        wait $! 2>/dev/null
        at killed check >/dev/null 2>"$folder/damage" || n_damaged=$((n_damaged + 1))
        line=/continue
        at killed show talk 2>/dev/null | grep -qF "$message" || line=$message
        (chat killed <<<"$line")
        (chat killed <<<'/stats')
        grep -q ' 0 re-read' "$folder/err" || n_read=$((n_read + 1))
        same chat "$message" && n_equal=$((n_equal + 1))
        [ $n_killed -ge "$kills" ] && break
    done
    for talk in whole killed; do (chat $talk <<<'Which of my friends has the dog?'); done
    same '(chat|cache)' 'the end of the talk' || n_equal=0
done
echo "real_kills: $n_killed kills, $n_equal messages after them equal, $n_read read again, $n_damaged damaged"
[ $n_read -eq 0 ] && [ $n_damaged -eq 0 ] && [ $n_equal -ge $n_killed ]
