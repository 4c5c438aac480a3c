#!/bin/sh
# A conversation begun on one device and resumed on another: nothing is read again. Usage: resume.sh
# RETAIN FROM TO, devices of --device.
set -u
chat() {
    "$retain" chat --plain --temp 0 --seed 1 --budget 64 --chunk 16 --policy auto:reserve=8,sinks=2,stabilizers=8 \
        -n 8 -c "from-$from" --device "$1" 2>&1
}
retain=$1 from=$2
printf 'My locker code is 48213.\n' | chat "$2" || exit
said=$(printf 'What is my locker code?\n/stats\n' | chat "$3")
status=$?
printf '%s\n' "$said"
printf '%s\n' "$said" | grep -q ' 0 re-read' || { echo '0 passed, 1 failed: units were read again'; exit 1; }
exit $status
