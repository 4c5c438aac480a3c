#!/bin/sh
# check_reproducible.sh: the last commit, built twice, in folders of other names, with another
# language, time zone, umask and number of jobs, gives the same program, package, portable folder
# and source.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make=${MAKE:-make} cross=${CROSS:-}
unset MAKEFLAGS MAKELEVEL MFLAGS SOURCE_DATE_EPOCH

# build FOLDER JOBS: prints "digest name" of each file that it makes.
build() {
    git clone -q . "$work/$1"
    (
        cd "$work/$1"
        $make -s -j"$2" CROSS="$cross" dist portable deb >"$work/log" 2>&1 || { tail "$work/log" >&2; exit 1; }
        cd "build/$cross"
        sha256sum retain portable/retain packages/*.deb packages/*.tar.gz
    )
}

(umask 022; export TZ=UTC LC_ALL=C; build one 1) >"$work/first"
(umask 002; export TZ=Asia/Kathmandu LC_ALL=C.UTF-8; build another/folder/further/down 2) >"$work/second"
if ! diff "$work/first" "$work/second"; then
    echo "two builds differ"
    exit 1
fi
echo "reproducible: $(wc -l <"$work/first") files of two builds are the same${cross:+ for $cross}"
