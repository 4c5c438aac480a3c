#!/bin/sh
# portable.sh PROGRAM FOLDER CC OBJDUMP: puts the libraries that PROGRAM still needs, libc apart,
# into FOLDER/lib/retain, and adds README, CHANGES and LICENSE.
set -eu
program=$1 folder=$2 cc=$3 objdump=$4
for name in $($objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }'); do
    case $name in libc.so.* | libm.so.* | ld-linux*) continue ;; esac
    mkdir -p "$folder/lib/retain"
    cp -L "$($cc -print-file-name="$name")" "$folder/lib/retain/$name"
    chmod 644 "$folder/lib/retain/$name"
done
cp README.md CHANGES LICENSE "$folder"
