#!/bin/sh
# check_hardening.sh PROGRAM...: each was compiled and linked with the guards of the Makefile's HARDEN
# and LDFLAGS. The note of control-flow protection needs a C library that has it, too, so the
# instructions themselves are counted: a thousand functions begin with one.
set -eu
for program in "$@"; do
    symbols=$(readelf -W --dyn-syms "$program")
    segments=$(readelf -W --segments "$program")
    dynamic=$(readelf -W --dynamic "$program")
    bad=
    need() { printf '%s\n' "$2" | grep -Eq -- "$3" || { echo "$program: no $1"; bad=1; }; }
    marks() { "${OBJDUMP:-objdump}" -d "$program" | grep -Ec "[[:space:]]($1)"; }
    need "stack protector (-fstack-protector-strong)" "$symbols" ' __stack_chk_fail'
    need "checked calls (_FORTIFY_SOURCE)" "$symbols" ' __(memcpy|vsnprintf|fprintf)_chk'
    need "position-independent code (-fPIE -pie)" "$(readelf -W --file-header "$program")" 'Type: +DYN'
    need "read-only relocations (-z relro)" "$segments" 'GNU_RELRO'
    need "binding at the start (-z now)" "$dynamic" 'BIND_NOW'
    need "stack without execution" "$segments" 'GNU_STACK.* RW '
    case $(readelf -W --file-header "$program") in
    *X86-64*) need "control-flow protection (-fcf-protection)" "$(marks endbr64)" '....' ;;
    *AArch64*) need "branch protection (-mbranch-protection)" "$(marks 'paciasp|bti')" '....' ;;
    esac
    [ -z "$bad" ] || exit 1
    echo "hardening: $program has all guards"
done
