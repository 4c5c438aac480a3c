# ptx.awk: C of a PTX module, one function call per instruction, for tests/ptx/ptx.h.
#
#   add.s32 %r3, %r1, -4;             r[3] = add_s32(r[1], -4);
#   ld.v2.u32 {%r1, %r2}, [%rd5+8];   LINE(7) ld_v2_u32(&r[1], &r[2], rd[5] + 8);
#   @!%p1 bra $L__BB0_2;              if (!p[1]) goto L__BB0_2;
#
# Registers become arrays, which compile faster than variables, kernels functions of the emulator
# (tests/emu/launch.h). Only ptx.h knows what an instruction does: an unknown one does not compile. Unknown
# syntax ends the translation and names its line. `-v files='A B'`: the files of C, of about the same length, which
# compile at the same time.

function die(what) { printf "%s:%d: %s: %s\n", FILENAME, FNR, what, $0 >"/dev/stderr"; failed = 1; exit 1 }

function trim(s) { sub(/^[ \t]+/, "", s); sub(/[ \t]+$/, "", s); return s }

# A register: an element of the array that `size` has, or a variable.
function register(s,   stem) {
    gsub(/\./, "_", s)
    stem = s
    sub(/[0-9]+$/, "", stem)
    if (!(stem in size)) return s
    sub(/^[a-z]+/, "", s)
    if (s == "" || s + 0 >= size[stem]) die("undeclared register")
    return stem "[" s "]"
}

# A value: a register, an address, a number (floats as their bits) or a symbol.
function value(s,   at) {
    if (s ~ /^\[.*\]$/) {
        at = substr(s, 2, length(s) - 2)
        return sub(/\+/, "@", at) ? value(substr(at, 1, index(at, "@") - 1)) " + (" \
            value(substr(at, index(at, "@") + 1)) ")" : value(at)
    }
    if (s ~ /^!%/) return "!" value(substr(s, 2))
    if (s ~ /^%[A-Za-z]+[0-9]*(\.[xyz])?$/) return register(substr(s, 2))
    if (s ~ /^0f[0-9A-Fa-f]+$/) return "0x" substr(s, 3) "u"
    if (s ~ /^-?[0-9]+$/) return s "ll"
    if (s ~ /^[A-Za-z_][A-Za-z0-9_]*$/) return s
    die("operand " s)
}

# Splits a list of operands at its outer commas into part[1..n].
function operands(s, part,   n, i, c, depth) {
    n = 0
    s = trim(s)
    if (s == "") return 0
    part[n = 1] = ""
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        depth += (c == "{") - (c == "}")
        if (c == "," && !depth) part[++n] = ""
        else part[n] = part[n] c
    }
    for (i = 1; i <= n; i++) part[i] = trim(part[i])
    return n
}

# The values of an operand, which may be a list, each with `sign` before it.
function values(s, sign,   part, n, i, out) {
    if (s !~ /^{/) return sign value(s)
    n = operands(substr(s, 2, length(s) - 2), part)
    for (i = 1; i <= n; i++) out = out (i > 1 ? ", " : "") sign value(part[i])
    return out
}

# C of an instruction. Its destination is the first operand, except of stores, copies, reductions and barriers. A mov
# from or to a list has its own name.
function instruction(op, rest,   part, n, i, args, name) {
    n = operands(rest, part)
    if (op == "bra" || op == "bra.uni") return "goto " substr(part[1], 2)
    if (op == "ret") return "return"
    name = op
    gsub(/[.:]+/, "_", name)
    if (op ~ /^(st|bar|fence|cp|red)\./) i = 1
    else {
        i = 2
        if (op ~ /^mov\./ && part[1] ~ /^{/) name = name "_split"
        if (op ~ /^mov\./ && part[2] ~ /^{/) name = name "_join"
        if (part[1] ~ /^{/) args = values(part[1], "&")
        else if (sub(/\|/, ", ", part[1])) args = values("{" part[1] "}", "&")
    }
    for (; i <= n; i++) args = args (args == "" ? "" : ", ") values(part[i], "")
    return (op ~ /^(st|bar|fence|cp|red)\./ || args ~ /^&/ ? "" : value(part[1]) " = ") name "(" args ")"
}

function declare(kind, names,   stem, type) {
    type = kind == "pred" ? "bool" : "u" substr(kind, 2)
    if (!match(names, /<[0-9]+>/)) return type " " value(names) " = -1;"
    stem = substr(names, 2, RSTART - 2)
    size[stem] = substr(names, RSTART + 1, RLENGTH - 2) + 0
    return type " " stem "[" size[stem] "];\nmemset(" stem ", " (kind == "pred" ? "true" : "0xff") ", sizeof " stem ");"
}

# A line of C, to the file of the kernel that is being translated.
function put(text) { print text >file; length_of[file]++ }

BEGIN {
    n_files = split(files, file_of, " ")
    for (i = 1; i <= n_files; i++) print "#include \"tests/ptx/ptx.h\"\n" >file_of[i]
}

{ sub(/\/\/.*/, ""); line = trim($0) }
line == "" { next }

# Outside of kernels.
!kernel && line ~ /^\.(version|target|address_size) / { next }
!kernel && line ~ /^\.extern \.shared .* retain_shared\[\];$/ { next }
!kernel && line ~ /^\.visible \.entry [a-z0-9_]+\($/ {
    kernel = substr($3, 1, length($3) - 1)
    threads = bytes = 0
    split("", size)
    file = file_of[1]
    for (i = 2; i <= n_files; i++) if (length_of[file_of[i]] < length_of[file]) file = file_of[i]
    next
}
!kernel { die("directive") }

# The head of a kernel.
line ~ /^\.param \.align 8 \.b8 / && match(line, /\[[0-9]+\]$/) { bytes = substr(line, RSTART + 1, RLENGTH - 2); next }
line ~ /^\.maxntid [0-9]+, 1, 1$/ { threads = $2 + 0; next }
line ~ /^\.minnctapersm / || line == ")" || line == ".pragma \"nounroll\";" { next }
line == "{" {
    if (!threads || !bytes) die("kernel " kernel " without threads or parameters")
    print "enum { " kernel "_bytes = " bytes " };" >file_of[1]
    put("static void " kernel "_thread(const void *args)\n{\nconst u64 " kernel "_param_0 = (u64)(uintptr_t)args;")
    next
}
line == "}" {
    put("}\nconst char *" kernel "(const struct emu_launch *at, const void *args)\n{")
    put("return at->threads == " threads " ? emu_run(at, " kernel "_thread, args) : \"" kernel " wants " threads \
        " threads\";\n}\n")
    kernel = ""
    next
}

# Its body. Braces around a part of it give registers a scope.
sub(/^{ +/, "", line) { put("{") }
{ closes = sub(/; }$/, ";", line) }
line ~ /^\.local \.align / && match(line, /__local_depot[0-9]+\[[0-9]+\];$/) {
    depot = substr(line, RSTART, RLENGTH - 1)
    name = substr(depot, 1, index(depot, "[") - 1)
    put("_Alignas(16) char space" depot ";\nmemset(space" name ", 0xff, sizeof space" name ");")
    put("const u64 " name " = (u64)(uintptr_t)space" name ";")
    next
}
line ~ /^\.reg \.(pred|b16|b32|f32|b64) / {
    split(line, word, /[ \t]+/)
    kind = substr(word[2], 2)
    sub(/^f/, "b", kind)
    put(declare(kind, substr(word[3], 1, length(word[3]) - 1)))
    next
}
line ~ /^\$[A-Za-z0-9_]+:$/ { put(substr(line, 2) ";"); next }
line ~ /^[a-z@][^;]*;$/ {
    sub(/;$/, "", line)
    guard = ""
    if (line ~ /^@/) { guard = line; sub(/[ \t].*/, "", guard); line = trim(substr(line, length(guard) + 1)) }
    op = line
    sub(/[ \t].*/, "", op)
    put((op ~ /^(atom|bar|cp|ld|ldmatrix|mma|movmatrix|red|shfl|st|vote)\./ ? "LINE(" FNR ") " : "") \
        (guard == "" ? "" : "if (" value(substr(guard, 2)) ") ") \
        instruction(op, substr(line, length(op) + 1)) ";" (closes ? "}" : ""))
    next
}
{ die("syntax") }

END {
    if (failed) exit 1
    if (kernel) die("the module ends inside of " kernel)
    print "#define SAME(name, args) _Static_assert(sizeof(struct args) == name##_bytes, #name);\nCUDA_KERNELS(SAME)" >file_of[1]
}
