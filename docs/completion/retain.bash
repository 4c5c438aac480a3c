# bash completion for retain: the program itself knows what fits.
_retain() {
    local word words
    COMPREPLY=()
    mapfile -t words < <(retain complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
    for word in "${words[@]}"; do # a conversation's name may be anything that a shell would obey
        printf -v word %q "$word"
        COMPREPLY+=("$word")
    done
}
complete -o default -F _retain retain
