/* parse: the statements and expressions of Jinja 3.1 that chat templates use. */
#include <string.h>

#include "base/utf8.h"
#include "runtime/template/builtin.h"
#include "runtime/template/lex.h"
#include "runtime/template/node.h"

struct parser {
    struct heap *heap;
    struct lexer lexer;
    struct token now, ahead;
    int n_loops; /* around the current statement, for break and continue */
};

/* ---- tokens ---------------------------------------------------------------------------------- */

static struct node *parse_node(struct parser *p, enum node_kind kind)
{
    struct node *n = heap_take(p->heap, 1, sizeof *n);
    n->kind = kind;
    n->line = p->now.line;
    return n;
}

static void parse_next(struct parser *p)
{
    p->now = p->ahead;
    p->ahead = p->now.kind == LEX_END ? p->now : lexer_next(&p->lexer);
    p->heap->line = p->now.line;
}

static bool parse_sees(const struct parser *p, int op)
{
    return p->now.kind == LEX_OPERATOR && p->now.op == op;
}

static bool parse_sees_name(const struct parser *p, const char *name)
{
    return p->now.kind == LEX_NAME && text_is(p->now.text, name);
}

static bool parse_skip(struct parser *p, int op)
{
    bool sees = parse_sees(p, op);
    if (sees) parse_next(p);
    return sees;
}

static bool parse_skip_name(struct parser *p, const char *name)
{
    bool sees = parse_sees_name(p, name);
    if (sees) parse_next(p);
    return sees;
}

static _Noreturn void parse_fail(struct parser *p, const char *expected)
{
    struct utf8_shown shown = utf8_show(p->now.text.data, p->now.text.n);
    heap_fail(p->heap, "expected %s, got '%s'", expected, shown.text);
}

static void parse_expect(struct parser *p, int op, const char *text)
{
    if (!parse_skip(p, op)) parse_fail(p, text);
}

static struct text parse_name(struct parser *p)
{
    struct text name = p->now.text;
    if (p->now.kind != LEX_NAME) parse_fail(p, "a name");
    parse_next(p);
    return name;
}

static struct node *parse_expression(struct parser *p);
static struct node *parse_primary(struct parser *p);
static struct node *parse_tuple(struct parser *p, bool in_for);

/* Items with commas between up to the closing bracket; the opening one is the next token. */
static struct node *parse_list(struct parser *p, int close, struct node *(*item)(struct parser *p))
{
    struct node *first = NULL, **end = &first;
    parse_next(p);
    while (!parse_sees(p, close)) {
        if (first) parse_expect(p, ',', "','");
        if (parse_sees(p, close)) break;
        *end = item(p);
        end = &(*end)->next;
    }
    parse_next(p);
    return first;
}

/* ---- arguments, filters, tests --------------------------------------------------------------- */

static bool is_positional(const struct node *arg)
{
    return arg->op == 0 && arg->value.as.text.n == 0;
}

static struct node *parse_argument(struct parser *p)
{
    struct node *arg = parse_node(p, NODE_ARGUMENT);
    if (parse_sees(p, '*')) {
        arg->op = '*';
        parse_next(p);
    } else if (p->now.kind == LEX_NAME && p->ahead.kind == LEX_OPERATOR && p->ahead.op == '=') {
        arg->value.as.text = parse_name(p);
        parse_next(p);
    }
    arg->a = parse_expression(p);
    return arg;
}

static struct node *parse_arguments(struct parser *p)
{
    struct node *first = parse_list(p, ')', parse_argument);
    for (struct node *n = first; n && n->next; n = n->next)
        if (!is_positional(n) && is_positional(n->next)) parse_fail(p, "a keyword argument");
    return first;
}

static struct node *parse_postfix(struct parser *p, struct node *n);

static struct node *parse_filter(struct parser *p, struct node *input)
{
    struct node *n = parse_node(p, NODE_FILTER);
    struct text name = parse_name(p);
    n->a = input;
    n->value.as.text = name;
    n->builtin = filter_named(name);
    if (parse_sees(p, '(')) n->b = parse_arguments(p);
    return n;
}

static bool begins_operand(const struct parser *p)
{
    if (p->now.kind == LEX_STRING || p->now.kind == LEX_NUMBER) return true;
    if (p->now.kind == LEX_OPERATOR) return strchr("([{", p->now.op) != NULL;
    return p->now.kind == LEX_NAME && !parse_sees_name(p, "else") && !parse_sees_name(p, "or") &&
           !parse_sees_name(p, "and");
}

static struct node *parse_test(struct parser *p, struct node *input)
{
    struct node *n = parse_node(p, NODE_TEST), *negated = NULL;
    if (parse_skip_name(p, "not")) negated = parse_node(p, NODE_NOT);
    struct text name = parse_name(p);
    n->a = input;
    n->value.as.text = name;
    n->builtin = test_named(name);
    if (parse_sees(p, '(')) {
        n->b = parse_arguments(p);
    } else if (begins_operand(p)) {
        if (parse_sees_name(p, "is")) parse_fail(p, "one test");
        n->b = parse_node(p, NODE_ARGUMENT);
        n->b->a = parse_postfix(p, parse_primary(p));
    }
    if (!negated) return n;
    negated->a = n;
    return negated;
}

/* ---- primaries ------------------------------------------------------------------------------- */

static struct node *constant(struct parser *p, struct value value)
{
    struct node *n = parse_node(p, NODE_CONST);
    n->value = value;
    return n;
}

static struct node *parse_name_or_constant(struct parser *p)
{
    static const struct {
        const char *name;
        struct value value;
    } constants[] = {
        {"true", {.kind = VALUE_BOOL, .as.truth = true}},
        {"True", {.kind = VALUE_BOOL, .as.truth = true}},
        {"false", {.kind = VALUE_BOOL}},
        {"False", {.kind = VALUE_BOOL}},
        {"none", {.kind = VALUE_NONE}},
        {"None", {.kind = VALUE_NONE}},
    };
    struct node *n = parse_node(p, NODE_NAME);
    struct text name = parse_name(p);
    n->value = value_text(name);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (text_is(name, constants[i].name)) {
            n->kind = NODE_CONST;
            n->value = constants[i].value;
        }
    return n;
}

static struct node *parse_string(struct parser *p)
{
    struct node *n = constant(p, value_text(p->now.text));
    for (parse_next(p); p->now.kind == LEX_STRING; parse_next(p))
        n->value.as.text = text_join2(p->heap, n->value.as.text, p->now.text);
    return n;
}

static struct node *parse_pair(struct parser *p)
{
    struct node *pair = parse_node(p, NODE_PAIR);
    pair->a = parse_expression(p);
    parse_expect(p, ':', "':'");
    pair->b = parse_expression(p);
    return pair;
}

static struct node *parse_items(struct parser *p, enum node_kind kind, int close,
                                struct node *(*item)(struct parser *p))
{
    struct node *n = parse_node(p, kind);
    n->a = parse_list(p, close, item);
    return n;
}

static struct node *parse_parentheses(struct parser *p)
{
    struct node *n = parse_node(p, NODE_TUPLE);
    parse_next(p);
    if (!parse_sees(p, ')')) n = parse_tuple(p, false);
    parse_expect(p, ')', "')'");
    return n;
}

static struct node *parse_primary(struct parser *p)
{
    struct node *n;
    if (p->now.kind == LEX_NAME) return parse_name_or_constant(p);
    if (p->now.kind == LEX_STRING) return parse_string(p);
    if (p->now.kind == LEX_NUMBER) {
        n = constant(p, p->now.value);
        parse_next(p);
        return n;
    }
    if (parse_sees(p, '(')) return parse_parentheses(p);
    if (parse_sees(p, '[')) return parse_items(p, NODE_LIST, ']', parse_expression);
    if (parse_sees(p, '{')) return parse_items(p, NODE_DICT, '}', parse_pair);
    parse_fail(p, "an expression");
}

static struct node *parse_subscript(struct parser *p, struct node *object)
{
    struct node *n = parse_node(p, NODE_ITEM), **part[] = {&n->b, &n->c, &n->d};
    int at = 0;
    n->a = object;
    parse_expect(p, '[', "'['");
    if (!parse_sees(p, ':')) n->b = parse_expression(p);
    while (at < 2 && parse_skip(p, ':')) {
        n->kind = NODE_SLICE;
        at++;
        if (!parse_sees(p, ':') && !parse_sees(p, ']')) *part[at] = parse_expression(p);
    }
    parse_expect(p, ']', "']'");
    return n;
}

static struct node *parse_dot(struct parser *p, struct node *object)
{
    struct node *n = parse_node(p, NODE_ATTRIBUTE);
    parse_next(p);
    n->a = object;
    if (p->now.kind == LEX_NUMBER) {
        n->kind = NODE_ITEM;
        n->b = constant(p, p->now.value);
        parse_next(p);
    } else {
        n->value = value_text(parse_name(p));
    }
    return n;
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *n = parse_node(p, NODE_CALL);
    n->a = callee;
    n->b = parse_arguments(p);
    return n;
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
    for (;;) {
        if (parse_sees(p, '.'))
            n = parse_dot(p, n);
        else if (parse_sees(p, '['))
            n = parse_subscript(p, n);
        else if (parse_sees(p, '('))
            n = parse_call(p, n);
        else
            return n;
    }
}

static struct node *parse_filters_and_tests(struct parser *p, struct node *n)
{
    for (;;) {
        if (parse_skip(p, '|'))
            n = parse_filter(p, n);
        else if (parse_skip_name(p, "is"))
            n = parse_test(p, n);
        else if (parse_sees(p, '('))
            n = parse_call(p, n);
        else
            return n;
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

static struct node *binary(struct parser *p, enum node_kind kind, struct node *a)
{
    struct node *n = parse_node(p, kind);
    n->op = p->now.op;
    n->a = a;
    parse_next(p);
    return n;
}

static struct node *parse_unary(struct parser *p, bool with_filters)
{
    struct node *n;
    heap_enter(p->heap);
    if (parse_sees(p, '-')) {
        n = binary(p, NODE_NEGATIVE, NULL);
        n->a = parse_unary(p, false);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    if (with_filters) n = parse_filters_and_tests(p, n);
    heap_leave(p->heap);
    return n;
}

/* Operators of numbers and texts, from those that bind most; all to the left. */
enum { LEVELS = 3, LEVEL_MAX = 2 };
static const int operators[LEVELS][LEVEL_MAX] = {{'*', '%'}, {'~'}, {'+', '-'}};

static bool sees_operator(const struct parser *p, int level)
{
    for (int i = 0; i < LEVEL_MAX && operators[level][i]; i++)
        if (parse_sees(p, operators[level][i])) return true;
    return false;
}

static struct node *parse_binary(struct parser *p, int level)
{
    struct node *n = level ? parse_binary(p, level - 1) : parse_unary(p, true);
    while (sees_operator(p, level)) {
        n = binary(p, NODE_BINARY, n);
        n->b = level ? parse_binary(p, level - 1) : parse_unary(p, true);
    }
    return n;
}

/* Skips the comparison operator here and returns it; 0 = none. */
static int comparison(struct parser *p)
{
    static const int ops[] = {LEX_EQUAL, LEX_UNEQUAL, '<', '>', LEX_AT_LEAST, LEX_AT_MOST};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (parse_skip(p, ops[i])) return ops[i];
    if (parse_skip_name(p, "in")) return NODE_IN;
    if (!parse_sees_name(p, "not") || p->ahead.kind != LEX_NAME || !text_is(p->ahead.text, "in"))
        return 0;
    parse_next(p);
    parse_next(p);
    return NODE_NOT_IN;
}

static struct node *parse_compare(struct parser *p)
{
    struct node *first = parse_binary(p, LEVELS - 1);
    int op = comparison(p);
    if (!op) return first;
    struct node *n = parse_node(p, NODE_COMPARE);
    n->op = op;
    n->a = first;
    n->b = parse_binary(p, LEVELS - 1);
    return n;
}

static struct node *parse_not(struct parser *p)
{
    if (!parse_sees_name(p, "not")) return parse_compare(p);
    heap_enter(p->heap);
    struct node *n = binary(p, NODE_NOT, NULL);
    n->a = parse_not(p);
    heap_leave(p->heap);
    return n;
}

/* `and` binds more than `or`. */
static struct node *parse_logic(struct parser *p, enum node_kind kind)
{
    struct node *n = kind == NODE_OR ? parse_logic(p, NODE_AND) : parse_not(p);
    while (parse_sees_name(p, kind == NODE_OR ? "or" : "and")) {
        n = binary(p, kind, n);
        n->b = kind == NODE_OR ? parse_logic(p, NODE_AND) : parse_not(p);
    }
    return n;
}

static struct node *parse_expression(struct parser *p)
{
    heap_enter(p->heap);
    struct node *n = parse_logic(p, NODE_OR);
    while (parse_sees_name(p, "if")) {
        struct node *then = n;
        n = binary(p, NODE_IF_ELSE, NULL);
        n->b = then;
        n->a = parse_logic(p, NODE_OR);
        if (parse_skip_name(p, "else")) n->c = parse_expression(p);
    }
    heap_leave(p->heap);
    return n;
}

static bool tuple_ends(const struct parser *p)
{
    return p->now.kind == LEX_BLOCK_END || p->now.kind == LEX_PRINT_END || parse_sees(p, ')');
}

/* Expressions separated by commas are a tuple; in_for: "if" after them is not a condition. */
static struct node *parse_tuple(struct parser *p, bool in_for)
{
    struct node *n = in_for ? parse_logic(p, NODE_OR) : parse_expression(p);
    if (!parse_sees(p, ',')) return n;
    struct node *tuple = parse_node(p, NODE_TUPLE), **end = &n->next;
    tuple->a = n;
    while (parse_skip(p, ',') && !tuple_ends(p)) {
        *end = in_for ? parse_logic(p, NODE_OR) : parse_expression(p);
        end = &(*end)->next;
    }
    return tuple;
}

/* ---- statements ------------------------------------------------------------------------------ */

static struct node *parse_statements(struct parser *p, const char *const *ends);

static void end_tag(struct parser *p)
{
    if (p->now.kind != LEX_BLOCK_END) parse_fail(p, "the end of the tag");
    parse_next(p);
}

/* The statements after the current tag up to {% end %}, which is skipped. */
static struct node *parse_body(struct parser *p, const char *end)
{
    end_tag(p);
    struct node *body = parse_statements(p, (const char *const[]){end, NULL});
    parse_next(p);
    end_tag(p);
    return body;
}

/* A name to assign to. */
static struct node *parse_target(struct parser *p)
{
    struct node *n = parse_name_or_constant(p);
    if (n->kind != NODE_NAME) parse_fail(p, "a name to assign to");
    return n;
}

static void parse_if(struct parser *p, struct node *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node **end = &n->a;
    bool last = false;
    for (;;) {
        struct node *branch = parse_node(p, NODE_BRANCH);
        if (!last) branch->a = parse_tuple(p, true);
        end_tag(p);
        branch->b = parse_statements(p, last ? ends + 2 : ends);
        *end = branch;
        end = &branch->next;
        if (parse_skip_name(p, "endif")) break;
        last = parse_sees_name(p, "else");
        parse_next(p);
    }
    end_tag(p);
}

static void parse_for(struct parser *p, struct node *n)
{
    struct node **end = &n->a;
    do { /* `loop` has the loop's own facts */
        if (parse_sees_name(p, "loop")) parse_fail(p, "a name other than loop");
        *end = parse_target(p);
        end = &(*end)->next;
    } while (parse_skip(p, ','));
    if (!parse_skip_name(p, "in")) parse_fail(p, "'in'");
    n->b = parse_tuple(p, true);
    if (parse_skip_name(p, "if")) n->e = parse_expression(p);
    if (parse_sees_name(p, "recursive")) parse_fail(p, "a loop that is not recursive");
    end_tag(p);
    p->n_loops++;
    n->c = parse_statements(p, (const char *const[]){"endfor", "else", NULL});
    p->n_loops--;
    if (parse_skip_name(p, "else")) {
        n->d = parse_body(p, "endfor");
    } else {
        parse_next(p);
        end_tag(p);
    }
}

static void parse_set(struct parser *p, struct node *n)
{
    n->a = parse_target(p);
    if (parse_sees(p, '.')) n->a = parse_dot(p, n->a); /* of a namespace */
    if (parse_skip(p, '=')) {
        n->b = parse_tuple(p, false);
        end_tag(p);
        return;
    }
    n->kind = NODE_SET_BLOCK;
    n->c = parse_body(p, "endset");
}

static struct node *parse_parameters(struct parser *p)
{
    struct node *first = NULL, **end = &first;
    parse_expect(p, '(', "'('");
    while (!parse_sees(p, ')')) {
        if (first) parse_expect(p, ',', "','");
        *end = parse_node(p, NODE_PARAMETER);
        (*end)->value = value_text(parse_name(p));
        if (parse_skip(p, '=')) (*end)->a = parse_expression(p);
        end = &(*end)->next;
    }
    parse_next(p);
    return first;
}

/* A body in which break and continue do not affect the loops around it. */
static struct node *parse_closed_body(struct parser *p, const char *end)
{
    int n_loops = p->n_loops;
    p->n_loops = 0;
    struct node *body = parse_body(p, end);
    p->n_loops = n_loops;
    return body;
}

static void parse_macro(struct parser *p, struct node *n)
{
    n->value = value_text(parse_name(p));
    n->a = parse_parameters(p);
    n->c = parse_closed_body(p, "endmacro");
}

static void parse_call_block(struct parser *p, struct node *n)
{
    if (parse_sees(p, '(')) n->a = parse_parameters(p);
    n->b = parse_expression(p);
    if (n->b->kind != NODE_CALL) parse_fail(p, "a call");
    n->c = parse_closed_body(p, "endcall");
}

static void parse_filter_block(struct parser *p, struct node *n)
{
    n->b = parse_filter(p, NULL);
    n->c = parse_body(p, "endfilter");
}

/* transformers uses it to mark the model's text; the result is the body's text. */
static void parse_generation(struct parser *p, struct node *n)
{
    n->c = parse_closed_body(p, "endgeneration");
}

/* break or continue */
static void parse_jump(struct parser *p, struct node *n)
{
    (void)n;
    if (p->n_loops == 0) heap_fail(p->heap, "break and continue belong in a loop");
    end_tag(p);
}

static struct node *parse_tag(struct parser *p)
{
    static const struct {
        const char *name;
        enum node_kind kind;
        void (*parse)(struct parser *p, struct node *n); /* fills the node in */
    } tags[] = {
        {"if", NODE_IF, parse_if},
        {"for", NODE_FOR, parse_for},
        {"set", NODE_SET, parse_set},
        {"macro", NODE_MACRO, parse_macro},
        {"call", NODE_CALL_BLOCK, parse_call_block},
        {"filter", NODE_FILTER_BLOCK, parse_filter_block},
        {"generation", NODE_GENERATION, parse_generation},
        {"break", NODE_BREAK, parse_jump},
        {"continue", NODE_CONTINUE, parse_jump},
    };
    struct text name = parse_name(p);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!text_is(name, tags[i].name)) continue;
        struct node *n = parse_node(p, tags[i].kind);
        tags[i].parse(p, n);
        return n;
    }
    heap_fail(p->heap, "the tag '%s' is not known", utf8_show(name.data, name.n).text);
}

static struct node *parse_data(struct parser *p)
{
    struct node *n = parse_node(p, NODE_DATA);
    n->value = value_text(p->now.text);
    parse_next(p);
    return n;
}

static struct node *parse_print(struct parser *p)
{
    struct node *n = parse_node(p, NODE_PRINT);
    parse_next(p);
    n->a = parse_tuple(p, false);
    if (p->now.kind != LEX_PRINT_END) parse_fail(p, "the end of the expression");
    parse_next(p);
    return n;
}

/* Parses up to a tag of one of these names (NULL: to the end) and skips its {%. */
static struct node *parse_statements(struct parser *p, const char *const *ends)
{
    struct node *first = NULL, **end = &first;
    heap_enter(p->heap);
    for (;; end = &(*end)->next) {
        if (p->now.kind == LEX_DATA) {
            *end = parse_data(p);
        } else if (p->now.kind == LEX_PRINT) {
            *end = parse_print(p);
        } else if (p->now.kind == LEX_BLOCK) {
            parse_next(p);
            for (const char *const *k = ends; k && *k; k++)
                if (parse_sees_name(p, *k)) goto done;
            *end = parse_tag(p);
        } else if (!ends) {
            goto done;
        } else {
            heap_fail(p->heap, "a block has no end");
        }
    }
done:
    heap_leave(p->heap);
    return first;
}

struct node *parse_template(struct heap *h, const char *source, size_t n)
{
    struct parser p = {.heap = h};
    lexer_init(&p.lexer, h, source, n);
    p.now = lexer_next(&p.lexer);
    p.ahead = p.now.kind == LEX_END ? p.now : lexer_next(&p.lexer);
    return parse_statements(&p, NULL);
}
