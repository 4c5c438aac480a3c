#!/bin/sh
# Files written by earlier releases (tests/golden/v*/, by make_release.sh) open as before: saved
# conversations continue without a replay, with the same answers as in that release.
. "$(dirname "$0")/lib.sh"
ZERO='(^|[^0-9])0 (tokens )?re-?read|re-?read[^0-9]*0([^0-9]|$)'

# chat RELEASE-FOLDER NAME OPTION…: input comes from stdin.
chat() {
    at=$1 name=$2
    shift 2
    "$RETAIN" chat --plain -m "$at/model.gguf" --heads "$at/heads.gguf" -c "$name" --isa ref --temp 0 --repeat-penalty 1 \
        --seed 1 -n 24 "$@"
}

# goes_on NAME OPTION…: the next answer equals the release's answer.
goes_on() {
    talk=$1
    next=$R/$1.next
    printf 'Tell me more.\n/stats\n' | chat "$R" "$@" >"$T/said" 2>"$T/err"
    check "$v: $talk: the same answer" cmp "$next" "$T/said"
    holds "$v: $talk: nothing is read again" "$(cat "$T/err")" "$ZERO"
}

# text NAME DB: all messages, in one line.
text() { "$RETAIN" show "$1" --db "$2" --json | tr '\n' ' '; }

cp -r tests/golden/v[0-9]* "$T"
for R in "$T"/v*; do
    v=${R##*/} db=$R/retain.db
    scored='--policy locret --budget 48'
    check "$v: the database is whole" "$RETAIN" check --db "$db"
    holds "$v: names and tags" "$("$RETAIN" list --db "$db" --tag roses)" '^garden .*#home #roses'
    holds "$v: search" "$("$RETAIN" search third stone --db "$db")" '^garden '
    holds "$v: heads" "$("$RETAIN" heads info -m "$R/model.gguf" --heads "$R/heads.gguf")" '256 -> 4 -> 2'

    garden=$(text garden "$db")
    holds "$v: the text" "$garden" 'My dog is called Biscuit.*What colour is the gate'
    check "$v: import JSON" "$RETAIN" import "$R/garden.json" json --db "$db"
    equal "$v: imported JSON" "$garden" "$(text json "$db")"
    check "$v: import Markdown" "$RETAIN" import "$R/garden.md" markdown --db "$db"
    holds "$v: imported Markdown" "$(text markdown "$db")" 'My dog is called Biscuit.*What colour is the gate'

    # Rewinding: evicted units are still in the log.
    cp "$db" "$T/back.db"
    # shellcheck disable=SC2086
    printf '/rewind 2\n/stats\n' | chat "$R" garden --db "$T/back.db" $scored >"$T/said" 2>"$T/err"
    holds "$v: going back reads nothing again" "$(cat "$T/err")" "$ZERO"
    holds "$v: going back" "$("$RETAIN" list --db "$T/back.db")" '^garden .* 2 '

    # shellcheck disable=SC2086
    {
        goes_on garden --db "$db" $scored
        goes_on fork --db "$db" $scored
        goes_on secret --db "$R/sealed.db" --passphrase-file "$R/passphrase" $scored
        check "$v: import with the cache" "$RETAIN" import "$R/fork.db" --db "$T/new.db"
        goes_on fork --db "$T/new.db" $scored
    }

    # Its policy, h2o, is no longer part of retain.
    printf 'Tell me more.\n' | chat "$R" watched --db "$db" --kv q8:q4 >"$T/said" 2>"$T/err"
    equal "$v: a removed policy: status" 0 $?
    holds "$v: a removed policy is named" "$(cat "$T/err")" "this conversation's policy h2o is no longer part of retain"
    holds "$v: and its text is read again" "$(cat "$T/err")" 'could not be used'
done
finish
