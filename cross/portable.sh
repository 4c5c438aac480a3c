#!/bin/sh
# portable.sh PROGRAM FOLDER CC OBJDUMP ARCHIVE.a...: puts the libraries that PROGRAM still needs, libc
# apart, into FOLDER/lib/retain, and adds README, CHANGES, LICENSE, NOTICE and the licences of these libraries
# and of the archives, which are part of the program.
set -eu
program=$1 folder=$2 cc=$3 objdump=$4
shift 4
for name in $($objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }'); do
    case $name in libc.so.* | libm.so.* | ld-linux*) continue ;; esac
    mkdir -p "$folder/lib/retain"
    library=$($cc -print-file-name="$name")
    cp -L "$library" "$folder/lib/retain/$name"
    set -- "$@" "$(readlink -f "$library")"
    chmod 644 "$folder/lib/retain/$name"
done
cp README.md CHANGES LICENSE NOTICE "$folder"
cross/licenses.sh "$@" >"$folder/libraries.txt"
