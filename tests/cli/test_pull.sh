#!/bin/sh
# retain pull against a hub on this machine (tests/cli/hub.c): every answer ends right or with one line.
. "$(dirname "$0")/lib.sh"
PULL=${PULL:-build/tests}
unset http_proxy https_proxy HTTPS_PROXY ALL_PROXY all_proxy HF_TOKEN HUGGING_FACE_HUB_TOKEN

# A build without libcurl says so.
refused "without libcurl" 1 "^retain: this build cannot download" "$PULL/retain_offline" pull hf:normal/demo
if "$RETAIN" pull hf:normal/demo 2>&1 | grep -q 'this build cannot\|needs libcurl'; then
    skip "libcurl is missing"
    finish
fi

mkdir "$T/hub"
cp quant/demo/retain-demo.gguf "$T/hub/demo-Q4_0.gguf"
cp build/golden/families/llama3.gguf "$T/hub/tiny-Q8_0.gguf"
for i in 1 2 3; do cp build/golden/split/llama3-0000$i-of-00003.gguf "$T/hub/split-q6_k-0000$i-of-00003.gguf"; done
cp build/golden/families/llama3.gguf "$T/hub/mmproj-Q4_K_M.gguf"
"$RETAIN" quantize --type q8 quant/demo/retain-demo.gguf "$T/hub/demo-Q5_1.gguf" >/dev/null 2>&1
cp tests/golden/heads.safetensors "$T/hub/heads.bin"
printf 'GGUF\003\000\000\000not a model at all, this is' >"$T/hub/odd-Q2_K.gguf"
"$PULL/hub" "$T/hub" "$T/log" >"$T/ports" &
hub=$!
trap 'kill $hub; rm -rf "$T"' EXIT
wait_for test -s "$T/ports"
read -r port other <"$T/ports"
export HF_ENDPOINT=http://127.0.0.1:$port/
models=$XDG_DATA_HOME/retain/models

# pull STATUS PATTERN ADDRESS [OPTION…]: what it prints is in $T/out and $T/err, one line for a failure
pull() {
    status=$1 pattern=$2
    shift 2
    : >"$T/log"
    "$RETAIN" pull "$@" >"$T/out" 2>"$T/err"
    equal "pull $*: exit status" "$status" $?
    holds "pull $*: what it says" "$(cat "$T/err")" "$pattern"
    if [ "$status" -ne 0 ]; then equal "pull $*: one line" 1 "$(grep -vc 'fits with' "$T/err")"; fi
}
# here FILE OF: it was downloaded whole, and nothing else is left
here() {
    if cmp -s "$models/$1" "$T/hub/$2"; then ok; else no "$1 is not $2"; fi
    equal "$1: no part is left" "" "$(find "$(dirname "$models/$1")" -name '*.part*')"
}
forget() { rm -rf "$models"; }
tokens() { grep -c 'token=Bearer' "$T/log"; }

# ---- choosing a file
pull 0 "test model|fits with [0-9,]+ units per head: .* of memory" hf:normal/demo:Q4_0
here normal/demo/demo-Q4_0.gguf demo-Q4_0.gguf
equal "the path is the result" "$models/normal/demo/demo-Q4_0.gguf" "$(cat "$T/out")"
holds "the chat is named" "$(cat "$T/err")" "retain -m demo-Q4_0"
holds "two pages were read" "$(cat "$T/log")" "cursor=2"
holds "our digest is registered" "$("$RETAIN" models --json)" "$(b2sum -l 256 "$T/hub/demo-Q4_0.gguf" | cut -d' ' -f1)"
holds "the record" "$(cat "$models/normal/demo/demo-Q4_0.gguf.pull")" "$(sha256sum "$T/hub/demo-Q4_0.gguf" | cut -d' ' -f1)"
pull 0 "is here already" hf:normal/demo:q4_0
equal "nothing was downloaded again" 0 "$(grep -c '^cdn' "$T/log")"
pull 0 "" hf:normal/demo
here normal/demo/tiny-Q8_0.gguf tiny-Q8_0.gguf
pull 0 "" hf:normal/demo:Q6_K
for i in 1 2 3; do here normal/demo/split-q6_k-0000$i-of-00003.gguf split-q6_k-0000$i-of-00003.gguf; done
equal "the first part is the result" "$models/normal/demo/split-q6_k-00001-of-00003.gguf" "$(cat "$T/out")"
pull 0 "" hf:normal/demo:heads.bin
here normal/demo/heads.bin heads.bin
pull 1 "no file Q5_K_S; its models: demo-Q4_0.gguf, demo-Q5_1.gguf, odd-Q2_K.gguf, split-q6_k-00001-of-00003.gguf, tiny-Q8_0.gguf$" \
    hf:normal/demo:Q5_K_S
pull 1 "no file 4_0;" hf:normal/demo:4_0
cp "$T/hub/tiny-Q8_0.gguf" "$T/hub/tiny-Q4_K_M.gguf"
pull 0 "" hf:hiccup/demo
here hiccup/demo/tiny-Q4_K_M.gguf tiny-Q4_K_M.gguf
rm "$T/hub/tiny-Q4_K_M.gguf"
pull 1 "torch/demo has no GGUF file" hf:torch/demo
pull 1 "no file none.gguf" hf:normal/demo:none.gguf
pull 3 "odd-Q2_K.gguf: " hf:normal/demo:Q2_K
equal "a model that cannot be run is not kept" "" "$(find "$models" -name 'odd*')"
pull 4 "does not fit: it needs .* of memory, and 1.00 MiB may be used; .*--force" hf:moved/demo:Q4_0 --memory 1M
pull 4 "demo-Q5_1 needs .* for [0-9]+ units per head" hf:moved/demo:Q5_1 --memory 7M --budget 999999
pull 4 "; split-q6_k-00001-of-00003.gguf \(76.2 KiB\) would fit" hf:moved/demo:Q5_1 --memory 8M
mv "$T/hub/split-q6_k-00003-of-00003.gguf" "$T"
head -c 21000 /dev/zero >>"$T/hub/split-q6_k-00001-of-00003.gguf" # larger, but not whole
pull 4 "; tiny-Q8_0.gguf \([0-9.]+ KiB\) would fit" hf:moved/demo:Q5_1 --memory 8M
mv "$T/split-q6_k-00003-of-00003.gguf" "$T/hub"
cp build/golden/split/llama3-00001-of-00003.gguf "$T/hub/split-q6_k-00001-of-00003.gguf"
pull 0 "does not fit" hf:moved/demo:Q4_0 --memory 1M --force
here moved/demo/demo-Q4_0.gguf demo-Q4_0.gguf

# ---- wrong addresses: nobody is contacted
for address in hf: hf:demo hf:a/b/c hf:a/../b hf:a/b:../../c.gguf hf:a/b:/etc/x.gguf hf:-a/b hf:a..b/c hf:a/b--c hf:a/b.git 'hf:a/b:Q4 K' \
    'hf:a/b:x\y.gguf' models ftp://127.0.0.1/x.gguf https:// https://host/ http://host/..; do
    pull 2 "" "$address"
    equal "$address: nobody is contacted" "" "$(cat "$T/log")"
done
pull 2 "usage: retain pull"
pull 2 "a user's name or password is not taken" https://me:secret@host/x.gguf
pull 1 "only https addresses are taken" http://example.org/x.gguf

# ---- refusals
HF_TOKEN=''
pull 1 "is gated \(401\): accept its terms on 127.0.0.1 and set HF_TOKEN" hf:gated/demo
pull 1 "private/demo does not exist or is private \(401\)" hf:private/demo
export HF_TOKEN=hf_bad
pull 1 "is gated, and this token has no access \(403\)" hf:gated/demo
pull 1 "the token in HF_TOKEN was refused \(401\)" hf:private/demo
pull 1 "gone/demo does not exist on 127.0.0.1 \(404\): Repository not found" hf:gone/demo
pull 1 "too many requests now \(429\); try again in 7 s" hf:busy/demo
pull 1 "answers 500: oh.{1,3}\[31m no" hf:broken/demo
pull 1 "is not JSON" hf:junk/demo
pull 1 "names no commit of its branch main" hf:badcommit/demo
HF_TOKEN=hf_good
pull 0 "" hf:gated/demo:Q8_0
here gated/demo/tiny-Q8_0.gguf tiny-Q8_0.gguf
holds "the token goes to the hub" "$(cat "$T/log")" "^hub /gated.*token=Bearer hf_good"
equal "the token goes nowhere else" 0 "$(grep '^cdn' "$T/log" | grep -c 'hf_good')"
pull 1 "127.0.0.1 sends the download to localhost, .*--allow-host localhost" hf:elsewhere/demo:Q8_0
pull 1 "127.0.0.1 sends the download to localhost" hf:elsewhere/demo:Q8_0 --allow-host host
equal "the other host was not contacted" 0 "$(grep -c '^cdn' "$T/log")"
pull 0 "" hf:elsewhere/demo:Q8_0 --allow-host localhost
equal "and gets no token" 0 "$(grep '^cdn' "$T/log" | grep -c 'hf_good')"
pull 0 "" "http://127.0.0.1:$port/files/tiny-Q8_0.gguf"
equal "a plain address gets no token" 0 "$(tokens)"
# A page of the list may name a next one anywhere: the token stays with the hub's scheme, host and port.
for owner in otherhost otherport; do
    pull 0 "" hf:$owner/demo:Q4_0 --allow-host localhost
    holds "$owner: the next page was read" "$(cat "$T/log")" "^(hub.*cursor=2.*token= host=localhost|cdn.*cursor=2.*token= )"
    holds "$owner: the first page got the token" "$(cat "$T/log")" "^hub.*recursive=true.*hf_good"
done
pull 1 "127.0.0.1 leads to http://example.org:.*: only https" hf:insecure/demo:Q4_0 --allow-host example.org
pull 1 "127.0.0.1 sends the download to localhost" hf:otherhost/demo:Q4_0
equal "the other host was not contacted" 0 "$(grep -c 'localhost' "$T/log")"
HF_TOKEN=$(printf 'hf_good\r\nX-Other: 1') pull 0 "" hf:normal/demo:Q8_0
equal "a token that would add a header is not sent" 0 "$(tokens)"
cp "$T/hub/tiny-Q8_0.gguf" "$T/hub/a%b+c-Q3_K.gguf"
pull 1 "" hf:normal/demo:Q3_K
holds "a file's name is escaped" "$(cat "$T/log")" "a%25b%2Bc-Q3_K.gguf"
rm "$T/hub/a%b+c-Q3_K.gguf"
unset HF_TOKEN
pull 1 "redirects in a circle" hf:circle/demo:Q8_0
pull 1 "127.0.0.1 leads to http://example.org/model.gguf: only https" hf:away/demo:Q8_0
pull 1 "redirects to \"http://me@127.0.0.1:.*which is not an address" hf:named/demo:Q8_0
pull 1 "127.0.0.1 leads to file:///etc/passwd: only https" hf:local/demo:Q8_0
HF_ENDPOINT=http://127.0.0.1:1 pull 1 "127.0.0.1 cannot be reached" hf:normal/demo
HF_ENDPOINT=http://example.org pull 1 "only https" hf:normal/demo
http_proxy=http://127.0.0.1:1 no_proxy='' pull 1 "127.0.0.1" hf:normal/demo
pull 3 "the hub's answer is longer than 1 MiB" hf:endless/demo
pull 4 "m0.gguf \\(9 B\\) would fit" hf:many/demo:Q5_1 --memory 7M
forget

# ---- bytes
pull 1 "127.0.0.1 sends other bytes than were asked for" hf:shifted/demo:Q8_0
equal "no empty part is left" "" "$(find "$T/data" -name '*.part*')"
pull 1 "the server stopped after [0-9]+ of" hf:stuck/demo:Q8_0
equal "a range that is refused is no progress" 6 "$(grep -c '^cdn.*range=bytes=[01]' "$T/log")"
pull 0 "" "http://127.1:$port/files/tiny-Q8_0.gguf"
here 127.1/tiny-Q8_0.gguf tiny-Q8_0.gguf
pull 0 "" hf:cut/demo:Q4_0
here cut/demo/demo-Q4_0.gguf demo-Q4_0.gguf
holds "a cut download continues" "$(cat "$T/log")" "^cdn.*range=bytes=[1-9][0-9]+-"
pull 0 "" hf:whole/demo:Q4_0
here whole/demo/demo-Q4_0.gguf demo-Q4_0.gguf
pull 1 "sends more than the" hf:more/demo:Q4_0
pull 1 "sends [0-9]+ bytes, and [0-9]+ were announced" hf:longer/demo:Q4_0
pull 1 "sends [0-9]+ bytes, and [0-9]+ were announced" hf:shorter/demo:Q4_0
pull 3 "SHA-256 is [0-9a-f]{64}, and 00000000[0-9a-f]{56} was announced" hf:badhash/demo:Q4_0
equal "wrong bytes are not kept" "" "$(find "$models" -name '*Q4_0*' -path '*badhash*')"
pull 1 "no file Q4_K_M; its models: demo" hf:badpath/demo:Q4_K_M
equal "a path outside the folder is left out" "" "$(find "$T" -name 'evil*')"
pull 1 "needs 909 TiB more, and its disk has" hf:huge/demo:Q4_0
(ulimit -f 1500; "$RETAIN" pull hf:full/demo:Q4_0 >"$T/out" 2>"$T/err")
equal "a full disk: exit status" 1 $?
holds "a full disk: what it says" "$(cat "$T/err")" "the disk is full after [0-9]+ of [0-9]+ bytes"
pull 0 "" hf:full/demo:Q4_0
here full/demo/demo-Q4_0.gguf demo-Q4_0.gguf
holds "after a full disk it continues" "$(cat "$T/log")" "^cdn.*range=bytes=[1-9][0-9]+-"

# ---- stopped, and two at once
size=$(wc -c <"$T/hub/demo-Q4_0.gguf" | tr -d ' ')
part=$models/slow/demo/demo-Q4_0.gguf.part
has_half() { find "$1" -size +1200k | grep .; }
"$RETAIN" pull hf:slow/demo:Q4_0 >"$T/out1" 2>"$T/err1" &
first=$!
wait_for has_half "$part" || no "the first half does not come"
pull 1 "is being downloaded by another retain" hf:slow/demo:Q4_0
kill -INT $first
wait $first
equal "stopped: exit status" 130 $?
holds "stopped: what it says" "$(cat "$T/err1")" "stopped after .*; the same command continues there"
at=$(wc -c <"$part" | tr -d ' ')
pull 4 "does not fit" hf:slow/demo:Q4_0 --memory 1M
equal "a large part stays when the model does not fit" "$at" "$(wc -c <"$part" | tr -d ' ')"
mkdir -p "$models/normal/demo"
mv "$part" "$models/normal/demo/demo-Q4_0.gguf.part"
mv "$part.pull" "$models/normal/demo/demo-Q4_0.gguf.part.pull"
pull 0 "" hf:normal/demo:Q4_0
here normal/demo/demo-Q4_0.gguf demo-Q4_0.gguf
holds "it continues where it was stopped" "$(cat "$T/log")" "^cdn.*range=bytes=$at-"
forget

# A part of another version is not continued: by its hash, and at a plain address by its ETag. An older
# file stays until --force.
left() { # left ADDRESS FOLDER: a part of the old version, of an interrupted download
    "$RETAIN" pull "$1" >"$T/out1" 2>&1 &
    first=$!
    wait_for has_half "$models/$2" || no "$1: no part"
    kill -KILL $first
    wait $first 2>/dev/null
}
plain=http://127.0.0.1:$port
left hf:slow/demo:Q4_0 slow/demo
mv "$models/slow" "$models/normal"
left "$plain/slow/demo-Q4_0.gguf" 127.0.0.1
cp -r "$models" "$T/models"
pull 0 "" "$plain/files/demo-Q4_0.gguf"
here 127.0.0.1/demo-Q4_0.gguf demo-Q4_0.gguf
holds "another address: from its beginning" "$(grep -m 1 /files/demo "$T/log")" "range=(bytes=0-[0-9]*)? "
rm -r "$models"
mv "$T/models" "$models"
sed -i 's|/slow/|/files/|' "$models/127.0.0.1/demo-Q4_0.gguf.part.pull"
cp -r "$models" "$T/models"
pull 0 "" "$plain/files/demo-Q4_0.gguf"
here 127.0.0.1/demo-Q4_0.gguf demo-Q4_0.gguf
holds "the same ETag: continued" "$(cat "$T/log")" "range=bytes=[1-9]"
rm -r "$models"
mv "$T/models" "$models"
cp "$T/hub/demo-Q5_1.gguf" "$T/q8.gguf"
cp "$T/q8.gguf" "$T/hub/demo-Q4_0.gguf"
pull 0 "" "$plain/files/demo-Q4_0.gguf"
cmp -s "$models/127.0.0.1/demo-Q4_0.gguf" "$T/q8.gguf" || no "another ETag: parts of two versions"
pull 0 "" hf:normal/demo:Q4_0
here normal/demo/demo-Q4_0.gguf demo-Q4_0.gguf
cp "$models/normal/demo/demo-Q4_0.gguf" "$T/longer"
printf x >>"$models/normal/demo/demo-Q4_0.gguf"
pull 1 "is another version of the file; --force" hf:normal/demo:Q4_0
mv "$T/longer" "$models/normal/demo/demo-Q4_0.gguf"
cp quant/demo/retain-demo.gguf "$T/hub/demo-Q4_0.gguf"
pull 1 "is another version of the file; --force" hf:normal/demo:Q4_0
cmp -s "$models/normal/demo/demo-Q4_0.gguf" "$T/q8.gguf" || no "the old version does not stay"
pull 0 "" hf:normal/demo:Q4_0 --force
here normal/demo/demo-Q4_0.gguf demo-Q4_0.gguf
pull 0 "" "http://127.0.0.1:$port/files/split-q6_k-00001-of-00003.gguf"
here 127.0.0.1/split-q6_k-00003-of-00003.gguf split-q6_k-00003-of-00003.gguf
pull 0 "" "http://127.0.0.1:$port/noetag/heads.bin"
pull 1 "" "http://127.0.0.1:$port/files/none.gguf"
forget

# ---- -m hf:… pulls once, then needs nobody
check "-m pulls" "$RETAIN" plan -m hf:normal/demo:Q4_0
here normal/demo/demo-Q4_0.gguf demo-Q4_0.gguf
kill $hub
: >"$T/log"
check "-m uses what is there" "$RETAIN" plan -m hf:normal/demo
holds "it can be the default" "$("$RETAIN" models default hf:normal/demo:Q4_0 2>&1; "$RETAIN" models default)" \
    "$models/normal/demo/demo-Q4_0.gguf"
refused "-m of what is not there, without a network" 1 '' "$RETAIN" plan -m hf:normal/demo:Q8_0
hub=$$
trap 'rm -rf "$T"' EXIT
finish
