/* SPDX-License-Identifier: Apache-2.0
 * Parses expressions by recursive descent over the levels of precedence.
 */
#include "base/check.h"
#include "serving/jinja/parse/jinja_parser.h"

static bool parse_unary(struct jinja_parser *parser, bool filters, struct node **out);

static struct node *binary(struct jinja_parser *parser, enum node_kind kind, uint32_t line,
                           struct node *a, struct node *b) {
    struct node *node = jinja_parser_node(parser, kind, line);
    if (!node) return NULL;
    node->a = a;
    node->b = b;
    return node;
}

static bool constant(struct jinja_parser *parser, uint32_t line, struct value value,
                     struct node **out) {
    *out = jinja_parser_node(parser, NODE_CONSTANT, line);
    if (!*out) return false;
    (*out)->value = value;
    return true;
}

/* ---- primaries ---- */

bool jinja_expression_constant(struct bytes name, struct value *out) {
    static const struct {
        const char *name;
        struct value value;
    } constants[] = {
        {"true", {.kind = VALUE_BOOL, .truth = true}},
        {"True", {.kind = VALUE_BOOL, .truth = true}},
        {"false", {.kind = VALUE_BOOL, .truth = false}},
        {"False", {.kind = VALUE_BOOL, .truth = false}},
        {"none", {.kind = VALUE_NONE}},
        {"None", {.kind = VALUE_NONE}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(constants); i++) {
        if (!bytes_equal(name, bytes_of(constants[i].name))) continue;
        *out = constants[i].value;
        return true;
    }
    return false;
}

static bool jinja_expression_parse_name(struct jinja_parser *parser, unsigned rules,
                                        struct node **out) {
    const struct lexeme *token = parser->at++;
    struct value value;
    uint32_t number;
    if (!jinja_parser_word(parser, token->text, &number, &value)) return false;
    if (jinja_expression_constant(token->text, &value))
        return constant(parser, token->line, value, out);
    bool member = rules & TUPLE_NAMESPACE && jinja_parser_is(parser, LEXEME_DOT);
    *out = jinja_parser_node(parser, member ? NODE_MEMBER : NODE_NAME, token->line);
    if (!*out) return false;
    if (member) {
        parser->at++;
        const struct lexeme *attribute = parser->at;
        if (!jinja_parser_expect(parser, LEXEME_NAME, "name")) return false;
        struct node *name = jinja_parser_node(parser, NODE_NAME, token->line);
        if (!name) return false;
        name->value = value;
        name->count = number;
        (*out)->a = name;
        return jinja_parser_word(parser, attribute->text, &number, &(*out)->value);
    }
    (*out)->value = value;
    (*out)->count = number;
    return true;
}

static bool parse_string(struct jinja_parser *parser, struct node **out) {
    const struct lexeme *token = parser->at++;
    struct bytes text = token->text;
    struct value value;
    uint32_t number;
    while (jinja_parser_is(parser, LEXEME_STRING)) {
        struct bytes more = (parser->at++)->text;
        char *joined = machine_take(parser->machine, text.count + more.count + 1);
        if (!joined || !machine_spend(parser->machine, text.count / 64)) return false;
        memcpy(joined, text.data, text.count);
        memcpy(joined + text.count, more.data, more.count);
        text = (struct bytes){joined, text.count + more.count};
    }
    if (!jinja_parser_word(parser, text, &number, &value)) return false;
    return constant(parser, token->line, value, out);
}

/* Parses an item of a list, or a pair of a dict. */
static bool parse_item(struct jinja_parser *parser, bool pair, struct node **out) {
    struct node *value;
    if (!jinja_expression_parse(parser, true, out)) return false;
    if (!pair) return true;
    if (!jinja_parser_expect(parser, LEXEME_COLON, ":") ||
        !jinja_expression_parse(parser, true, &value))
        return false;
    *out = binary(parser, NODE_PAIR, (*out)->line, *out, value);
    return *out != NULL;
}

/* Parses a list in brackets, or a dict in braces. */
static bool parse_items(struct jinja_parser *parser, struct node **out) {
    bool dict = jinja_parser_is(parser, LEXEME_BRACE_LEFT);
    enum lexeme_kind end = dict ? LEXEME_BRACE_RIGHT : LEXEME_BRACKET_RIGHT;
    struct node *item;
    struct node_list items = {0};
    *out = jinja_parser_node(parser, dict ? NODE_DICT : NODE_LIST, parser->at->line);
    if (!*out) return false;
    parser->at++;
    while (!jinja_parser_is(parser, end)) {
        if (items.count && !jinja_parser_expect(parser, LEXEME_COMMA, ",")) return false;
        if (jinja_parser_is(parser, end)) break;
        if (!parse_item(parser, dict, &item)) return false;
        jinja_parser_append(&items, item);
    }
    (*out)->list = items.first;
    (*out)->count = items.count;
    return jinja_parser_expect(parser, end, dict ? "}" : "]");
}

static bool parse_primary(struct jinja_parser *parser, unsigned rules, struct node **out) {
    const struct lexeme *token = parser->at;
    switch (token->kind) {
    case LEXEME_NAME:
        return jinja_expression_parse_name(parser, rules, out);
    case LEXEME_STRING:
        return parse_string(parser, out);
    case LEXEME_INTEGER:
        parser->at++;
        return constant(parser, token->line, value_integer(token->integer), out);
    case LEXEME_REAL:
        parser->at++;
        return constant(parser, token->line, value_real(token->real), out);
    case LEXEME_PARENTHESIS_LEFT:
        parser->at++;
        return jinja_expression_tuple(parser, TUPLE_PARENTHESES, out) &&
               jinja_parser_expect(parser, LEXEME_PARENTHESIS_RIGHT, ")");
    case LEXEME_BRACKET_LEFT:
    case LEXEME_BRACE_LEFT:
        return parse_items(parser, out);
    default:
        return jinja_parser_unexpected(parser, NULL);
    }
}

/* ---- postfix operators ---- */

/* Parses a bound of a slice, if there is one before the colon or the end. */
static bool parse_bound(struct jinja_parser *parser, struct node **out) {
    *out = NULL;
    if (jinja_parser_is(parser, LEXEME_COLON) || jinja_parser_is(parser, LEXEME_BRACKET_RIGHT) ||
        jinja_parser_is(parser, LEXEME_COMMA))
        return true;
    return jinja_expression_parse(parser, true, out);
}

static bool parse_subscribed(struct jinja_parser *parser, struct node *object, struct node **out) {
    uint32_t line = parser->at->line;
    struct node *start = NULL, *stop, *step = NULL;
    if (!jinja_parser_is(parser, LEXEME_COLON) && !jinja_expression_parse(parser, true, &start))
        return false;
    if (!jinja_parser_skip(parser, LEXEME_COLON)) {
        *out = start;
        return true;
    }
    if (!parse_bound(parser, &stop)) return false;
    if (jinja_parser_skip(parser, LEXEME_COLON) && !parse_bound(parser, &step)) return false;
    struct node *slice = jinja_parser_node(parser, NODE_SLICE, line);
    if (!slice) return false;
    slice->a = object;
    slice->b = start;
    slice->c = stop;
    slice->list = step;
    *out = slice;
    return true;
}

static bool parse_attribute(struct jinja_parser *parser, struct node *object, struct node **out) {
    const struct lexeme *token = parser->at++;
    uint32_t number;
    if (token->kind == LEXEME_INTEGER) {
        struct node *index;
        if (!constant(parser, token->line, value_integer(token->integer), &index)) return false;
        *out = binary(parser, NODE_ITEM, token->line, object, index);
        return *out != NULL;
    }
    if (token->kind != LEXEME_NAME) {
        parser->at = token;
        return machine_fail(parser->machine, "expected name or number");
    }
    struct node *node = binary(parser, NODE_ATTRIBUTE, token->line, object, NULL);
    if (!node || !jinja_parser_word(parser, token->text, &number, &node->value)) return false;
    node->text_method = methods_find(VALUE_TEXT, token->text);
    node->list_method = methods_find(VALUE_LIST, token->text);
    node->dict_method = methods_find(VALUE_DICT, token->text);
    node->flag = node->dict_method != NULL;
    *out = node;
    return true;
}

static bool parse_subscript(struct jinja_parser *parser, struct node *object, struct node **out) {
    uint32_t line = parser->at->line;
    struct node *item;
    if ((parser->at++)->kind == LEXEME_DOT) return parse_attribute(parser, object, out);
    if (!parse_subscribed(parser, object, &item)) return false;
    if (jinja_parser_is(parser, LEXEME_COMMA))
        return machine_fail(parser->machine, "a tuple as a subscript is not supported");
    if (!jinja_parser_expect(parser, LEXEME_BRACKET_RIGHT, "]")) return false;
    *out = item->kind == NODE_SLICE && item->a == object
               ? item
               : binary(parser, NODE_ITEM, line, object, item);
    return *out != NULL;
}

struct parsed_arguments {
    struct node_list positional, named;
    struct node *rest;
};

static bool parse_keyword(struct jinja_parser *parser, struct parsed_arguments *arguments) {
    struct node *keyword = jinja_parser_node(parser, NODE_KEYWORD, parser->at->line);
    uint32_t number;
    if (!keyword || !jinja_parser_word(parser, parser->at->text, &number, &keyword->value))
        return false;
    for (struct node *other = arguments->named.first; other; other = other->next)
        if (other->value.text == keyword->value.text)
            return machine_fail(parser->machine, "keyword argument repeated: %s",
                                keyword->value.text->data);
    parser->at += 2;
    if (!jinja_expression_parse(parser, true, &keyword->a)) return false;
    jinja_parser_append(&arguments->named, keyword);
    return true;
}

static bool parse_argument(struct jinja_parser *parser, struct parsed_arguments *arguments) {
    bool named = parser->at->kind == LEXEME_NAME && parser->at[1].kind == LEXEME_ASSIGN;
    struct node *node;
    const char *wrong = "invalid syntax for function call expression";
    if (jinja_parser_is(parser, LEXEME_MULTIPLY)) {
        if (arguments->rest) return machine_fail(parser->machine, "%s", wrong);
        parser->at++;
        return jinja_expression_parse(parser, true, &arguments->rest);
    }
    if (jinja_parser_is(parser, LEXEME_POWER))
        return machine_fail(parser->machine, "** in a call is not supported");
    if (named) return parse_keyword(parser, arguments);
    if (arguments->rest || arguments->named.count)
        return machine_fail(parser->machine, "%s", wrong);
    if (!jinja_expression_parse(parser, true, &node)) return false;
    jinja_parser_append(&arguments->positional, node);
    return true;
}

/* Parses arguments in parentheses into `call`. */
static bool jinja_expression_parse_arguments(struct jinja_parser *parser, struct node *call) {
    struct parsed_arguments arguments = {0};
    bool behind = false;
    parser->at++;
    while (!jinja_parser_is(parser, LEXEME_PARENTHESIS_RIGHT)) {
        if (behind && !jinja_parser_expect(parser, LEXEME_COMMA, ",")) return false;
        if (behind && jinja_parser_is(parser, LEXEME_PARENTHESIS_RIGHT)) break;
        if (!parse_argument(parser, &arguments)) return false;
        behind = true;
    }
    call->count = arguments.positional.count;
    call->list = arguments.positional.first ? arguments.positional.first : arguments.named.first;
    if (arguments.positional.last) arguments.positional.last->next = arguments.named.first;
    call->rest = arguments.rest;
    return jinja_parser_expect(parser, LEXEME_PARENTHESIS_RIGHT, ")");
}

static bool parse_call(struct jinja_parser *parser, struct node *callee, struct node **out) {
    struct node *call = binary(parser, NODE_CALL, parser->at->line, callee, NULL);
    if (!call) return false;
    *out = call;
    return jinja_expression_parse_arguments(parser, call);
}

static bool parse_postfix(struct jinja_parser *parser, struct node **node) {
    for (;;) {
        if (jinja_parser_is(parser, LEXEME_DOT) || jinja_parser_is(parser, LEXEME_BRACKET_LEFT)) {
            if (!parse_subscript(parser, *node, node)) return false;
        } else if (jinja_parser_is(parser, LEXEME_PARENTHESIS_LEFT)) {
            if (!parse_call(parser, *node, node)) return false;
        } else {
            return true;
        }
    }
}

/* Parses the name of a filter or a test. */
static bool parse_routine_name(struct jinja_parser *parser, struct value *out) {
    struct bytes name = parser->at->text;
    uint32_t number;
    return jinja_parser_expect(parser, LEXEME_NAME, "name") &&
           jinja_parser_word(parser, name, &number, out);
}

static struct bytes jinja_expression_text_of(const struct node *node) {
    return value_text_bytes(node->value.text);
}

bool jinja_expression_filters(struct jinja_parser *parser, struct node *node, bool inline_start,
                              struct node **out) {
    while (inline_start || jinja_parser_is(parser, LEXEME_PIPE)) {
        if (!inline_start) parser->at++;
        struct node *filter = binary(parser, NODE_FILTER, parser->at->line, node, NULL);
        if (!filter || !parse_routine_name(parser, &filter->value)) return false;
        filter->routine = filters_find(jinja_expression_text_of(filter));
        if (jinja_parser_is(parser, LEXEME_PARENTHESIS_LEFT) &&
            !jinja_expression_parse_arguments(parser, filter))
            return false;
        node = filter;
        inline_start = false;
    }
    *out = node;
    return true;
}

/* Parses the single argument of a test without parentheses. */
static bool parse_bare_argument(struct jinja_parser *parser, struct node *test) {
    enum lexeme_kind kind = parser->at->kind;
    if (kind != LEXEME_NAME && kind != LEXEME_STRING && kind != LEXEME_INTEGER &&
        kind != LEXEME_REAL && kind != LEXEME_BRACKET_LEFT && kind != LEXEME_BRACE_LEFT)
        return true;
    if (jinja_parser_is_name(parser, "else") || jinja_parser_is_name(parser, "or") ||
        jinja_parser_is_name(parser, "and"))
        return true;
    if (jinja_parser_is_name(parser, "is"))
        return machine_fail(parser->machine, "You cannot chain multiple tests with is");
    if (!parse_primary(parser, 0, &test->list) || !parse_postfix(parser, &test->list)) return false;
    test->count = 1;
    return true;
}

static bool parse_test(struct jinja_parser *parser, struct node *node, struct node **out) {
    uint32_t line = (parser->at++)->line;
    bool negated = jinja_parser_skip_name(parser, "not");
    struct node *test = binary(parser, NODE_TEST, line, node, NULL);
    if (!test || !parse_routine_name(parser, &test->value)) return false;
    test->routine = tests_find(jinja_expression_text_of(test));
    if (jinja_parser_is(parser, LEXEME_PARENTHESIS_LEFT)) {
        if (!jinja_expression_parse_arguments(parser, test)) return false;
    } else if (!parse_bare_argument(parser, test)) {
        return false;
    }
    *out = negated ? binary(parser, NODE_NOT, line, test, NULL) : test;
    return *out != NULL;
}

static bool parse_filtered(struct jinja_parser *parser, struct node **node) {
    for (;;) {
        if (jinja_parser_is(parser, LEXEME_PIPE)) {
            if (!jinja_expression_filters(parser, *node, false, node)) return false;
        } else if (jinja_parser_is_name(parser, "is")) {
            if (!parse_test(parser, *node, node)) return false;
        } else if (jinja_parser_is(parser, LEXEME_PARENTHESIS_LEFT)) {
            if (!parse_call(parser, *node, node)) return false;
        } else {
            return true;
        }
    }
}

/* ---- operators, by decreasing precedence ---- */

static bool parse_signed(struct jinja_parser *parser, bool filters, struct node **out) {
    const struct lexeme *token = parser->at;
    if (token->kind == LEXEME_SUBTRACT || token->kind == LEXEME_ADD) {
        struct node *operand;
        parser->at++;
        if (!parse_unary(parser, false, &operand)) return false;
        *out = binary(parser, token->kind == LEXEME_ADD ? NODE_POSITIVE : NODE_NEGATIVE,
                      token->line, operand, NULL);
        if (!*out) return false;
    } else if (!parse_primary(parser, 0, out)) {
        return false;
    }
    return parse_postfix(parser, out) && (!filters || parse_filtered(parser, out));
}

static bool parse_unary(struct jinja_parser *parser, bool filters, struct node **out) {
    if (parser->depth >= NODE_DEPTH_MAX)
        return machine_exceed(parser->machine, "levels of nesting");
    parser->depth++;
    bool done = parse_signed(parser, filters, out);
    parser->depth--;
    return done;
}

/* The operation of a lexeme at a level of precedence. Returns false if it has none. */
static bool operation_of(enum lexeme_kind kind, unsigned level, enum node_operation *out) {
    static const struct {
        enum lexeme_kind kind;
        unsigned level;
        enum node_operation operation;
    } operations[] = {
        {LEXEME_MULTIPLY, 1, OPERATION_MULTIPLY},
        {LEXEME_MODULO, 1, OPERATION_MODULO},
        {LEXEME_ADD, 3, OPERATION_ADD},
        {LEXEME_SUBTRACT, 3, OPERATION_SUBTRACT},
        {LEXEME_EQUAL, 4, OPERATION_EQUAL},
        {LEXEME_UNEQUAL, 4, OPERATION_UNEQUAL},
        {LEXEME_LESS, 4, OPERATION_LESS},
        {LEXEME_LESS_EQUAL, 4, OPERATION_LESS_EQUAL},
        {LEXEME_GREATER, 4, OPERATION_GREATER},
        {LEXEME_GREATER_EQUAL, 4, OPERATION_GREATER_EQUAL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
        if (operations[i].kind != kind || operations[i].level != level) continue;
        *out = operations[i].operation;
        return true;
    }
    return false;
}

static bool parse_concatenation(struct jinja_parser *parser, struct node **out);

/* Parses arithmetic. Level 1 has * / // %, level 2 has ~, level 3 has + and -. */
static bool parse_level(struct jinja_parser *parser, unsigned level, struct node **out) {
    if (level == 2) return parse_concatenation(parser, out);
    uint32_t line = parser->at->line;
    struct node *right;
    enum node_operation operation;
    if (!(level > 1 ? parse_level(parser, level - 1, out) : parse_unary(parser, true, out)))
        return false;
    while (operation_of(parser->at->kind, level, &operation)) {
        parser->at++;
        if (!(level > 1 ? parse_level(parser, level - 1, &right)
                        : parse_unary(parser, true, &right)))
            return false;
        *out = binary(parser, NODE_ARITHMETIC, line, *out, right);
        if (!*out) return false;
        (*out)->operation = (uint8_t)operation;
        line = parser->at->line;
    }
    static const struct {
        enum lexeme_kind kind;
        const char *text;
    } refused[] = {{LEXEME_POWER, "**"}, {LEXEME_DIVIDE, "/"}, {LEXEME_FLOOR, "//"}};
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++)
        if (jinja_parser_is(parser, refused[i].kind))
            return machine_fail(parser->machine, "the operator %s is not supported",
                                refused[i].text);
    return true;
}

static bool parse_concatenation(struct jinja_parser *parser, struct node **out) {
    uint32_t line = parser->at->line;
    struct node_list items = {0};
    struct node *item;
    if (!parse_level(parser, 1, out)) return false;
    if (!jinja_parser_is(parser, LEXEME_TILDE)) return true;
    struct node *node = jinja_parser_node(parser, NODE_CONCATENATE, line);
    if (!node) return false;
    jinja_parser_append(&items, *out);
    while (jinja_parser_skip(parser, LEXEME_TILDE)) {
        if (!parse_level(parser, 1, &item)) return false;
        jinja_parser_append(&items, item);
    }
    node->list = items.first;
    node->count = items.count;
    *out = node;
    return true;
}

static bool comparison_at(struct jinja_parser *parser, enum node_operation *out) {
    if (operation_of(parser->at->kind, 4, out)) {
        parser->at++;
        return true;
    }
    if (jinja_parser_skip_name(parser, "in")) {
        *out = OPERATION_IN;
        return true;
    }
    if (!jinja_parser_is_name(parser, "not") || parser->at[1].kind != LEXEME_NAME ||
        !bytes_equal(parser->at[1].text, bytes_of("in")))
        return false;
    parser->at += 2;
    *out = OPERATION_NOT_IN;
    return true;
}

static bool parse_comparison(struct jinja_parser *parser, struct node **out) {
    struct node_list operands = {0};
    struct node *value, *compare = NULL;
    enum node_operation operation;
    uint32_t line = parser->at->line;
    if (!parse_level(parser, 3, out)) return false;
    while (comparison_at(parser, &operation)) {
        if (!parse_level(parser, 3, &value)) return false;
        if (!compare) compare = binary(parser, NODE_COMPARE, line, *out, NULL);
        struct node *operand = binary(parser, NODE_OPERAND, line, value, NULL);
        if (!compare || !operand) return false;
        operand->operation = (uint8_t)operation;
        jinja_parser_append(&operands, operand);
    }
    if (!compare) return true;
    compare->list = operands.first;
    compare->count = operands.count;
    *out = compare;
    return true;
}

static bool parse_not(struct jinja_parser *parser, struct node **out) {
    uint32_t line = parser->at->line, count = 0;
    while (jinja_parser_skip_name(parser, "not"))
        count++;
    if (!parse_comparison(parser, out)) return false;
    for (; count && *out; count--)
        *out = binary(parser, NODE_NOT, line, *out, NULL);
    return *out != NULL;
}

/* Parses `or` if `either`, else `and`. */
static bool parse_logic(struct jinja_parser *parser, bool either, struct node **out) {
    uint32_t line = parser->at->line;
    struct node *right;
    if (!(either ? parse_logic(parser, false, out) : parse_not(parser, out))) return false;
    while (jinja_parser_skip_name(parser, either ? "or" : "and")) {
        if (!(either ? parse_logic(parser, false, &right) : parse_not(parser, &right)))
            return false;
        *out = binary(parser, either ? NODE_OR : NODE_AND, line, *out, right);
        if (!*out) return false;
    }
    return true;
}

static bool parse_condition(struct jinja_parser *parser, struct node **out) {
    uint32_t line = parser->at->line;
    struct node *test, *otherwise;
    if (!parse_logic(parser, true, out)) return false;
    while (jinja_parser_skip_name(parser, "if")) {
        if (!parse_logic(parser, true, &test)) return false;
        otherwise = NULL;
        if (jinja_parser_skip_name(parser, "else") &&
            !jinja_expression_parse(parser, true, &otherwise))
            return false;
        struct node *node = binary(parser, NODE_CONDITION, line, test, *out);
        if (!node) return false;
        node->c = otherwise;
        *out = node;
    }
    return true;
}

bool jinja_expression_parse(struct jinja_parser *parser, bool conditions, struct node **out) {
    if (parser->depth >= NODE_DEPTH_MAX)
        return machine_exceed(parser->machine, "levels of nesting");
    parser->depth++;
    bool done = conditions ? parse_condition(parser, out) : parse_logic(parser, true, out);
    parser->depth--;
    return done;
}

/* ---- tuples and targets ---- */

static bool tuple_ends(const struct jinja_parser *parser) {
    enum lexeme_kind kind = parser->at->kind;
    return kind == LEXEME_PRINT_END || kind == LEXEME_BLOCK_END || kind == LEXEME_PARENTHESIS_RIGHT;
}

bool jinja_expression_tuple(struct jinja_parser *parser, unsigned rules, struct node **out) {
    struct node_list items = {0};
    struct node *item;
    uint32_t line = parser->at->line;
    bool is_tuple = false;
    for (;;) {
        if (items.count && !jinja_parser_expect(parser, LEXEME_COMMA, ",")) return false;
        if (tuple_ends(parser)) break;
        if (!(rules & TUPLE_SIMPLE
                  ? parse_primary(parser, rules & TUPLE_NAMESPACE, &item)
                  : jinja_expression_parse(parser, !(rules & TUPLE_NO_CONDITION), &item)))
            return false;
        jinja_parser_append(&items, item);
        if (!jinja_parser_is(parser, LEXEME_COMMA)) break;
        is_tuple = true;
    }
    if (!is_tuple && items.count) {
        *out = items.first;
        return true;
    }
    if (!is_tuple && !(rules & TUPLE_PARENTHESES))
        return jinja_parser_unexpected(parser, "an expression");
    struct node *tuple = jinja_parser_node(parser, NODE_TUPLE, line);
    if (!tuple) return false;
    tuple->list = items.first;
    tuple->count = items.count;
    *out = tuple;
    return true;
}

static bool jinja_expression_check_target(struct jinja_parser *parser, const struct node *node) {
    if (node->kind == NODE_NAME || node->kind == NODE_MEMBER) return true;
    if (node->kind != NODE_TUPLE)
        return machine_fail(parser->machine, "can't assign to an expression; a name is wanted");
    for (const struct node *item = node->list; item; item = item->next)
        if (!jinja_expression_check_target(parser, item)) return false;
    return true;
}

bool jinja_expression_target(struct jinja_parser *parser, unsigned rules, struct node **out) {
    return jinja_expression_tuple(parser, rules | TUPLE_SIMPLE, out) &&
           jinja_expression_check_target(parser, *out);
}
