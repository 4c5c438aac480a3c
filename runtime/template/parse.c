/* parse: the statements of Jinja 3.1 that chat templates use. */
#include "base/utf8.h"
#include "runtime/template/parse_parts.h"

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

/* Fails unless n is a name, or a tuple of assignable targets. */
static void check_target(struct parser *p, const struct node *n)
{
    if (n->kind != NODE_NAME && n->kind != NODE_TUPLE) parse_fail(p, "a name to assign to");
    for (const struct node *k = n->kind == NODE_TUPLE ? n->a : NULL; k; k = k->next)
        check_target(p, k);
}

/* a, a.b (of a namespace), or several with commas. */
static struct node *parse_target(struct parser *p, bool attribute)
{
    struct node *n = parse_primary(p);
    check_target(p, n);
    if (attribute && n->kind == NODE_NAME && parse_skip(p, '.')) {
        struct node *of = n;
        n = parse_node(p, NODE_ATTRIBUTE);
        n->a = of;
        n->value = value_text(parse_name(p));
    }
    if (!parse_sees(p, ',')) return n;
    struct node *tuple = parse_node(p, NODE_TUPLE), **end = &n->next;
    tuple->a = n;
    while (parse_skip(p, ',') && !parse_sees_name(p, "in") && !parse_sees(p, '=')) {
        *end = parse_primary(p);
        check_target(p, *end);
        end = &(*end)->next;
    }
    return tuple;
}

static struct node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *n = parse_node(p, NODE_IF), **end = &n->a;
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
    return n;
}

/* `loop` has the loop's own facts. */
static bool names_loop(const struct node *n)
{
    if (n->kind == NODE_NAME) return text_is(n->value.as.text, "loop");
    for (const struct node *k = n->a; k; k = k->next)
        if (names_loop(k)) return true;
    return false;
}

static struct node *parse_for(struct parser *p)
{
    struct node *n = parse_node(p, NODE_FOR);
    n->a = parse_target(p, false);
    if (names_loop(n->a)) parse_fail(p, "a name other than loop");
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
    return n;
}

static struct node *parse_set(struct parser *p)
{
    struct node *n = parse_node(p, NODE_SET);
    n->a = parse_target(p, true);
    if (parse_skip(p, '=')) {
        n->b = parse_tuple(p, false);
        end_tag(p);
        return n;
    }
    n->kind = NODE_SET_BLOCK;
    if (parse_skip(p, '|')) n->b = parse_filters(p, NULL);
    n->c = parse_body(p, "endset");
    return n;
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

static struct node *parse_macro(struct parser *p)
{
    struct node *n = parse_node(p, NODE_MACRO);
    n->value = value_text(parse_name(p));
    n->a = parse_parameters(p);
    n->c = parse_closed_body(p, "endmacro");
    return n;
}

static struct node *parse_call_block(struct parser *p)
{
    struct node *n = parse_node(p, NODE_CALL_BLOCK);
    if (parse_sees(p, '(')) n->a = parse_parameters(p);
    n->b = parse_expression(p);
    if (n->b->kind != NODE_CALL) parse_fail(p, "a call");
    n->c = parse_closed_body(p, "endcall");
    return n;
}

static struct node *parse_filter_block(struct parser *p)
{
    struct node *n = parse_node(p, NODE_FILTER_BLOCK);
    n->b = parse_filters(p, NULL);
    n->c = parse_body(p, "endfilter");
    return n;
}

static struct node *parse_with(struct parser *p)
{
    struct node *n = parse_node(p, NODE_WITH), **end = &n->a;
    while (p->now.kind != LEX_BLOCK_END) {
        if (n->a) parse_expect(p, ',', "','");
        struct node *set = parse_node(p, NODE_SET);
        set->a = parse_primary(p);
        if (set->a->kind != NODE_NAME) parse_fail(p, "a name to assign to");
        parse_expect(p, '=', "'='");
        set->b = parse_expression(p);
        *end = set;
        end = &set->next;
    }
    n->c = parse_body(p, "endwith");
    return n;
}

/* transformers uses it to mark the model's text; the result is the body's text. */
static struct node *parse_generation(struct parser *p)
{
    struct node *n = parse_node(p, NODE_WITH);
    n->c = parse_closed_body(p, "endgeneration");
    return n;
}

static struct node *parse_jump(struct parser *p, enum node_kind kind)
{
    struct node *n = parse_node(p, kind);
    if (p->n_loops == 0) heap_fail(p->heap, ERR_FORMAT, "break and continue belong in a loop");
    end_tag(p);
    return n;
}

static struct node *parse_break(struct parser *p)
{
    return parse_jump(p, NODE_BREAK);
}

static struct node *parse_continue(struct parser *p)
{
    return parse_jump(p, NODE_CONTINUE);
}

static struct node *parse_tag(struct parser *p)
{
    static const struct {
        const char *name;
        struct node *(*parse)(struct parser *);
    } tags[] = {
        {"if", parse_if},           {"for", parse_for},
        {"set", parse_set},         {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"break", parse_break},     {"continue", parse_continue},
    };
    struct text name = parse_name(p);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (text_is(name, tags[i].name)) return tags[i].parse(p);
    heap_fail(p->heap, ERR_FORMAT, "the tag '%s' is not known", utf8_show(name.data, name.n).text);
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
            heap_fail(p->heap, ERR_FORMAT, "a block has no end");
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
