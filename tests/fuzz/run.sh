#!/bin/sh
# run.sh BUILD SECONDS TARGET…: runs each fuzzer for SECONDS from the seeds, the malformed files of
# RETAIN_TEST_DATA and inputs that earlier runs found. A crash leaves its input in BUILD/fuzz.
set -u
build=$1 seconds=$2
shift 2
passed=0 failed=0
data=${RETAIN_TEST_DATA:-../shared/data}/malformed
"$build/tests/fuzz/make_seeds" "$build/fuzz" || exit 1
for target in "$@"; do
    name=${target##*/fuzz_}
    mkdir -p "$build/fuzz/$name-found" "$build/fuzz/$name"
    set -- "$build/fuzz/$name-found" "$build/fuzz/$name"
    longest=16384
    [ "$name" = import ] && longest=300000 # an empty database has 200 KB
    [ "$name" = tui ] && set -- "$@" -len_control=0 # a conversation is many keys
    case $name in gguf | heads) [ -d "$data" ] && set -- "$@" "$data" ;; esac
    if "$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -max_len=$longest \
        -artifact_prefix="$build/fuzz/$name-" "$@" >"$build/fuzz/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $name: $(grep '^Done ' "$build/fuzz/$name.log")"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -n 40 "$build/fuzz/$name.log"
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
