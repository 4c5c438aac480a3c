#!/bin/sh
# Every tracked file is source, or NOTICE says where it comes from; and no line of NOTICE is without files.
# Files that no rule wants (logs, rejects, backups) fail too.
set -u
cd "$(dirname "$0")/.." || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || { echo 'notice: not a git checkout, not checked'; exit 0; }
git ls-files | awk '
    FNR == NR {
        if ($1 !~ /\// || $1 ~ /^[(]/ || NF < 3) next
        pattern = $1
        gsub(/[.]/, "[.]", pattern)
        gsub(/[*]/, ".*", pattern)
        patterns[$1] = "^" pattern "$"
        next
    }
    {
        listed = 0
        for (p in patterns)
            if ($0 ~ patterns[p]) { used[p] = 1; listed = 1 }
    }
    /[.](log|new|orig|rej|tmp|bak)$/ { print "notice: " $0 ": no such file belongs in the tree"; bad = 1 }
    listed || /[.](c|h|cu|cuh|sh|py|md|mk|awk|inc)$/ || !/\// || /^(\.ci\/run|cross\/commit)$/ { next }
    { print "notice: " $0 " is not in NOTICE"; bad = 1 }
    END {
        for (p in patterns)
            if (!used[p]) { print "notice: " p " is in NOTICE, but there is no such file"; bad = 1 }
        exit bad
    }' NOTICE - && echo 'notice: ok'
