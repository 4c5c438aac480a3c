#!/bin/sh
# Files written by earlier versions (tests/golden/v*.tar.xz, by make_release.sh) open as before: saved
# conversations continue after they were re-read once, which one line says.
. "$(dirname "$0")/lib.sh"
ZERO='(^|[^0-9])0 (tokens )?re-?read|re-?read[^0-9]*0([^0-9]|$)'
command -v xz >/dev/null || { skip 'xz is missing'; finish; }

# chat NAME OPTION…: input comes from stdin. A version with a model of its own brought heads, too.
chat() {
    # shellcheck disable=SC2086
    "$RETAIN" chat --plain -c "$@" $own --isa ref --temp 0 --repeat-penalty 1 --seed 1 -n 24
}

# goes_on NAME OPTION…: the text is read again, once.
goes_on() {
    printf 'Tell me more.\n' | chat "$@" >"$T/said" 2>"$T/err"
    holds "$v: $1: an answer" "$(cat "$T/said")" '[a-z]'
    holds "$v: $1: it is read again" "$(cat "$T/err")" "cache of $1 could not be used: .*; replaying"
    [ "$1" != secret ] || return # its passphrase takes a second of hashing
    printf '/stats\n' | chat "$@" >"$T/said" 2>"$T/err"
    holds "$v: $1: once" "$(cat "$T/err")" "$ZERO"
}

# text NAME DB: all messages, in one line.
text() { "$RETAIN" show "$1" --db "$2" --json | tr '\n' ' '; }

for archive in tests/golden/v*.tar.xz; do
    v=$(basename "$archive" .tar.xz) R=$T/$v
    db=$R/retain.db own='' scored='--budget 32'
    mkdir "$R" && tar -C "$R" -xJf "$archive"
    if [ -e "$R/model.gguf" ]; then
        own="-m $R/model.gguf --heads $R/heads.gguf" scored='--policy locret --budget 48'
        # shellcheck disable=SC2086
        holds "$v: heads" "$("$RETAIN" heads info $own)" '256 -> 4 -> 2'
    fi
    check "$v: the database is whole" "$RETAIN" check --db "$db"
    holds "$v: names and tags" "$("$RETAIN" list --db "$db" --tag roses)" '^garden .*#home #roses'
    holds "$v: search" "$("$RETAIN" search third stone --db "$db")" '^garden '

    garden=$(text garden "$db")
    holds "$v: the text" "$garden" 'My dog is called Biscuit.*What colour is the gate'
    check "$v: import JSON" "$RETAIN" import "$R/garden.json" json --db "$db"
    equal "$v: imported JSON" "$garden" "$(text json "$db")"
    check "$v: import Markdown" "$RETAIN" import "$R/garden.md" markdown --db "$db"
    holds "$v: imported Markdown" "$(text markdown "$db")" 'My dog is called Biscuit.*What colour is the gate'

    cp "$db" "$T/back.db"
    # shellcheck disable=SC2086
    printf '/rewind 2\n' | chat garden --db "$T/back.db" $scored >"$T/said" 2>"$T/err"
    holds "$v: going back" "$("$RETAIN" list --db "$T/back.db")" '^garden .* 2 '

    # shellcheck disable=SC2086
    {
        goes_on garden --db "$db" $scored
        goes_on fork --db "$db" $scored
        goes_on secret --db "$R/sealed.db" --passphrase-file "$R/passphrase" $scored
        check "$v: import with the cache" "$RETAIN" import "$R/fork.db" --db "$R/new.db"
        goes_on fork --db "$R/new.db" $scored
    }
done

# The policy of a conversation of 0.1.0, h2o, is no longer part of retain.
R=$T/v0.1.0 own="-m $R/model.gguf --heads $R/heads.gguf"
printf 'Tell me more.\n' | chat watched --db "$R/retain.db" --kv q8:q4 >"$T/said" 2>"$T/err"
equal 'a removed policy: status' 0 $?
holds 'a removed policy is named' "$(cat "$T/err")" "this conversation's policy h2o is no longer part of retain"
holds 'and its text is read again' "$(cat "$T/err")" 'could not be used'
finish
