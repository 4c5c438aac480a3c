#!/bin/sh
# The program for another architecture under qemu: it gives the same text as on this machine, and
# every instruction set of the target answers correctly. RETAIN is a wrapper; HOST_RETAIN the
# program built for this machine.
. "$(dirname "$0")/../cli/lib.sh"

talk() {
    printf '%s\n' 'My locker code is 48213.' 'Tell me about cats.' 'What is my locker code?' |
        "$@" chat --plain --new --seed 1 --isa "$isa" 2>"$T/err"
}

isa=ref
there=$(talk "$RETAIN")
equal "ref: exit status" 0 $?
holds "ref: remembers" "$(printf '%s\n' "$there" | tail -n 1)" '48213'
if [ -x "${HOST_RETAIN:-}" ]; then
    equal "ref: the same text as on this machine" "$(talk "$HOST_RETAIN")" "$there"
else
    skip "no build for this machine to compare with"
fi

levels=$("$RETAIN" info | sed -n 's/^isa *//p')
holds "instruction sets" "$levels" '^i8mm dotprod neon ref$'
for isa in $levels; do
    holds "$isa: remembers" "$(talk "$RETAIN" | tail -n 1)" '48213'
done
for want in cortex-a57=neon cortex-a76=dotprod; do
    holds "${want%=*} takes ${want#*=}" \
        "$(QEMU_CPU=${want%=*} "$RETAIN" info | sed -n 's/^isa *//p')" "^${want#*=} "
done

finish
