#!/bin/sh
# run.sh TEST…: runs test programs (cmocka) and test scripts, JOBS at a time (two more than there
# are processors). Those in $WAITING, which mostly wait, run beside them one after another. Prints a
# line for each and the output of failed ones, and ends with "N passed, N failed" (", N skipped").
# Programs of another architecture are run by $RUN.
set -u
# With SAN=1 undefined behaviour stops a program, like a wrong address.
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"

# one TEST: its counts go to $results/counts, its lines are printed without those of others between.
one() {
    log=$results/$$
    case $1 in *.sh) run= ;; *) run=${RUN:-} ;; esac
    $run "$1" >"$log" 2>&1 </dev/null
    status=$?
    # Our scripts end in "N passed, N failed[, N skipped]"; cmocka brackets its counts.
    counts=$(awk '
        /^\[  PASSED  \] [0-9]+ test/ { p = $4 }
        /^\[  FAILED  \] [0-9]+ test/ { f = $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { s = $4 }
        /^[0-9]+ passed, [0-9]+ failed/ { p = $1; f = $3; s = $5 }
        END { print p + 0, f + 0, s + 0 }' "$log")
    read -r p f s <<END
$counts
END
    [ $((p + f + s)) -eq 0 ] && { f=1; echo "$1 ran no test" >>"$log"; }
    [ $status -ne 0 ] && [ "$f" -eq 0 ] && f=1
    echo "$p $f $s" >>"$results/counts"
    exec 9>"$results/lock"
    flock 9
    grep -h '^skip: ' "$log" | sort -u
    if [ "$f" -ne 0 ]; then
        echo "FAILED $1 (status $status)"
        grep -En '^FAIL|^\[  FAILED  \] [a-z]|^\[  ERROR   \]|^\[   LINE   \]|ERROR: .*Sanitizer' "$log" | head -n 60
        echo "--- the end of its output"
        tail -n 60 "$log"
    else
        echo "ok $1: $p passed$([ "$s" -ne 0 ] && echo ", $s skipped")"
    fi
}

if [ "$1" = --one ]; then
    for t in $2; do (one "$t"); done
    exit
fi
results=$(mktemp -d) || exit 1
export results
trap 'rm -rf "$results"' EXIT
trap 'exit 1' INT TERM HUP
printf '%s\n' ${WAITING:+"$WAITING"} "$@" | xargs -d '\n' -P "${JOBS:-$(($(nproc) + 2))}" -n 1 "$0" --one
awk '{ p += $1; f += $2; s += $3 } END {
    print p + 0 " passed, " f + 0 " failed" (s ? ", " s " skipped" : "")
    if (NR < wanted) print wanted - NR " tests were not run to their end"
    exit f > 0 || NR < wanted }' wanted=$(($# + $(echo "${WAITING:-}" | wc -w))) "$results/counts"
