#!/bin/sh
# The arrows between rooms (docs/DESIGN.md, "Rooms"): which room may include headers of which. Fails on
# any other, and on circles of includes. The arrows form no circle, so none of files spans two rooms;
# inside a room one has at most 3 members (a .c and its .h are one).
set -u
cd "$(dirname "$0")/.." || exit 1
awk_rules='
# The room of a path: the last folder; "kernels" for kernels/cpu and kernels/cuda, "model" for its families.
function room(path) {
    if (path !~ /\//) return "main"
    sub(/\/[^\/]*$/, "", path)
    if (path ~ /^kernels/) return "kernels"
    sub(/^(runtime|quant|tui|cli)\//, "", path)
    sub(/^model\/families$/, "model", path)
    return path
}
BEGIN {
    allowed["base"]    = " base "
    allowed["kernels"] = " kernels "
    allowed["store"]   = " store base "
    allowed["model"]   = " model kernels base "
    allowed["template"] = " template base "
    allowed["token"]   = " token template model base "
    allowed["cache"]   = " cache model kernels base "
    allowed["cuda"]    = " cuda cache token model kernels base "
    allowed["forward"] = " forward cuda cache token model kernels base "
    allowed["save"]    = " save cache token model store base "
    allowed["session"] = " session save forward cache token model store base "
    allowed["print"]   = " print base "
    allowed["options"] = " options print session forward cache token model base "
    allowed["pull"]    = " pull options print session forward cache token model base "
    allowed["control"] = " control pull options print session save forward cache token model base "
    allowed["plain"]   = " plain control options print session save base "
    allowed["commands"] = " commands pull control options print session save forward cuda cache token model base "
    allowed["term"]    = " term commands control options print base "
    allowed["text"]    = " text term print cache token base "
    allowed["chat"]    = " chat text term commands plain control options print session save cache token base "
    allowed["view"]    = " view chat text term commands control options print session cache token base "
    allowed["convert"] = " convert commands control options print forward token model kernels base "
    allowed["heads"]   = " heads convert commands control options print session forward cuda cache token model kernels base "
    allowed["files"]   = " files token base "
    allowed["eval"]    = " eval files convert commands control options print session forward cache token model kernels base "
    allowed["main"]    = " chat text term eval heads convert commands pull control options print base "
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    if (part[2] == "facts.h") next # made by the Makefile
    from = room(FILENAME); to = room(part[2])
    if (from == to && member(FILENAME) != member(part[2]))
        includes[member(FILENAME)] = includes[member(FILENAME)] " " member(part[2])
    if (!(from in allowed)) {
        printf "%s: no room of that name in tests/check_layers.sh\n", FILENAME
        bad++
    } else if (!(to in allowed) || !index(allowed[from], " " to " ")) {
        printf "%s:%d: %s may not include %s\n", FILENAME, FNR, from, part[2]
        bad++
    }
}
function member(path) { sub(/\.[a-z]+$/, "", path); return path }
# Adds to seen what `at` leads to, by edges of arrow.
function follow(at, seen, n, part, i) {
    n = split(arrow[at], part, " ")
    for (i = 1; i <= n; i++)
        if (!(part[i] in seen)) { seen[part[i]] = 1; follow(part[i], seen) }
}
# Prints and counts circles of more than `most` among what arrow holds.
function find_circles(most, a, b, n, circle, to, back, done) {
    for (a in arrow) {
        split("", to)
        follow(a, to)
        if (!(a in to) || a in done) continue
        n = 0
        circle = ""
        for (b in to) {
            split("", back)
            follow(b, back)
            if (a in back) { done[b] = 1; n++; circle = circle " " b }
        }
        if (n > most) { print "circle:" circle; bad++ }
    }
}
END {
    for (a in includes) arrow[a] = includes[a]
    find_circles(3)
    split("", arrow)
    for (a in allowed) { arrow[a] = allowed[a]; sub(" " a " ", " ", arrow[a]) }
    find_circles(0)
    if (!bad) print "layers: ok"
    exit bad > 0
}'
find main.c base runtime kernels store cli tui quant \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) \
    ! -path 'quant/demo/*' -exec awk "$awk_rules" {} +
status=$?

# Every line that a command prints goes through cli/print/report, which keeps escape sequences off the
# terminal. replay draws recorded screens through a separate filter.
# shellcheck disable=SC2046
if grep -nE '(^|[^a-z_])(printf|puts|putchar|vprintf|perror)\(|std(out|err)\b' \
    $(find main.c base runtime kernels store cli tui quant -name '*.c' ! -path 'quant/demo/*' \
        ! -path cli/print/report.c ! -path tui/chat/replay.c) | grep -vE ':[0-9]+: *(/\*| \*|")'; then
    echo 'printing: only through cli/print/report.h'
    status=1
else
    echo 'printing: ok'
fi
exit $status
