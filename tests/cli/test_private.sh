#!/bin/sh
# A private and an encrypted talk leave nothing that can be read: every slash command of the help is run
# in both, the program aborts, and all files that exist then are searched, a core file with them.
. "$(dirname "$0")/lib.sh"
asked=$(mktemp -d) || exit 1 # what the test itself writes
export XDG_RUNTIME_DIR=$T/memory TMPDIR=$T/tmp HOME=$T VISUAL="f() { cp \"\$1\" \"\$1~\"; }; f"
mkdir "$XDG_RUNTIME_DIR" "$TMPDIR" "$T/cwd"
mkfifo "$T/lines"
unset TMUX HF_TOKEN
word=Zanzibar48213 # no model writes it by itself
trap 'rm -rf "$T" "$asked"' EXIT
printf 'a long passphrase\n' >"$asked/key"
echo /help | "$RETAIN" chat --plain --private 2>&1 | sed -n 's|^ *\(/[a-z]*\) .*|\1|p' | grep -v '/quit\|/exit' |
    sed "s|^/find|/find $word|; s|^/rename|/rename $word|; s|^/tag|/tag $word|; s|^/tokens|/tokens $word|
         s|^/recall\$|/recall $word|; s|^/branch|/branch 1 x$word|; s|^/set|/set seed 7|; s|^/answer|/answer It is $word.|
         s|^/save|/save $asked/saved|; s|^/drop|/drop $word|; s|^/open|/open none|; s|^/delete|/delete none|" >"$asked/commands"
equal "commands of the help" yes "$([ "$(wc -l <"$asked/commands")" -gt 25 ] && echo yes)"

# talk OPTION…: asks, runs the commands, and aborts when all are over
talk() {
    rm -f "$asked/err" "$asked/saved"
    (
        cd "$T/cwd" || exit
        ulimit -c unlimited
        exec "$RETAIN" chat --plain -n 12 "$@" <"$T/lines" >"$asked/out" 2>"$asked/err"
    ) &
    pid=$!
    exec 7>"$T/lines"
    {
        printf 'My code is %s.\nWhat is my code?\n' $word
        cat "$asked/commands"
        printf 'Where is %s?\n/copy all\n/copy\n/editor\n/isover\n' $word
    } >&7
    wait_for grep -q '/isover' "$asked/err" || no "$*: the commands do not end"
    kill -ABRT $pid
    wait $pid 2>/dev/null
    exec 7>&-
}
# found: files below the test's folder that hold the word, as it is, in capitals or in 16 bits a letter
found() {
    wide=$(printf %s $word | sed 's/./&\\x00/g')
    grep -rliaP "$word|$wide" "$T" 2>/dev/null
}

talk --seed 1
holds "an open talk does leave it, so the search finds it" "$(found)" "retain.db"
rm -rf "$XDG_DATA_HOME" "$XDG_STATE_HOME" "$XDG_CACHE_HOME" "$T"/cwd/*
talk --private --seed 1
holds "private: nothing was found" "$(cat "$asked/err")" "private mode has no saved conversations"
equal "private: nothing is left" "" "$(found)"
equal "private: no file is made" "" "$(find "$T" -type f)"
talk --encrypt --passphrase-file "$asked/key" --seed 1
equal "encrypted: nothing is left" "" "$(found)"
holds "encrypted: it was saved" "$("$RETAIN" search --passphrase-file "$asked/key" "$word" 2>&1)" "$word"
equal "no core file" "" "$(find "$T/cwd" -type f)"
holds "the clipboard writes no file" "$(cat "$asked/err")" 'no clipboard takes the text'
finish
