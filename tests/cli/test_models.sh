#!/bin/sh
# Model files: registered at first use, refused when they changed, one default.
. "$(dirname "$0")/lib.sh"

M=$T/copy.gguf
flip() { # flip FILE OFFSET: one bit, without the time of the file telling
    cp -p "$1" "$T/times"
    byte=$(od -An -tu1 -j "$2" -N1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf '%03o' $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
    touch -r "$T/times" "$1"
}
cp quant/demo/retain-demo.gguf "$M"
size=$(wc -c <"$M" | tr -d ' ')
digest=$(b2sum -l 256 "$M" | cut -d' ' -f1)
config=$XDG_CONFIG_HOME/retain/config

# list and add
"$RETAIN" models list >"$T/out" 2>"$T/err"
equal "empty list: exit status" 0 $?
equal "empty list: the demo alone" "demo" "$(sed 1d "$T/out" | awk '{ print $2 }')"
equal "add: digest and path" "$digest  $M" "$("$RETAIN" models add "$M" 2>&1)"
short=$(printf %.16s "$digest")
holds "list" "$("$RETAIN" models list 2>&1)" "  copy +2.32 MiB  Q4_0 +llama +3,328$"
holds "list as JSON" "$("$RETAIN" models list --json)" "\"digest\":\"$digest\",\"state\":\"same\""
refused "add what is not there" 3 '' "$RETAIN" models add "$T/missing.gguf"
refused "nonsense" 2 '' "$RETAIN" models nonsense
equal "verify all" "$digest  $M" "$("$RETAIN" models verify 2>&1)"

# A bit flipped in any tensor: the data is the last part of the file.
for part in 30 45 60 75 90 99; do
    at=$((size * part / 100))
    flip "$M" "$at"
    refused "flipped at $part %: models verify" 3 '' "$RETAIN" models verify "$M"
    holds "flipped at $part %: both digests" "$(cat "$T/out")" \
        "digest was $digest and is $(b2sum -l 256 "$M" | cut -d' ' -f1) now"
    refused "flipped at $part %: verify all" 3 '' "$RETAIN" models verify
    "$RETAIN" chat --plain -m "$M" --verify full </dev/null >"$T/out" 2>&1
    equal "flipped at $part %: --verify full" 3 $?
    holds "flipped at $part %: --verify full says so" "$(cat "$T/out")" "digest was $digest"
    flip "$M" "$at"
done
check "flipped back" "$RETAIN" models verify

# Size and times are trusted without --verify full, and nothing is read with --verify off.
flip "$M" $((size - 5000))
check "sample trusts size and time" "$RETAIN" models add "$M"
touch "$M"
"$RETAIN" chat --plain -m "$M" </dev/null >/dev/null 2>&1
equal "touched: read again and refused" 3 $?
holds "touched: listed so" "$("$RETAIN" models list 2>&1)" "  copy .*  touched"
check "--verify off reads nothing" "$RETAIN" chat --plain -m "$M" --verify off
flip "$M" $((size - 5000))

# Another file in its place needs --accept-model, once.
printf 'more' >>"$M"
refused "changed" 3 "--accept-model" "$RETAIN" models add "$M"
check "accepted" "$RETAIN" models add "$M" --accept-model
check "accepted for good" "$RETAIN" models verify "$M"
rm "$M"
holds "missing: listed so" "$("$RETAIN" models list 2>&1)" "missing"
refused "missing: verify" 3 '' "$RETAIN" models verify

# A tensor that differs from its digest in the file, in a file that is new to the database.
"$RETAIN" quantize --type q8 quant/demo/retain-demo.gguf "$T/made.gguf" >/dev/null 2>"$T/err" ||
    cat "$T/err"
check "made file" "$RETAIN" verify -m "$T/made.gguf"
flip "$T/made.gguf" $(($(wc -c <"$T/made.gguf") / 2))
refused "damaged tensor" 3 "tensor [a-z0-9_.]+ does not have the digest" "$RETAIN" info -m "$T/made.gguf" --verify full
refused "damaged tensor: not generated with" 3 "tensor [a-z0-9_.]+ does not have the digest" \
    "$RETAIN" generate -m "$T/made.gguf" --heads none -p Hello -n 1
check "damaged tensor: a plan looks at no weights" "$RETAIN" plan -m "$T/made.gguf"

# A chat keeps a packed copy, the next start maps it; --no-weight-cache and --private leave none.
cp quant/demo/retain-demo.gguf "$T/packed.gguf"
packed() { ls "$XDG_CACHE_HOME"/retain/packed/packed.gguf-*.packed; }
mkfifo "$T/in"
talk() { # talk OPTION… while the chat stays open
    "$RETAIN" chat --plain -m "$T/packed.gguf" "$@" <"$T/in" >"$T/out" 2>&1 &
    exec 7>"$T/in"
}
say_bye() { exec 7>&-; wait $!; }
talk
wait_for packed || no "no packed copy: $(cat "$T/out")"
say_bye
holds "packed: listed" "$("$RETAIN" models list --json)" "$T/packed.gguf.*\"packed_bytes\":[1-9].*$digest"
holds "packed: info" "$("$RETAIN" info -m "$T/packed.gguf")" "^packed +[0-9.]+ MiB in $(packed)\$"
holds "packed: digest" "$("$RETAIN" info -m "$T/packed.gguf")" "^digest +$digest"
holds "packed: not used" "$("$RETAIN" info -m "$T/packed.gguf" --no-weight-cache)" "^packed +no copy is kept"
for how in --no-weight-cache --threads=1; do
    "$RETAIN" generate -m "$T/packed.gguf" -p "Once" -n 20 --temp 0 "$how" >"$T/text$how" 2>&1
done
equal "packed: the same answer" "$(cat "$T/text--no-weight-cache")" "$(cat "$T/text--threads=1")"
equal "packed: verified" "$digest  $T/packed.gguf" "$("$RETAIN" models verify "$T/packed.gguf" 2>&1)"
chmod u+w "$(packed)"
flip "$(packed)" 200000
holds "packed: damage is found" "$("$RETAIN" models verify "$T/packed.gguf" 2>&1)" "was removed"
check "packed: nothing left to find" "$RETAIN" models verify "$T/packed.gguf"
equal "packed: removed" "" "$(packed 2>/dev/null)"
talk
wait_for packed || no "no new packed copy"
say_bye
equal "unpack says what it removes" "$(packed)" "$("$RETAIN" models unpack "$T/packed.gguf")"
equal "unpacked" "" "$(packed 2>/dev/null)"

# A page of the copy that changed is found while a conversation uses it: the copy and what was computed
# with it are dropped, the conversation says so, and its next answer is the model file's own.
cached() { "$RETAIN" list --json | tr '{' '\n' | grep "\"$1\"" | grep -c '"cache_bytes":[1-9]'; }
asks() { # asks NAME: a chat that stays open after its first question
    "$RETAIN" chat --plain --temp 0 -n 20 -m "$T/packed.gguf" -c "$1" <"$T/in" >"$T/out" 2>"$T/err" &
    exec 7>"$T/in"
    echo 'Who are you?' >&7
}
inode() { stat -c %i "$(packed)" 2>/dev/null; }
changed() { [ "$(inode)" != "$was" ]; }
said='the copy of this model.s weights on the disk was damaged .*was removed'
for try in 1 2 3 4 5; do # a start that compares this panel finds it before
    asks earlier
    wait_for packed || no "no copy to damage"
    say_bye
    equal "damaged: the earlier one has a cache" 1 "$(cached earlier)"
    chmod u+w "$(packed)"
    flip "$(packed)" 200000
    was=$(inode)
    asks now
    wait_for changed || no "the damage is not found"
    echo 'Who are you?' >&7
    say_bye
    grep -q "$said" "$T/err" && break
done
holds "damaged: said" "$(cat "$T/err")" "$said"
equal "damaged: the earlier one's cache is dropped" 0 "$(cached earlier)"
"$RETAIN" models unpack "$T/packed.gguf" >/dev/null
for how in --no-weight-cache --private; do
    talk $how
    echo Hello >&7
    wait_for test -s "$T/out"
    say_bye
    equal "$how keeps none" "" "$(packed 2>/dev/null)"
done

# The default is a line of the configuration file; the others stay.
cp quant/demo/retain-demo.gguf "$M"
equal "default before" demo "$("$RETAIN" models default)"
mkdir -p "$XDG_CONFIG_HOME/retain"
printf '# mine\nthreads = 1' >"$config"
rm -rf "$XDG_DATA_HOME"
check "set default" "$RETAIN" models default "$M"
equal "default" "$M" "$("$RETAIN" models default)"
holds "default is used" "$("$RETAIN" info)" "$digest"
holds "default is marked" "$("$RETAIN" models list 2>&1)" "^\* copy "
equal "configuration" "# mine threads = 1 model = \"$M\"" "$(tr '\n' ' ' <"$config" | sed 's/ $//')"
refused "a default that is not there" 3 '' "$RETAIN" models default "$T/missing.gguf"
equal "default stays" "$M" "$("$RETAIN" models default)"
check "back to the demo" "$RETAIN" models default demo
equal "configuration without it" "# mine threads = 1" "$(tr '\n' ' ' <"$config" | sed 's/ $//')"
equal "default after" demo "$("$RETAIN" models default)"
# An encrypted database is asked for its passphrase like everywhere else.
printf 'secret\n' >"$T/pass"
check "encrypted: add" "$RETAIN" models add "$M" --db "$T/sealed.db" --encrypt --passphrase-file "$T/pass"
holds "encrypted: list" "$("$RETAIN" models list --db "$T/sealed.db" --passphrase-file "$T/pass" 2>&1)" \
    "^  copy .* llama"

# A file that was pulled is listed, too; one that cannot be run says why.
pulled=$XDG_DATA_HOME/retain/models/someone/tiny
mkdir -p "$pulled"
cp build/golden/split/llama3-0000?-of-00003.gguf "$pulled"
printf 'GGUF' >"$pulled/cut.gguf"
"$RETAIN" models list >"$T/out" 2>"$T/err"
holds "pulled: one row for all parts" "$(cat "$T/out")" "  llama3 +76.2 KiB +F16 +llama .* new$"
equal "pulled: no row for later parts" 1 "$(grep -c 'llama3' "$T/out")"
holds "pulled: a file that cannot be run" "$(cat "$T/out")" "  cut +[0-9] B +- +- .* new$"
holds "pulled: why" "$(cat "$T/err")" "cut.gguf: ends inside the header"
holds "pulled: as JSON" "$("$RETAIN" models --json)" '"state":"new","default":false,"name":"llama3","family":"llama"'

# ---- names: the file's, without case, its beginning, or OWNER/REPO:QUANTIZATION
name_of() { "$RETAIN" plan -m "$1" 2>&1 | head -n 1; }
for name in llama3 LLAMA3 lla llama3-00001-of-00003.gguf; do
    holds "name $name" "$(name_of $name)" '^llama3, policy'
done
holds "name of a folder's file" "$(name_of someone/tiny:llama3-00001-of-00003.gguf)" '^llama3, policy'
holds "a name that nothing has" "$(name_of nothing)" 'no model nothing; known are: demo, .*llama3; retain pull ADDRESS'
cp build/golden/families/llama3.gguf "$pulled/llama3-small.gguf"
holds "one that is the beginning of another" "$(name_of llama3)" '^llama3, policy'
holds "the beginning of several" "$(name_of llam)" 'llam is the beginning of several: llama3, llama3-small'
check "the default by name" "$RETAIN" models default llama3-small
equal "the default by name: its path" "$pulled/llama3-small.gguf" "$("$RETAIN" models default)"
holds "completion of -m" "$("$RETAIN" complete chat -m llama3-)" '^llama3-small'
holds "completion of models" "$("$RETAIN" complete models default d)" '^demo'
mkdir -p "$XDG_DATA_HOME/retain/models/other/tiny"
cp build/golden/families/llama3.gguf "$XDG_DATA_HOME/retain/models/other/tiny/llama3-small.gguf"
holds "two of a name: with their folders" "$("$RETAIN" models)" 'someone/tiny:llama3-small.gguf'
holds "two of a name: either" "$(name_of other/tiny:llama3-small.gguf)" '^llama3-small, policy'
equal "remove: what it deletes" "$pulled/llama3-small.gguf" "$("$RETAIN" models remove someone/tiny:llama3-small.gguf)"
equal "remove: the file" "" "$(find "$pulled" -name 'llama3-small*')"
equal "remove: it is not the default any more" demo "$("$RETAIN" models default)"
check "remove: all parts" "$RETAIN" models remove llama3
equal "remove: no part is left" "" "$(find "$pulled" -name 'llama3-0*')"
holds "remove: a file of the user stays" "$("$RETAIN" models remove copy 2>&1)" "$M is no longer listed; the file stays"
if [ -f "$M" ]; then ok; else no "remove: it does not stay"; fi
refused "remove: not the demo" 2 '' "$RETAIN" models remove demo
finish
