#!/bin/sh
# Writes the files of a version with that version's program, for tests/cli/test_release.sh:
# tests/golden/make_release.sh PROGRAM ARCHIVE.tar.xz. Written once by each version; 0.1.0 ran the
# script that its commit f3ba712 has, with a random model and heads of its own. --isa ref: the same
# answers on every processor. In the archives of database versions before 8 the bytes of the blobs are
# zeros (UPDATE blob SET bytes = zeroblob(length(bytes))): the migration drops them unread.
set -eu
program=$(realpath "$1")
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
export XDG_DATA_HOME=$T/data XDG_STATE_HOME=$T/state XDG_CONFIG_HOME=$T/config XDG_CACHE_HOME=$T/cache
mkdir "$T/files"

# say NAME LINE…: continues a conversation and prints its answers.
say() {
    name=$1
    shift
    # shellcheck disable=SC2086
    printf '%s\n' "$@" | "$program" chat --plain -c "$name" --isa ref --temp 0 --repeat-penalty 1 \
        --seed 1 -n 24 $options
}
plain='--db retain.db --budget 32'
sealed='--db sealed.db --budget 32 --passphrase-file passphrase'
(
    cd "$T/files"
    options=$plain
    say garden 'My dog is called Biscuit.' '/branch 1 fork' 'The key is under the third stone.' \
        'Where is the key?' '/edit 3' 'What colour is the gate?'
    "$program" tag garden roses home --db retain.db
    "$program" export garden --db retain.db >garden.json
    "$program" export garden --db retain.db --markdown >garden.md
    "$program" export fork --db retain.db --with-cache fork.db
    echo 'correct horse' >passphrase
    options="$sealed --encrypt"
    say secret 'The number is 48213.'
) >&2
rm -f "$T"/files/*.lock
tar -C "$T/files" --sort=name --owner=0 --group=0 --mtime=@0 -c . | xz -9e >"$2"
