#!/bin/sh
# deb.sh TREE VERSION ARCH OUT.deb ARCHIVE.a...: makes a Debian package of an installed tree, whose
# program contains the archives. The other libraries and their least versions are found by
# dpkg-shlibdeps, in the database of that architecture.
set -eu
tree=$1 version=$2 arch=$3 out=$4
shift 4
maintainer='The retain developers <retain@users.noreply.example.org>'
date=$(LC_ALL=C date -R -u -d "@$SOURCE_DATE_EPOCH")
doc=$tree/usr/share/doc/retain

mkdir -p "$doc" "$tree/DEBIAN"
{
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    echo 'Upstream-Name: retain'
    echo
    echo 'Files: *'
    echo "Copyright:$(sed -n 's/^Copyright (c)//p' LICENSE)"
    echo 'License: Expat'
    sed -e '1,/^Copyright/d' -e '/^$/{1d;}' LICENSE | sed -e '/./!s/^/./' -e 's/^/ /' | sed 1d
} >"$doc/copyright"
cp NOTICE "$doc/NOTICE"
cross/licenses.sh "$@" >"$doc/libraries.txt"
gzip -9nc CHANGES >"$doc/changelog.gz"
{
    echo "retain ($version) unstable; urgency=medium"
    echo
    echo "  * Version ${version%-*}."
    echo
    echo " -- $maintainer  $date"
} | gzip -9n >"$doc/changelog.Debian.gz"
# No upload to Debian: no bug asks for this package.
mkdir -p "$tree/usr/share/lintian/overrides"
echo 'retain: initial-upload-closes-no-bugs *' >"$tree/usr/share/lintian/overrides/retain"
find "$tree/usr/share/man" -name '*.[1-9]' -exec gzip -9n {} + 2>/dev/null || true

# dpkg-shlibdeps needs a source package.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debian"
printf 'Source: retain\n\nPackage: retain\nArchitecture: any\n' >"$work/debian/control"
program=$(cd "$tree" && pwd)/usr/bin/retain
depends=$(cd "$work" && DEB_HOST_ARCH=$arch dpkg-shlibdeps -O "$program" 2>"$work/log") || {
    cat "$work/log" >&2
    exit 1
}

(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
cat >"$tree/DEBIAN/control" <<END
Package: retain
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(find "$tree/usr" -type f -printf '%s\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }')
Depends: ${depends#shlibs:Depends=}
Recommends: libcurl4t64 | libcurl4, ca-certificates
Section: misc
Priority: optional
Description: language model in the terminal with a memory of fixed size
 retain runs a quantized language model on this machine, in the terminal. Its
 cache takes a fixed amount of memory: what a trained retaining head finds least
 worth keeping is evicted, and a screen shows live what the model still
 remembers. Conversations are saved in SQLite, token by token, and go on where
 they were.
 .
 A small demonstration model is part of the program. Others are read from GGUF
 files, which it can download.
END
chmod -R u+rwX,go+rX,go-w "$tree"
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$tree" "$out" >/dev/null
