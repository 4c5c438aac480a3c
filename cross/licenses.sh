#!/bin/sh
# licenses.sh LIBRARY.a|LIBRARY.so...: the licences of libraries that become part of a package, from the
# Debian packages that they are of.
set -eu
for library in "$@"; do
    file=$(readlink -f "$library")
    package=$(dpkg -S "$file" 2>/dev/null || dpkg -S "${file#/usr}") # where /lib is a link
    package=${package%%:*}
    name=$(basename "$library")
    echo "---- ${name%%.*}, part of this package, from the Debian package $package"
    echo
    cat "/usr/share/doc/$package/copyright"
    echo
done
