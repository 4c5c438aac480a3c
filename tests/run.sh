#!/bin/sh
# Runs test programs (cmocka) and test scripts one after the other, shows the output of failed ones and ends
# with one line: "N passed, N failed" (", N skipped"). Programs of another architecture go through $RUN.
set -u
# With SAN=1 undefined behaviour stops a program, like a wrong address.
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
for t in "$@"; do
    case $t in *.sh) run= ;; *) run=${RUN:-} ;; esac
    $run "$t" >"$log" 2>&1 </dev/null
    status=$?
    # Our scripts end in "N passed, N failed[, N skipped]"; cmocka brackets its counts.
    counts=$(awk '
        /^\[  PASSED  \] [0-9]+ test/ { p = $4 }
        /^\[  FAILED  \] [0-9]+ test/ { f = $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { s = $4 }
        /^[0-9]+ passed, [0-9]+ failed/ { p = $1; f = $3; s = $5 }
        END { print p + 0, f + 0, s + 0 }' "$log")
    # shellcheck disable=SC2086
    set -- $counts "$@"
    p=$1 f=$2 s=$3
    shift 3
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $((p + f + s)) -eq 0 ]; then f=1; echo "$t ran no test"; fi
    grep -h '^skip: ' "$log" | sort -u
    if [ "$f" -ne 0 ]; then
        echo "FAILED $t (status $status)"
        tail -n 60 "$log"
    else
        echo "ok $t: $p passed$([ "$s" -ne 0 ] && echo ", $s skipped")"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
tail=
[ $skipped -ne 0 ] && tail=", $skipped skipped"
echo "$passed passed, $failed failed$tail"
[ $failed -eq 0 ]
