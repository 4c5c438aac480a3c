#!/bin/sh
# The examples of README, docs/ and the manual page: every command in a block or in `…` is run, with the
# demo model in place of others; every file and folder named, and every link, exists. `unsuitable` lists
# the commands that no test runs, with the reason.
. "$(dirname "$0")/lib.sh"
unset MAKEFLAGS MAKELEVEL MFLAGS
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here" || exit 1

# ---- replacements
mkdir -p "$T/bin" "$T/work"
: >"$T/missing"
ln -s "$RETAIN" "$T/bin/retain"
PATH=$T/bin:$PATH
export PATH
(
    cd "$T/work" || exit 1
    cp "$here/quant/demo/retain-demo.gguf" model.gguf
    cp model.gguf small.gguf
    cp "$here/tests/golden/heads.safetensors" locret.safetensors
    for heads in heads imported calibrated; do cp "$here/quant/demo/retain-demo-heads.gguf" $heads.gguf; done
    for name in Milo Luna Rex Coco Kiki Oreo; do
        printf '{"document": "My cat is called %s.", "question": "And?", "answer": "%s."}\n' $name $name
    done >qa.jsonl
    echo 'My locker code is 48213.' >said
    mkdir -p quant/eval && cp -r "$here/quant/eval/talk" "$here/quant/eval/paired.py" quant/eval
    for name in novel time-machine alice; do cp "$here/README.md" $name.txt; done
    for name in Milo Luna; do
        printf 'My cat is called %s.\nI live in Rome.\nWhat is my cat called?\n' $name |
            retain chat --plain -c "$name" -n 12 --db talks.db >/dev/null 2>&1
    done
    printf '{"version": 2, "width": 20, "height": 4}\n[0.1, "o", "hello"]\n' >talk.cast
    echo '{"context": "The boat is red.", "question": "What is red?", "answers": ["boat"]}' >questions.jsonl
)
stand_in() {
    sed -e 's,build/retain,retain,g' -e 's,folder/ ,model.gguf ,' -e 's,[^ ]*8B-Q4_0.gguf,model.gguf,' \
        -e 's,-m MODEL,-m model.gguf,' -e 's,-m FILE,-m model.gguf,' -e 's, TASK, niah,' -e 's,--out H$,--out heads.gguf,' \
        -e 's,--heads HEADS,--heads heads.gguf,' -e 's,--out HEADS,--out heads.gguf,' -e 's, -f TEXT, -f novel.txt,' -e 's, NOVEL, novel.txt,' \
        -e 's,replay FILE,replay talk.cast,' -e 's,--svg OUT,--svg talk.svg,' \
        -e 's,COMMAND,list,' -e 's,--policy NAME,--policy sink,' -e 's,CROSS=…,CROSS=aarch64,'
}
# Adds missing arguments and shortens measuring and training (the last of two values counts).
completed() {
    case $1 in
    'retain quantize --type '*) echo "$1 model.gguf type.gguf --force" ;;
    'retain perplexity '*' -f '*) echo "$1 --length 8" | sed 's/ novel.txt/ said/' ;;
    'retain perplexity '*) echo "$1 -f said --length 8" ;;
    'retain bench'*) echo "$1 --prefill 8 --decode 2 --repeat 1 --depth 16" ;;
    'retain eval '*' | '*) echo "$1" | sed 's/ |/ --length 300 --seeds 1 |/' ;;
    'retain eval '*) echo "$1 --length 300 --seeds 1" ;;
    'retain heads train') echo "$1 --data qa.jsonl --out heads.gguf --steps 1 --length 64 --force" ;;
    'retain heads train'*) echo "$1 --out heads.gguf --steps 1 --batch 1 --length 64 --force" ;;
    'retain heads fit'*) echo "$1 --steps 1 --force" ;;
    'retain heads '*' --text '*) echo "$1 --steps 1 --length 64 --force" ;;
    'retain heads import'* | 'retain heads calibrate'*) echo "$1 --force" ;;
    *) echo "$1" ;;
    esac
}

# ---- the examples: FILE, tab, command
# Blocks are fenced or indented by four; a block with "$ " has commands there, output elsewhere; one
# marked ```text has none.
examples() {
    awk -v file="$1" '
        function emit(c, n, i, part) {
            sub(/ +#.*$/, "", c)
            n = c ~ /'"'"'/ ? 0 : split(c, part, " +&& +")
            for (i = 1; i <= n; i++) emit_one(part[i])
            if (!n) emit_one(c)
        }
        function emit_one(c) {
            gsub(/^ +| +$/, "", c)
            if (c != "") print file "\t" c
        }
        function block(line) {
            if (line ~ /^\$ /) dollars = 1
            if (dollars && line !~ /^\$ /) return
            sub(/^\$ /, "", line)
            if (line ~ /\\$/) { sub(/ *\\$/, " ", line); held = held line; return }
            emit(held line)
            held = ""
        }
        /^```/ { inside = !inside; drawing = /^```text/; dollars = 0; next }
        inside { if (!drawing) block($0); next }
        /^    / && (blank || indented) { sub(/^    /, ""); indented = 1; block($0); next }
        { blank = $0 == ""; indented = 0; text = text $0 "\n" }
        END {
            n = split(text, part, "`")
            for (i = 2; i <= n; i += 2) {
                gsub(/\n/, " ", part[i])
                if (part[i] ~ /^(build\/|)retain( |$)|^make( |$)/) emit(part[i])
            }
        }' "$1"
}
page_examples() {
    "$RETAIN" manual | sed -n '/^\.SH EXAMPLES/,/^\.fi/{s/\\-/-/g;s/ *#.*//;s/^retain/retain.1\tretain/p;}'
}

# ---- commands that no test runs, and commands that need a device or file that may be missing
unsuitable() {
    case $1 in
    *'apt install '* | apt-get\ * | dpkg\ *) echo 'installs packages: .ci/run does that' ;;
    'retain pull '* | *' hf:'* | *' -m qwen3-8b'*) echo 'contacts the hub; tests/cli/test_pull.sh has one' ;;
    scp\ * | ssh\ *) echo 'needs a board' ;;
    docs/*.sh* | quant/demo/recipe.sh*) echo 'takes hours' ;;
    docs/plot.py*) echo 'draws the pictures of docs/ again' ;;
    *llama-bench*) echo 'needs llama.cpp' ;;
    *' -m smol'* | *' smol') echo 'needs the model of the page' ;;
    *gpu/run.sh* | *gpu/again.sh* | *gpu.tar.gz*) echo 'needs a card; tests/gpu/test_run.sh tries them' ;;
    esac
}
missing() {
    case $1 in
    *--device\ cuda*) echo 'a GPU: tests/gpu/run.sh' ;;
    *python3*) command -v python3 >/dev/null || echo 'Python' ;;
    make\ CROSS=*) [ -e /usr/lib/aarch64-linux-gnu/pkgconfig/cmocka.pc ] || echo 'libraries for 64-bit ARM' ;;
    esac
}

run_one() { # FILE COMMAND COMMAND-WITH-STAND-INS
    why=$(unsuitable "$2")
    if [ "$why" ]; then
        echo "not run: $1: $2: $why"
        return
    fi
    why=$(missing "$2")
    if [ "$why" ]; then
        grep -qxF "$why" "$T/missing" || { echo "$why" >>"$T/missing"; skip "examples that need $why"; }
        return
    fi
    command=$3
    case $command in
    make\ *SAN=* | make\ *CUDA=* | make\ *CROSS=* | make\ *T=*) make -n ${command#make} >"$T/out" 2>&1 || { no "$1: $2"; tail -n 3 "$T/out"; return; } ;;
    make | make\ *) goals="$goals ${command#make}" ;; # all in one, below
    *)
        if grep -qxe "${command#retain }" "$T/bare"; then command="$command --help"; else command=$(completed "$command"); fi
        (cd "$T/work" && sh -c "$command" <said >"$T/out" 2>&1) || { no "$1: $2"; tail -n 3 "$T/out"; return; }
        ;;
    esac
    ok
}

# Commands that need arguments: without them the text only mentions them.
for c in $("$RETAIN" complete "" | cut -f 1); do
    "$RETAIN" "$c" --help | grep -q "^usage: retain $c \[OPTION...\] [^ ]" && echo "$c"
    case $c in generate | tokenize | perplexity | bench) echo "$c" ;; esac
done >"$T/bare"

(cd "$T/work" && retain chat --plain --new <said >/dev/null 2>&1)
pages="README.md CONTRIBUTING.md quant/demo/README.md cross/boards.md $(echo docs/*.md quant/eval/notes/*.md)"
for page in $pages; do examples "$page"; done >"$T/examples"
page_examples >>"$T/examples"
sort -u -k 2 -t "$(printf '\t')" "$T/examples" | sort -s -k 1,1 -t "$(printf '\t')" >"$T/each"
[ "$(wc -l <"$T/each")" -gt 40 ] || no "few examples: $(cat "$T/each")"
cut -f 2 "$T/each" | stand_in | paste "$T/each" - >"$T/pairs"
goals=
while IFS="$(printf '\t')" read -r page command run; do run_one "$page" "$command" "$run"; done <"$T/pairs"
# shellcheck disable=SC2086
check 'the goals of make' make -n $goals

# ---- files named in `…`, and links; NAME and x are placeholders
for page in $pages; do
    tr '\n' ' ' <"$page" | awk 'BEGIN { RS = "`" } NR % 2 == 0 && /^(base|cli|cross|docs|kernels|quant|runtime|store|tests|tui)\/[^ ]+$/' |
        sed 's/NAME/*/; s/_x\./_*./' | sort -u >"$T/paths"
    while read -r path; do
        # shellcheck disable=SC2086
        ls -d $path >/dev/null 2>&1 || no "$page: there is no $path"
    done <"$T/paths"
    tr '\n' ' ' <"$page" | grep -o ']([^)# ]*' | sed 's/^](//' | grep -v '^https:' | sort -u >"$T/links"
    while read -r link; do [ -e "$(dirname "$page")/$link" ] || no "$page: there is no $link"; done <"$T/links"
    ok
done
finish
