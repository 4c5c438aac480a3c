#!/bin/sh
# The arrows of the house, as #includes: which room may include which. Fails on any other.
set -u
cd "$(dirname "$0")/.." || exit 1
awk_rules='
function room(path) {
    if (path ~ /^runtime\/base\//) return "base"
    if (path !~ /\//) return "main"
    sub(/\/.*/, "", path)
    return path
}
BEGIN {
    allowed["main"] = " main tui quant runtime base "
    allowed["tui"] = " tui runtime base "
    allowed["quant"] = " quant runtime kernels base "
    allowed["runtime"] = " runtime kernels store base "
    allowed["store"] = " store base "
    allowed["kernels"] = " kernels "
    allowed["base"] = " base "
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    from = room(FILENAME); to = room(part[2])
    if (!(from in allowed) || index(allowed[from], " " to " ")) next
    printf "%s:%d: %s may not include %s\n", FILENAME, FNR, from, part[2]
    bad++
}
END { if (!bad) print "layers: ok"; exit bad > 0 }'
find main.c runtime kernels store tui quant \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) \
    -exec awk "$awk_rules" {} +
