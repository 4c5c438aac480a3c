#!/bin/sh
# heads: trained from rows of text, the same for the same seed, after an interruption too; imported
# from safetensors; calibrated; refused for another model.
. "$(dirname "$0")/lib.sh"

row() {
    printf '{"document": ["My %s is called %s.", "Noted.", "Tell me about foxes.", "Foxes are red.", ' "$1" "$2"
    printf '"What is two plus two?", "Two plus two is four."], '
    printf '"question": ["What is my %s called?"], "answer": ["Your %s is called %s."]}\n' "$1" "$1" "$2"
}
for name in Milo Luna Rex Coco Kiki Oreo; do
    row cat $name
    row dog $name
done >"$T/rows"
rows=$T/rows
train() { "$RETAIN" heads train --data "$rows" --length 128 --hidden 16 --rate .01 "$@"; }

# Heads are compared in rows that are held back: of these two rows one is too short, and training succeeds
# only with the other one.
{ row cat Milo; printf '{"document": ["a", "b"], "question": ["c"], "answer": ["d"]}\n'; } >"$T/two"
for seed in 1 2 3 4 5 6 7 8 9; do
    "$RETAIN" heads train --data "$T/two" --length 128 --hidden 4 --steps 1 --seed $seed --out "$T/two$seed.gguf" \
        >"$T/out" 2>&1 && break
done
holds "the comparison is not of rows that are trained on" "$(cat "$T/out")" 'no row held back is long enough'

check "train" train --steps 6 --out "$T/a.gguf" --threads 1
check "train again" train --steps 6 --out "$T/b.gguf" --threads 2
check "the same seed, the same file" cmp "$T/a.gguf" "$T/b.gguf"
check "another seed" train --steps 6 --out "$T/c.gguf" --seed 2
set -- $(sed -n 's/.*kept: \([0-9.]*\) nats.*heads, \([0-9.]*\) with.*; the \([a-z]*\) heads.*/\1 \2 \3/p' "$T/out")
check "of two heads the better are written, better than a guess among 2,048 tokens: $*" \
    awk "BEGIN { exit !($1 < 7.6 && ($2 < $1) == (\"$3\" == \"trained\")) }"
if cmp -s "$T/a.gguf" "$T/c.gguf"; then no "the seed does not matter"; else ok; fi
holds "info: a file is no argument" "$("$RETAIN" heads info "$T/a.gguf" 2>&1)" 'info takes no .*--heads FILE'
holds "comparable scores" "$("$RETAIN" heads info --heads "$T/a.gguf")" 'policy keeper'
# A training that does not beat the heads it began with writes these, and says so.
train --steps 1 --rate .000000001 --out "$T/kept.gguf" >"$T/out" 2>&1
holds "not better" "$(cat "$T/out")" 'the fitted heads are written'
"$RETAIN" heads fit --steps 1 --out "$T/fit1.gguf" --threads 1 >"$T/out" || no "heads fit fails"
check "the fitted heads, of no more rows, are the file" cmp "$T/kept.gguf" "$T/fit1.gguf"

# Heads in closed form: the same file whatever the threads; other files of the model take them.
"$RETAIN" heads fit --steps 1 --out "$T/fit2.gguf" --threads 2 >"$T/out"
check "fit: the same text, the same file" cmp "$T/fit1.gguf" "$T/fit2.gguf"
"$RETAIN" heads fit --out "$T/fit.gguf" >"$T/out" || no "heads fit fails"
right=$("$RETAIN" eval recall --heads "$T/fit.gguf" --policy keeper --length 1000 --budget 62 --seeds 2 --json |
    sed 's/.*"right_count":\([0-9]*\).*/\1/')
check "fit: most facts stay, of which random heads keep none" test "$right" -ge 10
model=build/golden/families/gemma3.gguf
"$RETAIN" heads fit -m $model >"$T/out" 2>&1 || no "heads fit for a model with windows fails"
holds "fit: plans use the heads" "$("$RETAIN" plan -m $model)" 'policy keeper'
holds "fit: --heads none declines" "$("$RETAIN" plan -m $model --heads none)" 'policy keydiff'
check "another quantization" "$RETAIN" quantize $model "$T/q8.gguf" --type q8
holds "takes them" "$("$RETAIN" heads info -m "$T/q8.gguf")" 'policy keeper'
holds "another model does not" "$("$RETAIN" heads info -m build/golden/families/gemma2.gguf 2>&1)" 'has no heads'
refused "fit: the file is there" 2 '' "$RETAIN" heads fit -m $model
check "fit: --force and a text" "$RETAIN" heads fit -m $model --force --text docs/heads.md --length 400 --steps 2

# A training that is killed continues from its checkpoint, which is there before the first step; the
# settings must be equal. tests/unit/test_heads_train.c stops between steps.
many="--steps 1000 --seed 3"
train $many --out "$T/parts.gguf" >"$T/first" 2>&1 &
pid=$!
wait_for test -s "$T/parts.gguf.part"
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
refused "other settings" 2 '' train --steps 1000 --seed 4 --out "$T/parts.gguf"
rm "$T/parts.gguf.part"

refused "OUT is there" 2 '' train --steps 2 --out "$T/a.gguf"
refused "no data" 2 '' "$RETAIN" heads train --out "$T/x.gguf"
{ head -n 2 "$T/rows"; echo '{"document": 1}'; } >"$T/bad-row"
refused "a bad row" 3 'row 3' "$RETAIN" heads train --data "$T/bad-row" --length 128 --hidden 4 --batch 1 --steps 8 --out "$T/x.gguf"

# Plain text, for models with and without a chat format: the same command twice, the same file.
mkdir "$T/texts"
head -n 40 README.md >"$T/texts/b.txt"
head -n 40 docs/policies.md >"$T/texts/a.txt"
text() { "$RETAIN" heads train --length 256 --hidden 16 --steps 1 --rate .01 "$@"; }
check "text" text --text "$T"/texts/* --out "$T/text.gguf" --threads 1
check "text, files" text --text "$T/texts/a.txt" "$T/texts/b.txt" --out "$T/files.gguf" --threads 2
check "text: the same file" cmp "$T/text.gguf" "$T/files.gguf"
holds "text: comparable scores" "$("$RETAIN" heads info --heads "$T/text.gguf")" 'policy keeper'
refused "text and data" 2 '' text --text "$T"/texts/* --data "$T/rows" --out "$T/x.gguf"
refused "a program is no text" 3 '' text --text "$RETAIN" --out "$T/x.gguf"
if [ -d "$DATA/models" ]; then
    model=stories260K-f32.gguf
    check "text, $model" text -m "$DATA/models/$model" --text "$T"/texts/* --out "$T/$model"
    check "text, $model, again" text -m "$DATA/models/$model" --text "$T"/texts/* --out "$T/$model.again"
    check "text, $model: the same file" cmp "$T/$model" "$T/$model.again"
    refused "rows of 64 characters" 3 'no row of at most 64 tokens .* larger --length' \
        text -m "$DATA/models/babyllama-tok105-f32.gguf" --text "$T"/texts/* --length 64 --out "$T/short.gguf"
else
    skip "no public models in $DATA"
fi

# Memory is planned before weights are read.
refused "too little memory" 4 '' text --text "$T"/texts/* --memory 1M --out "$T/x.gguf"
refused "too wide heads" 4 'smaller --length or --hidden' text --text "$T"/texts/* --memory 40M --hidden 60000 --out "$T/x.gguf"

# Import: the demo model's shapes.
check "import" "$RETAIN" heads import tests/golden/heads.safetensors --out "$T/imported.gguf"
holds "imported" "$("$RETAIN" heads info --heads "$T/imported.gguf")" '512 -> 2 -> 2'
check "imported heads run" "$RETAIN" generate -p Hello -n 4 --policy locret --heads "$T/imported.gguf"
refused "keeper with heads that do not compare" 2 '' "$RETAIN" generate -p Hello --policy keeper --heads "$T/imported.gguf"
check "import and calibrate" "$RETAIN" heads import tests/golden/heads.safetensors --text README.md --length 256 --steps 2 \
    --out "$T/both-steps.gguf"
holds "imported and calibrated" "$("$RETAIN" heads info --heads "$T/both-steps.gguf")" 'policy keeper'
refused "import of another file" 3 '' "$RETAIN" heads import README.md --out "$T/x.gguf"
printf 'PK\003\004' >"$T/locret.bin"
refused "a file of torch.save" 3 'to_safetensors\.py .*locret\.bin heads\.safetensors' \
    "$RETAIN" heads import "$T/locret.bin" --out "$T/x.gguf"

# Heads that others released, in the shapes of a tiny Qwen3.
tiny=build/golden/families/qwen3.gguf
released() { "$RETAIN" heads import "$1" -m "$2" --out "$T/released.gguf" --force; }
for file in locret kvzap-mlp kvzap-linear fast-kvzip; do
    check "import $file" released tests/golden/released/$file.safetensors $tiny
    check "$file runs" "$RETAIN" generate -m $tiny -p Hello -n 4 --raw --heads "$T/released.gguf"
    refused "$file for another model" 3 'gemma3' released tests/golden/released/$file.safetensors build/golden/families/gemma3.gguf
done
holds "whose heads they are" "$("$RETAIN" heads info -m $tiny --heads "$T/released.gguf")" \
    'author +Fast KVzip'
check "calibrate a gate" "$RETAIN" heads calibrate -m $tiny --heads "$T/released.gguf" --length 512 \
    --text README.md --steps 4 --out "$T/gate.gguf"
holds "calibrated, the author stays" "$("$RETAIN" heads info -m $tiny --heads "$T/gate.gguf")" 'Fast KVzip'
python=/usr/bin/python3
if [ -x $python ] && $python -c 'import torch, safetensors' 2>/dev/null; then
    mkdir "$T/bad"
    $python tests/golden/make_released.py "$T/bad"
    for file in short long base turned; do
        refused "import $file" 3 '' released "$T/bad/$file.safetensors" $tiny
    done
else
    skip "PyTorch and safetensors, to write files with"
fi

# Calibration: the shipped heads without their statistics get others, with which keeper recalls as much,
# or one answer of 24 less.
shipped=quant/demo/retain-demo-heads.gguf
LC_ALL=C sed 's/retain\.heads\.label/retain.heads.lost_/g' $shipped >"$T/bare.gguf"
holds "bare heads" "$("$RETAIN" heads info --heads "$T/bare.gguf")" 'policy locret'
first() { echo /stats | "$RETAIN" chat --plain --private --heads "$T/bare.gguf" "$@" 2>&1; }
holds "locret needs no scale" "$(first --policy locret)" 'policy locret'
holds "and is what they run with" "$(first)" 'policy locret'
calibrate() { "$RETAIN" heads calibrate --heads "$T/bare.gguf" --length 512 --steps 8 "$@"; }
check "calibrate" calibrate --text README.md docs/heads.md --out "$T/calibrated.gguf" --threads 1
check "calibrate again" calibrate --text README.md docs/heads.md --out "$T/again.gguf" --threads 2
check "calibrated twice, the same file" cmp "$T/calibrated.gguf" "$T/again.gguf"
holds "calibrated" "$("$RETAIN" heads info --heads "$T/calibrated.gguf")" 'policy keeper'
right() { # HEADS: right answers in percent at 8x and 16x, one line each
    "$RETAIN" eval recall --policy keeper --length 1000 --compression 8,16 --seeds 3 --json --heads "$1" |
        sed 's/.*"accuracy":\([0-9.]*\),.*/\1/' | awk '{ print int($1 * 100 + .5) }'
}
right $shipped >"$T/shipped"
right "$T/calibrated.gguf" >"$T/calibrated"
equal "recall with both" 2 "$(paste "$T/shipped" "$T/calibrated" | awk '$1 > 90 && $2 >= $1 - 5' | wc -l)"
refused "calibrate: OUT is there" 2 '' calibrate --text README.md --out "$T/calibrated.gguf"
refused "calibrate without text" 2 '' calibrate --out "$T/x.gguf"
refused "calibrate without heads" 2 '' "$RETAIN" heads calibrate --heads none --text README.md --out "$T/x.gguf"

# Heads of another model.
check "another model" "$RETAIN" quantize quant/demo/retain-demo.gguf "$T/other.gguf" --type q8
refused "foreign heads" 3 'trained for another model' \
    "$RETAIN" generate -m "$T/other.gguf" --heads quant/demo/retain-demo-heads.gguf -p Hello

# --verify off: the model is not read, so the heads' base is not compared; new heads are still bound
# to their model.
check "unread model: import" "$RETAIN" heads import tests/golden/heads.safetensors -m "$T/other.gguf" \
    --verify off --out "$T/unread.gguf"
check "unread model: the heads are its own" "$RETAIN" generate -m "$T/other.gguf" \
    --heads "$T/unread.gguf" -p Hello -n 1
check "unread model: trained" train --steps 2 -m "$T/other.gguf" --verify off --force \
    --out "$T/unread.gguf"
check "unread model: trained for it" "$RETAIN" heads info -m "$T/other.gguf" --heads "$T/unread.gguf"
check "unread model: heads are believed" "$RETAIN" generate -m "$T/other.gguf" \
    --heads "$T/a.gguf" -p Hello -n 1 --verify off
finish
