# bash completion for retain: the program itself knows what fits.
_retain() {
    local IFS=$'\n'
    COMPREPLY=($(retain complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _retain retain
