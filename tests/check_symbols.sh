#!/bin/sh
# check_symbols.sh MAX PROGRAM...: no symbol of a program is newer than GLIBC_MAX.
set -eu
max=$1
shift
for program in "$@"; do
    "${OBJDUMP:-objdump}" -T "$program" | awk -v max="$max" -v program="$program" '
        function number(version, part) { split(version, part, "."); return part[1] * 1000 + part[2] }
        match($0, /GLIBC_[0-9.]+/) {
            version = substr($0, RSTART + 6, RLENGTH - 6)
            if (number(version) > number(newest)) newest = version
            if (number(version) > number(max)) { print program ": " $NF " is of glibc " version; bad = 1 }
        }
        END {
            if (newest == "") { print program ": no symbol of glibc was found"; bad = 1 }
            if (!bad) print "symbols: " program " needs glibc " newest ", at most " max " is promised"
            exit bad
        }'
done
