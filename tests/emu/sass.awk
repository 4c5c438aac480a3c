# sass.awk: instructions of a kernel's machine code, and per matrix instruction of its hot loop.
# Input: `od -An -v -tx8 -w16` of a section .text.KERNEL of a cubin; -v name=KERNEL -v sm=89.
# Prints: KERNEL SM INSTRUCTIONS MMA LOOP_INSTRUCTIONS LOOP_MMA
#
# An instruction has 16 bytes, its operation in the lowest 12 bits: 237 IMMA, 23c HMMA, 947 BRA, 547 BRA.U,
# 918 NOP. A branch's distance is counted from the next instruction, in words: bits 34 to 63, and from
# sm_90 on eight lower bits in 16 to 23. The hot loop is the one with the most matrix instructions
# among those that contain no other loop with one.

# Value of hexadecimal digits; exact up to 13.
function value(digits,   i, v) {
    for (i = 1; i <= length(digits); i++) v = 16 * v + index("0123456789abcdef", substr(digits, i, 1)) - 1
    return v
}

# Distance of a branch, in instructions.
function distance(word,   high, words) {
    high = int(value(substr(word, 1, 8)) / 4)
    if (high >= 536870912) high -= 1073741824
    words = sm >= 90 ? 256 * high + value(substr(word, 11, 2)) : high
    return words / 4
}

{
    op = substr($1, 14, 3)
    n++
    mma[n] = mma[n - 1] + (op == "237" || op == "23c")
    if (op != "918") last = n
    if (op == "947" || op == "547") {
        to = n + 1 + distance($1)
        if (to >= 1 && to < n) { begin[++loops] = to; end[loops] = n }
    }
}

END {
    for (i = 1; i <= loops; i++) {
        count = mma[end[i]] - mma[begin[i] - 1]
        if (!count) continue
        inner = 1
        for (k = 1; k <= loops && inner; k++)
            if (k != i && begin[k] >= begin[i] && end[k] <= end[i] && end[k] - begin[k] < end[i] - begin[i] && mma[end[k]] > mma[begin[k] - 1]) inner = 0
        if (inner && count > hot) { hot = count; size = end[i] - begin[i] + 1 }
    }
    print name, sm, last, mma[n] + 0, size + 0, hot + 0
}
