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

# The processors of each target, as qemu names their like, and the instruction set they get; on others
# the program says so in one line.
levels=$("$RETAIN" info | sed -n 's/^isa *//p')
holds "instruction sets" "$levels" '^i8mm dotprod neon ref$'
for isa in $levels; do
    holds "$isa: remembers" "$(talk "$RETAIN" | tail -n 1)" '48213'
done
case ${TARGET:-aarch64} in
jetson-orin) meant='cortex-a76=dotprod neoverse-n1=dotprod' others='cortex-a57 cortex-a72' ;;
jetson-thor) meant='max=i8mm' others='cortex-a57 cortex-a76' ;;
*) meant='cortex-a57=neon cortex-a76=dotprod max=i8mm' others= ;;
esac
for cpu in $meant; do
    holds "${cpu%=*} takes ${cpu#*=}" \
        "$(QEMU_CPU=${cpu%=*} "$RETAIN" info | sed -n 's/^isa *//p')" "^${cpu#*=} "
done
for cpu in $others; do
    QEMU_CPU=$cpu "$RETAIN" info >"$T/out" 2>&1
    equal "$cpu: exit status" 1 $?
    equal "$cpu: lines" 1 "$(wc -l <"$T/out")"
    holds "$cpu: the reason" "$(cat "$T/out")" 'needs a processor with .*; this one has no [a-z0-9]+: take the build'
done

check "guards" env OBJDUMP="$OBJDUMP" tests/check_hardening.sh "${RETAIN%/run/retain}/retain"

finish
