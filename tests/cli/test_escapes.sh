#!/bin/sh
# A hostile file name, argument, key, conversation or model cannot send an escape sequence to a
# terminal, for any command. Each row runs on a new terminal (util-linux's script) and must
# show the hostile text, but not act on it.
. "$(dirname "$0")/lib.sh"

script -qec true /dev/null </dev/null >/dev/null 2>&1 || {
    skip "no pseudo-terminal, or script (util-linux) is missing"
    finish
}
LC_ALL=C.UTF-8 TERM=xterm
# sets the title; a colour by the one-character CSI, as UTF-8 and as a bare byte
X=$(printf '\033]2;PWN\007\302\23331mPWN\23331mPWN')
D=$T/$X # a folder with such a name
mkdir "$D"
M=$D/demo.gguf # a good model in it
cp quant/demo/retain-demo.gguf "$M"
LC_ALL=C sed "s/retain demo/$(printf '\033]2;PWN\007xxx')/" quant/demo/retain-demo.gguf >"$T/$X.gguf"
N=$T/$X.gguf # its name is hostile, and its title
echo 'no model' >"$D/bad.gguf"
export LC_ALL TERM X D M N T RETAIN

# row COMMAND…: a line of shell, run with a terminal as its stdin, stdout and stderr.
row() {
    SHELL=/bin/sh timeout 300 script -qec "$1" /dev/null </dev/null >"$T/out" 2>&1
    if ! grep -aq PWN "$T/out"; then
        no "$1: the hostile text is not shown"
        head -n 5 "$T/out"
    elif LC_ALL=C grep -aqP '\x1b\]2;PWN|\x9b31mPWN' "$T/out"; then
        no "$1: the terminal would obey"
    else
        ok
    fi
}

rows() {
    while IFS= read -r line; do
        [ -n "$line" ] && row "$line" 3<&-
    done
}

# A conversation with hostile words; its name is hostile where names may be.
printf 'hello %s\n' "$X" | "$RETAIN" chat --plain --new -n 4 >/dev/null 2>&1
printf '{"format":"retain","version":1}' >"$D/import.json"

rows <<'ROWS'
$RETAIN "$X"
$RETAIN help "$X"
$RETAIN "--$X"
$RETAIN chat "$X"
$RETAIN plan --policy "$X"
$RETAIN plan --kv "$X"
$RETAIN plan --budget "$X"
$RETAIN plan --device "$X"
$RETAIN generate --isa "$X" -p hi
$RETAIN generate --memory "$X" -p hi
$RETAIN chat --plain -m "$D/bad.gguf"
$RETAIN chat --plain -m "$D/missing.gguf"
$RETAIN chat --record "$D/no/file"
$RETAIN chat --plain --db "$D/no/file.db"; echo PWN
$RETAIN chat --plain --passphrase-file "$D/missing" --encrypt --db "$T/new.db"
echo "$X" | $RETAIN chat --plain --private -n 1; echo PWN
printf '/open %s\n/tag %s\n/set %s\n/%s\n/find %s\n/system %s\n/system\n/file ./%s\n@./%s\n' "$X" "$X" "$X" "$X" "$X" "$X" "$X" "$X" | $RETAIN chat --plain
echo /stats | $RETAIN chat --plain --private -m "$N"
echo /tint | $RETAIN chat --plain --continue
echo /list | $RETAIN chat --plain --continue
echo /find PWN | $RETAIN chat --plain --continue
$RETAIN generate -m "$D/bad.gguf" -p hi
$RETAIN generate -f "$D/missing"
$RETAIN generate --heads "$D/bad.gguf" -p hi
$RETAIN generate --json -n 1 -p hi -m "$N"
$RETAIN list
$RETAIN list --json
$RETAIN list --db "$D/no/file.db"; echo PWN
$RETAIN list "$X"
$RETAIN show chat-1
$RETAIN show chat-1 --json
$RETAIN show "$X"
$RETAIN rename chat-1 "$X"; echo PWN
$RETAIN rename "$X" other
$RETAIN tag chat-1 "$X"
$RETAIN tag "$X" tag
$RETAIN delete "$X"
$RETAIN restore "$X"
$RETAIN search PWN
$RETAIN search PWN --json
$RETAIN search hello --db "$D/bad.gguf"
$RETAIN export chat-1
$RETAIN export "$X"
$RETAIN export chat-1 --with-cache "/dev/null/$X"
$RETAIN import "$D/import.json"
$RETAIN import "$D/missing"
$RETAIN check --db "$D/bad.gguf"
$RETAIN compact --db "$D/bad.gguf"
$RETAIN replay "$D/missing"
$RETAIN replay "$D/bad.gguf"
$RETAIN models "$X"; echo PWN
$RETAIN models add "$M"
$RETAIN models list; echo PWN
$RETAIN models list --json
$RETAIN models verify
$RETAIN models verify "$D/bad.gguf"
$RETAIN models default "$D/missing.gguf"
$RETAIN models default "$M" && $RETAIN models default; $RETAIN models default demo
$RETAIN models unpack "$M"; echo PWN
$RETAIN pull "hf:a/$X"
$RETAIN pull "https://$X/x.gguf"
HF_ENDPOINT="https://$X" $RETAIN pull hf:a/b
$RETAIN plan -m "$D/bad.gguf"
$RETAIN plan -m "$N"
$RETAIN plan -m "$N" --json
$RETAIN info -m "$D/bad.gguf"
$RETAIN info -m "$N"
$RETAIN verify -m "$D/bad.gguf"
$RETAIN verify -m "$M"
$RETAIN tokenize -p "$X"; echo PWN
$RETAIN tokenize -f "$D/missing"
$RETAIN perplexity -f "$D/missing"
$RETAIN perplexity -m "$D/bad.gguf" -p hi
$RETAIN eval "$X"
$RETAIN eval passkey -m "$D/bad.gguf"
$RETAIN eval passkey --length "$X"
$RETAIN eval "$D/$X.jsonl"
$RETAIN eval passkey --results "$D/$X/r"
$RETAIN quantize "$D/bad.gguf" "$T/out.gguf"
$RETAIN quantize "$M" "$D/no/out.gguf" --type q8
$RETAIN heads "$X"; echo PWN
$RETAIN heads info --heads "$D/bad.gguf"
$RETAIN heads import "$D/missing" --out "$T/heads.gguf"
$RETAIN heads train --data "$D/missing" --out "$T/heads.gguf"
$RETAIN bench -m "$D/bad.gguf"
$RETAIN bench --depth "$X"
$RETAIN manual >/dev/null; echo PWN
$RETAIN complete show ""; echo PWN
XDG_DATA_HOME=/dev/null/"$X" $RETAIN list
XDG_CONFIG_HOME="$D" $RETAIN info
ROWS

mkdir -p "$T/config/retain"
for text in "$X = 1" "budget = $X" "model = \"$D/bad.gguf\"" "[$X]"; do
    printf '%s\n' "$text" >"$T/config/retain/config"
    row '$RETAIN plan'
done
printf 'model = "%s"\n' "$D/bad.gguf" >"$T/config/retain/config"
row '$RETAIN --print-config'
finish
