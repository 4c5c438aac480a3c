#!/bin/sh
# crowd.sh RETAIN SECONDS: eight programs use one database: three chats write, five others list, show, export,
# search and check all the time. None of them fails or reports damage, every message that a chat took
# is there at the end, and no command waits longer than 5 seconds for another.
set -u
retain=$1 seconds=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export XDG_DATA_HOME=$folder/data XDG_STATE_HOME=$folder/state XDG_CONFIG_HOME=$folder/config XDG_CACHE_HOME=$folder/cache
end=$(($(date +%s) + seconds))

# chats NAME: sends numbered messages, some of them in new processes.
chats() {
    n=0
    while [ "$(date +%s)" -lt $end ]; do
        for i in 1 2 3 4 5; do
            echo "Message $((n + i)) of $1."
        done | "$retain" chat --plain -c "$1" -n 8 --seed 1 --budget 64 >/dev/null 2>"$folder/$1.err" || echo "chat $1: $(tail -n 1 "$folder/$1.err")" >>"$folder/failures"
        n=$((n + 5))
    done
    echo $n >"$folder/$1.count"
}

# loops NAME COMMAND…: notes failures and the longest time.
loops() {
    name=$1
    shift
    worst=0 n=0
    while [ "$(date +%s)" -lt $end ]; do
        t=$(date +%s%N)
        "$retain" "$@" >"$folder/$name.out" 2>"$folder/$name.err" || echo "$name: $(tail -n 1 "$folder/$name.err")" >>"$folder/failures"
        t=$((($(date +%s%N) - t) / 1000000))
        [ $t -gt $worst ] && worst=$t
        n=$((n + 1))
    done
    echo "$n $worst" >"$folder/$name.time"
}

for c in one two three; do echo Hello | "$retain" chat --plain -c $c -n 4 >/dev/null 2>&1 || exit 1; done
for c in one two three; do chats $c & done
loops list list & loops show show one & loops export export two --json & loops search search Hello & loops check check &
wait
touch "$folder/failures"
said=0 lost=0
for c in one two three; do
    n=$(cat "$folder/$c.count") text=$("$retain" show $c)
    i=0
    while [ $((i += 1)) -le "$n" ]; do
        said=$((said + 1))
        case $text in *"Message $i of $c."*) ;; *) lost=$((lost + 1)) ;; esac
    done
done
"$retain" check >/dev/null 2>"$folder/err" || cat "$folder/err" >>"$folder/failures"
commands=$(awk '{ n += $1 } END { print n }' "$folder"/*.time) worst=$(sort -n -k2 "$folder"/*.time | tail -n 1 | cut -d' ' -f2)
echo "crowd: $said messages, $lost lost, $commands other commands, $(wc -l <"$folder/failures") failed, the longest took $worst ms"
sort "$folder/failures" | uniq -c | head
[ $lost -eq 0 ] && [ ! -s "$folder/failures" ]
