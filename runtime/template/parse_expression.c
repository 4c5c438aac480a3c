/* parse_expression: the expressions of Jinja 3.1, lowest precedence first. */
#include <string.h>

#include "base/utf8.h"
#include "runtime/template/builtin.h"
#include "runtime/template/parse_parts.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

struct node *parse_node(struct parser *p, enum node_kind kind)
{
    struct node *n = heap_take(p->heap, 1, sizeof *n);
    n->kind = kind;
    n->line = p->now.line;
    return n;
}

void parse_next(struct parser *p)
{
    p->now = p->ahead;
    p->ahead = p->now.kind == LEX_END ? p->now : lexer_next(&p->lexer);
    p->heap->line = p->now.line;
}

bool parse_sees(const struct parser *p, int op)
{
    return p->now.kind == LEX_OPERATOR && p->now.op == op;
}

bool parse_sees_name(const struct parser *p, const char *name)
{
    return p->now.kind == LEX_NAME && text_is(p->now.text, name);
}

bool parse_skip(struct parser *p, int op)
{
    bool sees = parse_sees(p, op);
    if (sees) parse_next(p);
    return sees;
}

bool parse_skip_name(struct parser *p, const char *name)
{
    bool sees = parse_sees_name(p, name);
    if (sees) parse_next(p);
    return sees;
}

_Noreturn void parse_fail(struct parser *p, const char *expected)
{
    struct utf8_shown shown = utf8_show(p->now.text.data, p->now.text.n);
    heap_fail(p->heap, ERR_FORMAT, "expected %s, got '%s'", expected, shown.text);
}

void parse_expect(struct parser *p, int op, const char *text)
{
    if (!parse_skip(p, op)) parse_fail(p, text);
}

struct text parse_name(struct parser *p)
{
    struct text name = p->now.text;
    if (p->now.kind != LEX_NAME) parse_fail(p, "a name");
    parse_next(p);
    return name;
}

/* ---- arguments, filters, tests --------------------------------------------------------------- */

static struct node *parse_argument(struct parser *p, bool *keywords)
{
    struct node *arg = parse_node(p, NODE_ARGUMENT);
    if (parse_sees(p, '*') || parse_sees(p, LEX_POWER)) {
        arg->op = p->now.op;
        parse_next(p);
    } else if (p->now.kind == LEX_NAME && p->ahead.kind == LEX_OPERATOR && p->ahead.op == '=') {
        arg->value.as.text = parse_name(p);
        parse_next(p);
    }
    bool positional = arg->op == 0 && arg->value.as.text.n == 0;
    if (positional && *keywords) parse_fail(p, "a keyword argument");
    *keywords |= !positional;
    arg->a = parse_expression(p);
    return arg;
}

static struct node *parse_arguments(struct parser *p)
{
    struct node *first = NULL, **end = &first;
    bool keywords = false;
    parse_expect(p, '(', "'('");
    while (!parse_sees(p, ')')) {
        if (first) parse_expect(p, ',', "','");
        if (parse_sees(p, ')')) break;
        *end = parse_argument(p, &keywords);
        end = &(*end)->next;
    }
    parse_next(p);
    return first;
}

static struct node *parse_postfix(struct parser *p, struct node *n);

static struct text dotted_name(struct parser *p)
{
    struct text name = parse_name(p);
    while (parse_skip(p, '.')) {
        name = text_join2(p->heap, name, text_of("."));
        name = text_join2(p->heap, name, parse_name(p));
    }
    return name;
}

static struct node *parse_filter(struct parser *p, struct node *input)
{
    struct node *n = parse_node(p, NODE_FILTER);
    struct text name = dotted_name(p);
    n->a = input;
    n->value.as.text = name;
    n->builtin = filter_named(name);
    if (parse_sees(p, '(')) n->b = parse_arguments(p);
    return n;
}

struct node *parse_filters(struct parser *p, struct node *input)
{
    struct node *n = input;
    do n = parse_filter(p, n);
    while (parse_skip(p, '|'));
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
    struct text name = dotted_name(p);
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

/* Parses items up to the closing bracket. */
static struct node *parse_items(struct parser *p, struct node *n, int close)
{
    struct node **end = &n->a;
    parse_next(p);
    while (!parse_sees(p, close)) {
        if (n->a) parse_expect(p, ',', "','");
        if (parse_sees(p, close)) break;
        *end = parse_expression(p);
        end = &(*end)->next;
    }
    parse_next(p);
    return n;
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = parse_node(p, NODE_DICT), **end = &n->a;
    parse_next(p);
    while (!parse_sees(p, '}')) {
        if (n->a) parse_expect(p, ',', "','");
        if (parse_sees(p, '}')) break;
        struct node *pair = parse_node(p, NODE_PAIR);
        pair->a = parse_expression(p);
        parse_expect(p, ':', "':'");
        pair->b = parse_expression(p);
        *end = pair;
        end = &pair->next;
    }
    parse_next(p);
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

struct node *parse_primary(struct parser *p)
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
    if (parse_sees(p, '[')) return parse_items(p, parse_node(p, NODE_LIST), ']');
    if (parse_sees(p, '{')) return parse_dict(p);
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
    if (parse_sees(p, '-') || parse_sees(p, '+')) {
        n = binary(p, NODE_UNARY, NULL);
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
enum { LEVELS = 4, LEVEL_MAX = 4 };
static const int operators[LEVELS][LEVEL_MAX] = {
    {LEX_POWER}, {'*', '/', LEX_FLOOR, '%'}, {'~'}, {'+', '-'}};

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
    struct node *first = parse_binary(p, LEVELS - 1), *n = NULL, **end = NULL;
    for (int op; (op = comparison(p));) {
        if (!n) {
            n = parse_node(p, NODE_COMPARE);
            n->a = first;
            end = &n->b;
        }
        *end = parse_node(p, NODE_OPERAND);
        (*end)->op = op;
        (*end)->a = parse_binary(p, LEVELS - 1);
        end = &(*end)->next;
    }
    return n ? n : first;
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

static struct node *parse_and(struct parser *p)
{
    struct node *n = parse_not(p);
    while (parse_sees_name(p, "and")) {
        n = binary(p, NODE_AND, n);
        n->b = parse_not(p);
    }
    return n;
}

static struct node *parse_or(struct parser *p)
{
    struct node *n = parse_and(p);
    while (parse_sees_name(p, "or")) {
        n = binary(p, NODE_OR, n);
        n->b = parse_and(p);
    }
    return n;
}

struct node *parse_expression(struct parser *p)
{
    heap_enter(p->heap);
    struct node *n = parse_or(p);
    while (parse_sees_name(p, "if")) {
        struct node *then = n;
        n = binary(p, NODE_IF_ELSE, NULL);
        n->b = then;
        n->a = parse_or(p);
        if (parse_skip_name(p, "else")) n->c = parse_expression(p);
    }
    heap_leave(p->heap);
    return n;
}

static bool tuple_ends(const struct parser *p)
{
    return p->now.kind == LEX_BLOCK_END || p->now.kind == LEX_PRINT_END || parse_sees(p, ')');
}

struct node *parse_tuple(struct parser *p, bool in_for)
{
    struct node *n = in_for ? parse_or(p) : parse_expression(p);
    if (!parse_sees(p, ',')) return n;
    struct node *tuple = parse_node(p, NODE_TUPLE), **end = &n->next;
    tuple->a = n;
    while (parse_skip(p, ',') && !tuple_ends(p)) {
        *end = in_for ? parse_or(p) : parse_expression(p);
        end = &(*end)->next;
    }
    return tuple;
}
