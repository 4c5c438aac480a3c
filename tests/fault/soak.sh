#!/bin/sh
# soak.sh RETAIN SECONDS: one chat that goes on and on, with evictions, going back and branches, while other
# commands read and write the same database. At the end every checksum is right, nothing failed, and the
# chat's memory and descriptors are those of the first minute.
set -u
retain=$1 seconds=$2
folder=$(mktemp -d) || exit 1
trap 'exec 7>&-; kill "$chat" 2>/dev/null; rm -rf "$folder"' EXIT
export XDG_DATA_HOME=$folder/data XDG_STATE_HOME=$folder/state XDG_CONFIG_HOME=$folder/config XDG_CACHE_HOME=$folder/cache
mkfifo "$folder/in"
"$retain" chat --plain -c soak --budget 64 --seed 1 -n 12 --cache-quota 64M <"$folder/in" >"$folder/said" 2>"$folder/notes" &
chat=$!
exec 7>"$folder/in"
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$chat/status"; }
descriptors() { ls "/proc/$chat/fd" | wc -l; }
fail() { echo "FAIL: $*"; tail -n 5 "$folder/notes"; exit 1; }

begun=$(date +%s) turns=0 first= commands=0
while [ $(($(date +%s) - begun)) -lt "$seconds" ]; do
    for line in 'My locker code is 48213.' 'Tell me about cats.' 'What is my locker code?' '/regenerate' 'How are you?'; do
        echo "$line" >&7 || fail "the chat ended after $turns turns"
        turns=$((turns + 1))
    done
    # Waits until the chat has read them: a pipe would take thousands.
    echo '/tokens done' >&7
    marks=$((turns / 5))
    while [ "$(grep -c '^2 tokens\|tokens' "$folder/notes" "$folder/said" | awk -F: '{ n += $2 } END { print n }')" -lt "$marks" ]; do
        kill -0 $chat 2>/dev/null || fail "the chat ended after $turns turns"
        sleep 0.05
    done
    for command in list 'show soak' 'search locker' 'export soak --json' check; do
        # shellcheck disable=SC2086
        "$retain" $command >"$folder/out" 2>&1 || fail "retain $command: $(tail -n 1 "$folder/out")"
        commands=$((commands + 1))
    done
    if [ -z "$first" ] && [ $(($(date +%s) - begun)) -ge $((seconds / 3)) ]; then first=$(resident) fds=$(descriptors); fi
done
last=$(resident)
[ "$(descriptors)" -eq "$fds" ] || fail "descriptors: $fds, then $(descriptors)"
[ $((last - first)) -le 1024 ] || fail "resident memory: $first KiB, then $last KiB"
exec 7>&-
wait $chat || fail "the chat's exit status is $?"
"$retain" check >"$folder/out" 2>&1 || fail "check: $(cat "$folder/out")"
echo "soak: $turns lines, $commands other commands, $first KiB resident after a third of the time, $last KiB at the end"
