#!/bin/sh
# Writes the files of a release with that release's program, for tests/cli/test_release.sh and
# test_weight_cache: tests/golden/make_release.sh PROGRAM FOLDER. Written once, by 0.1.0, into v0.1.0/.
# --isa ref: the same answers on every processor.
set -eu
program=$(realpath "$1")
out=$(realpath "$2")
model=$PWD/build/golden/families/qwen3.gguf
T=/tmp/retain-release # the weight copy records the model's path
rm -rf "$T"
mkdir "$T"
cd "$T"
export XDG_DATA_HOME=$T/data XDG_STATE_HOME=$T/state XDG_CONFIG_HOME=$T/config XDG_CACHE_HOME=$T/cache

"$program" quantize "$model" model.gguf --type q4
for name in Milo Luna Rex Coco Kiki Oreo; do
    printf '{"document": ["My cat is %s.", "Noted."], "question": ["Its name?"], "answer": ["%s."]}\n' $name $name
done >rows
"$program" heads train -m model.gguf --data rows --length 160 --hidden 4 --steps 20 --out heads.gguf --threads 1

# say NAME LINE…: continues a conversation and prints its answers.
say() {
    name=$1
    shift
    # shellcheck disable=SC2086
    printf '%s\n' "$@" | "$program" chat --plain -m model.gguf --heads heads.gguf -c "$name" --isa ref \
        --temp 0 --seed 1 -n 24 $options
}
scored='--policy locret --budget 48'
watched='--policy h2o --budget 40 --kv q8:q4'
options="--db retain.db $scored"
say garden 'My dog is called Biscuit.' 'The roses are red and the gate is green.' '/branch 1 fork' \
    'The key is under the third stone.' 'Where is the key?' '/edit 4' 'What colour is the gate?'
"$program" tag garden roses home --db retain.db
options="--db retain.db $watched"
say watched 'My boat is called Wanda.' 'It is moored at the old pier.' 'What is it called?'
"$program" export garden --db retain.db >garden.json
"$program" export garden --db retain.db --markdown >garden.md
"$program" export fork --db retain.db --with-cache fork.db
echo 'correct horse' >passphrase
options="--db sealed.db --encrypt --passphrase-file passphrase $scored"
say secret 'The number is 48213.' 'Is it secret?'
cp -r model.gguf heads.gguf passphrase retain.db sealed.db fork.db garden.json garden.md \
    cache/retain/packed/*.packed "$out"

# Further messages, to copies.
options="--db retain.db $scored"
for name in garden fork; do say $name 'Tell me more.' >"$out/$name.next"; done
options="--db retain.db $watched"
say watched 'Tell me more.' >"$out/watched.next"
options="--db sealed.db --passphrase-file passphrase $scored"
say secret 'Tell me more.' >"$out/secret.next"
