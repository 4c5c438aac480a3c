#include "tui/text/markdown.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "tui/term/grid.h"

enum { QUOTES = 3 };

struct language {
    const char *names;               /* " c h ": each between blanks, as words are */
    const char *words;               /* keywords */
    const char *line[2];             /* begin a comment up to the end of the line */
    const char *from, *end;          /* a comment over lines */
    const char *quotes;              /* characters that begin and end a string on one line */
    const char *long_quotes[QUOTES]; /* begin and end a string over lines */
    bool any_case;
};

/* clang-format off */
#define C_WORDS \
    " auto bool break case char const continue default do double else enum extern false float for goto if inline int long NULL register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while "
#define JS_WORDS \
    " async await break case catch class const continue debugger default delete do else export extends false finally for from function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while with yield "
#define SLASHES {"//"}, "/*", "*/"

static const struct language languages[] = {
    {" c h ", C_WORDS " #define #include #if #ifdef #ifndef #else #elif #endif #pragma ", SLASHES, "\"'", {NULL}, false},
    {" cpp c++ cc cxx hpp cuda cu ", C_WORDS " #define #include #if #ifdef #ifndef #else #elif #endif #pragma catch class concept constexpr decltype delete explicit final friend mutable namespace new noexcept nullptr operator override private protected public requires template this throw try typename using virtual __global__ __device__ __shared__ ", SLASHES, "\"'", {NULL}, false},
    {" csharp cs c# ", C_WORDS " abstract as async await base catch class decimal delegate event finally foreach get in interface internal is lock namespace new null object out override params private protected public readonly ref sealed set string this throw try using var virtual ", SLASHES, "\"'", {NULL}, false},
    {" java kotlin kt scala groovy dart ", " abstract as assert boolean break by case catch char class companion const continue data def default do double else enum extends false final finally float for fun if implements import in instanceof int interface internal is lateinit long native new null object open override package private protected public return sealed short static super suspend switch synchronized this throw throws trait true try val var void volatile when while with ", SLASHES, "\"'", {"\"\"\""}, false},
    {" javascript js jsx mjs node ", JS_WORDS, SLASHES, "\"'", {"`"}, false},
    {" typescript ts tsx ", JS_WORDS " abstract any as boolean declare enum implements interface keyof namespace never number private protected public readonly string type unknown ", SLASHES, "\"'", {"`"}, false},
    {" python py python3 ipython ", " and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield ", {"#"}, NULL, NULL, "\"'", {"\"\"\"", "'''"}, false},
    {" go golang ", " break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var string int error bool byte float64 ", SLASHES, "\"'", {"`"}, false},
    {" rust rs ", " as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while bool char f32 f64 i32 i64 u8 u32 u64 usize str String Option Result ", SLASHES, "\"", {NULL}, false},
    {" swift ", " actor as async await break case catch class continue default defer deinit do else enum extension false fileprivate for func guard if import in init inout internal is let nil private protocol public return self Self static struct super switch throw throws true try var where while ", SLASHES, "\"", {"\"\"\""}, false},
    {" ruby rb ", " alias and begin break case class def do else elsif end ensure false for if in module next nil not or puts require rescue return self super then true unless until when while yield ", {"#"}, "=begin", "=end", "\"'", {NULL}, false},
    {" php ", " abstract array as break case catch class const continue default do echo else elseif extends false final finally fn for foreach function global if implements include interface match namespace new null private protected public require return static switch this throw trait true try use var while ", {"//", "#"}, "/*", "*/", "\"'", {NULL}, false},
    {" sh bash shell zsh console ", " case do done elif else esac export fi for function if in local return select set shift then trap unset until while cd echo exit printf read source sudo test ", {"#"}, NULL, NULL, "\"'", {NULL}, false},
    {" sql sqlite postgres postgresql mysql ", " add all alter and as asc begin between by case check column commit constraint create default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references right rollback select set table then union unique update values view when where with int integer text varchar boolean real ", {"--"}, "/*", "*/", "'\"", {NULL}, true},
    {" html xml svg vue ", " html head body div span a p ul ol li script style table tr td img input form button h1 h2 h3 class id href src type name ", {NULL}, "<!--", "-->", "\"", {NULL}, true},
    {" css scss less ", " important media import keyframes from to auto none inherit ", {NULL}, "/*", "*/", "\"'", {NULL}, false},
    {" json jsonc json5 ", " true false null ", SLASHES, "\"", {NULL}, false},
    {" yaml yml toml ini conf dockerfile docker makefile make cmake ", " true false null yes no on off FROM RUN COPY ADD CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE USER VOLUME include ifeq ifdef ifndef else endif define endef ", {"#"}, NULL, NULL, "\"'", {"\"\"\""}, false},
    {" lua ", " and break do else elseif end false for function goto if in local nil not or repeat return then true until while ", {"--"}, "--[[", "]]", "\"'", {NULL}, false},
    {" r julia jl ", " begin break do else elseif end export false FALSE for function if import in library let local macro module mutable next NULL repeat return struct true TRUE using where while ", {"#"}, "#=", "=#", "\"'", {"\"\"\""}, false},
    {" haskell hs elm ocaml ml fsharp ", " and as begin case class data deriving do else end forall fun if import in infix instance let match module mutable newtype of open qualified rec then type where with True False ", {"--"}, "{-", "-}", "\"", {NULL}, false},
    {" perl pl ", " die each else elsif for foreach if last local my next our package print return shift sub undef unless until use while ", {"#"}, NULL, NULL, "\"'", {NULL}, false},
};
/* clang-format on */

static bool has_word(const char *words, const char *s, size_t n, bool any_case)
{
    for (const char *w = words; *w; w += strcspn(w, " ")) {
        w += strspn(w, " ");
        size_t length = strcspn(w, " ");
        if (length == n && n > 0 && !(any_case ? strncasecmp(w, s, n) : strncmp(w, s, n)))
            return true;
    }
    return false;
}

const struct language *code_language(const char *name, size_t n)
{
    size_t word = 0;
    while (word < n && !strchr(" \t{,:", name[word])) word++;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        if (has_word(languages[i].names, name, word, true)) return &languages[i];
    return NULL;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool starts(const char *s, size_t n, const char *with)
{
    size_t length = with ? strlen(with) : 0;
    return length > 0 && n >= length && memcmp(s, with, length) == 0;
}

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* The byte after `end`, or n and *state when the line does not have it. */
static size_t up_to(const char *s, size_t n, size_t at, const char *end, code_state *state)
{
    for (; at < n; at++) {
        if (starts(s + at, n - at, end)) return at + strlen(end);
        if (s[at] == '\\' && at + 1 < n) at++;
    }
    *state = end;
    return n;
}

static size_t string_end(const char *s, size_t n, size_t at)
{
    char quote = s[at++];
    for (; at < n; at++) {
        if (s[at] == quote) return at + 1;
        if (s[at] == '\\') at++;
    }
    return n;
}

static size_t word_end(const char *s, size_t n, size_t at, bool number)
{
    at++; /* also of #include */
    while (at < n && (in_word(s[at]) || (number && s[at] == '.'))) at++;
    return at;
}

/* The end of the comment or string that begins at `at`; 0 = none does. */
static size_t quoted(const struct language *l, const char *s, size_t n, size_t at,
                     code_state *state, uint8_t *attr)
{
    *attr = ATTR_COMMENT;
    if (starts(s + at, n - at, l->from)) return up_to(s, n, at + strlen(l->from), l->end, state);
    bool apart = at == 0 || s[at - 1] == ' ' || s[at - 1] == '\t'; /* not in ${#x} */
    for (int i = 0; i < 2; i++)
        if (starts(s + at, n - at, l->line[i]) && (apart || s[at] != '#')) return n;
    *attr = ATTR_STRING;
    for (int i = 0; i < QUOTES; i++)
        if (starts(s + at, n - at, l->long_quotes[i]))
            return up_to(s, n, at + strlen(l->long_quotes[i]), l->long_quotes[i], state);
    return strchr(l->quotes, s[at]) ? string_end(s, n, at) : 0;
}

static size_t plain_end(const struct language *l, const char *s, size_t n, size_t at, uint8_t *attr)
{
    bool number = s[at] >= '0' && s[at] <= '9';
    *attr = ATTR_CODE;
    if (!in_word(s[at]) && s[at] != '#') return at + 1;
    size_t end = word_end(s, n, at, number);
    if (number)
        *attr = ATTR_NUMBER;
    else if (has_word(l->words, s + at, end - at, l->any_case))
        *attr = ATTR_KEYWORD;
    return end;
}

void code_line(const struct language *l, const char *s, size_t n, code_state *state, code_run *run,
               void *ctx)
{
    size_t at = 0, plain = 0; /* plain runs are joined */
    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t')) n--;
    while (at < n) {
        uint8_t attr = *state && *state == l->end ? ATTR_COMMENT : ATTR_STRING;
        const char *end_mark = *state;
        bool blank = s[at] == ' ' || s[at] == '\t';
        *state = NULL;
        size_t end = end_mark ? up_to(s, n, at, end_mark, state)
                     : blank  ? 0
                              : quoted(l, s, n, at, state, &attr);
        if (end > n) end = n;
        if (end == 0 && !blank) end = plain_end(l, s, n, at, &attr);
        if (blank || attr != ATTR_CODE) {
            if (at > plain) run(ctx, plain, at - plain, ATTR_CODE);
            if (!blank) run(ctx, at, end - at, attr);
            plain = blank ? at + 1 : end;
        }
        at = blank ? at + 1 : end;
    }
    if (at > plain) run(ctx, plain, at - plain, ATTR_CODE);
}
