# lib.sh: shared by the command-line tests. Source it, call ok/no/check, end with `finish`.
# RETAIN is the program; everything it writes is in a fresh folder.
set -u
RETAIN=${RETAIN:-build/retain}
DATA=${RETAIN_TEST_DATA:-../shared/data}
case $RETAIN in /*) ;; *) RETAIN=$PWD/$RETAIN ;; esac
case $DATA in /*) ;; *) DATA=$PWD/$DATA ;; esac
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
export XDG_DATA_HOME=$T/data XDG_STATE_HOME=$T/state XDG_CONFIG_HOME=$T/config
export XDG_CACHE_HOME=$T/cache
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAIL: $*"; }

# check NAME COMMAND…: the command must succeed.
check() {
    name=$1
    shift
    if "$@" >"$T/out" 2>&1; then ok; else no "$name"; head -n 20 "$T/out"; fi
}

# equal NAME EXPECTED ACTUAL
equal() { if [ "$2" = "$3" ]; then ok; else no "$1: expected \"$2\", got \"$3\""; fi; }

# holds NAME TEXT PATTERN: the text matches the extended regular expression.
holds() {
    if grep -Eq -- "$3"; then ok; else no "$1: \"$2\" does not match $3"; fi <<EOF
$2
EOF
}

# refused NAME STATUS PATTERN COMMAND…: the command fails with this status and says this, if anything.
refused() {
    name=$1 wanted=$2 pattern=$3
    shift 3
    "$@" >"$T/out" 2>&1 </dev/null
    equal "$name: exit status" "$wanted" $?
    [ -z "$pattern" ] || grep -Eq -- "$pattern" "$T/out" || no "$name: \"$(cat "$T/out")\" does not match $pattern"
}

# wait_for COMMAND…: until the command succeeds, for ten minutes of sleep at most.
wait_for() {
    n=30000
    while [ $n -gt 0 ]; do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.02
        n=$((n - 1))
    done
    return 1
}

skip() { echo "skip: $*"; skipped=$((skipped + 1)); }

finish() {
    echo "$passed passed, $failed failed$([ $skipped -ne 0 ] && echo ", $skipped skipped")"
    [ $failed -eq 0 ]
    exit
}
