#!/bin/sh
# The pages against the program: commands, options, policies and families that README and docs name.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here" || exit 1
pages="README.md CONTRIBUTING.md $(ls docs/*.md)"

# ---- one version
version=$(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGES | head -n 1)
holds "CHANGES begins with the version" "$("$RETAIN" --version)" "retain $version"

# ---- README's table of commands is the program's
commands=$("$RETAIN" complete "" | cut -f 1)
table=$(sed -n '/^## Commands/,/^## /p' README.md)
for c in $commands; do
    case $c in complete | manual | help) continue ;; esac
    if echo "$table" | grep -qE "\`(retain )?$c\`"; then ok; else no "README.md has no command $c"; fi
done
for c in $(echo "$table" | sed -n 's/^| \([^|]*\)|.*/\1/p' | grep -o '`[^`]*`' | tr -d '`' | sed 's/^retain *//' | cut -d' ' -f1); do
    if echo "$commands" | grep -qx "$c"; then ok; else no "README.md names a command $c"; fi
done

# ---- every option that a page names exists; those of make, tools and papers are listed here
for c in $commands; do "$RETAIN" complete "$c" -- | cut -f 1; done | sort -u >"$T/options"
printf '%s\n' --help --version --clock-control --launch-count --config --no-install-recommends --args --update --all --variant >>"$T/options"
for page in $pages; do
    for option in $(grep -v '^|.*CHANGES' "$page" | grep -oE -- '(^|[ (`/])--[a-z][a-z-]+' | grep -oE -- '--.*' | sort -u); do
        grep -qx -- "$option" "$T/options" || no "$page names $option, which no command takes"
    done
done
ok

# ---- every policy has a row in docs/policies.md, and README has their number
policies=$("$RETAIN" manual | sed -n '/^\.SH POLICIES/,/^\.SH /p' | sed -n 's/^\\fB\(.*\)\\fR.*/\1/p' | tr -d '\\')
n=$(echo "$policies" | grep -c .)
if [ "$n" -gt 5 ]; then ok; else no "few policies: $policies"; fi
for p in $policies; do
    if grep -qF "\`$p\`" docs/policies.md; then ok; else no "docs/policies.md has no $p"; fi
done
holds "README has the number of policies" "$(cat README.md)" "of the $n that \`--policy\` takes"

# ---- families: the table of the program, README and docs/conformance.md, whose rows quant/eval/families.py writes
rows=$(sed -n '/^## Families/,/^## /s/^| \([^|]*\) |.*/\1/p' docs/conformance.md | sed '1d')
for family in $(cat runtime/model/families/*.c | sed -n 's/.*\.arch = "\([^"]*\)".*/\1/p'); do
    if echo "$rows" | grep -qE "(^|\()$family([ ,)]|\$)"; then ok; else no "docs/conformance.md has no row of family $family"; fi
    if grep -qiE "[^a-z0-9]$family([^a-z0-9]|$)" README.md; then ok; else no "README.md does not name family $family"; fi
done
equal "rows that families.py writes" "$(sed -n 's/^@kind("\([^"]*\)".*/\1/p' quant/eval/families.py)" "$rows"
finish
