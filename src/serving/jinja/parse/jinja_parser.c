/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/parse/jinja_parser.h"

#include "base/check.h"
#include "base/utf8.h"

static bool parse_until(struct jinja_parser *parser, const char *const *ends, struct node **out);

/* ---- tools ---- */

struct node *jinja_parser_node(struct jinja_parser *parser, enum node_kind kind, uint32_t line) {
    struct node *node = machine_take(parser->machine, sizeof *node);
    if (!node) return NULL;
    memset(node, 0, sizeof *node);
    node->kind = kind;
    node->line = line;
    parser->machine->line = parser->at->line;
    return node;
}

void jinja_parser_append(struct node_list *list, struct node *node) {
    if (list->last)
        list->last->next = node;
    else
        list->first = node;
    list->last = node;
    list->count++;
}

uint32_t jinja_parser_number(const struct jinja_program *program, struct bytes text) {
    uint32_t mask = program->word_index_count - 1;
    uint32_t at = (uint32_t)value_compare_text_hash(text.data, text.count) & mask;
    for (; program->word_index[at]; at = (at + 1) & mask)
        if (bytes_equal(value_text_bytes(program->words[program->word_index[at] - 1].text), text))
            return program->word_index[at] - 1;
    return program->word_count;
}

static bool words_grow(struct jinja_parser *parser) {
    struct jinja_program *program = parser->program;
    uint32_t capacity = program->word_capacity ? 2 * program->word_capacity : 256;
    struct value *words = machine_take(parser->machine, capacity * sizeof *words);
    uint32_t *index = machine_take(parser->machine, 2 * (size_t)capacity * sizeof *index);
    if (!words || !index) return false;
    if (program->word_count) memcpy(words, program->words, program->word_count * sizeof *words);
    memset(index, 0, 2 * (size_t)capacity * sizeof *index);
    for (uint32_t i = 0; i < program->word_count; i++) {
        uint32_t at = (uint32_t)words[i].text->hash & (2 * capacity - 1);
        while (index[at])
            at = (at + 1) & (2 * capacity - 1);
        index[at] = i + 1;
    }
    program->words = words;
    program->word_index = index;
    program->word_capacity = capacity;
    program->word_index_count = 2 * capacity;
    return true;
}

bool jinja_parser_word(struct jinja_parser *parser, struct bytes text, uint32_t *number_out,
                       struct value *out) {
    struct jinja_program *program = parser->program;
    if (program->word_count == program->word_capacity && !words_grow(parser)) return false;
    *number_out = jinja_parser_number(program, text);
    if (*number_out < program->word_count) {
        *out = program->words[*number_out];
        return true;
    }
    uint64_t hash = value_compare_text_hash(text.data, text.count);
    uint32_t at = (uint32_t)hash & (program->word_index_count - 1);
    while (program->word_index[at])
        at = (at + 1) & (program->word_index_count - 1);
    char *copy = machine_take(parser->machine, text.count + 1); /* terminated, for messages */
    if (!copy) return false;
    memcpy(copy, text.data, text.count);
    copy[text.count] = '\0';
    if (!value_make_text(parser->machine, "", 0, VALUE_TRUSTED, out)) return false;
    out->text->data = copy;
    out->text->count = (uint32_t)text.count;
    out->text->length = (uint32_t)utf8_count((struct bytes){copy, text.count});
    out->text->hash = hash;
    program->words[program->word_count++] = *out;
    program->word_index[at] = program->word_count;
    return true;
}

bool jinja_parser_is(const struct jinja_parser *parser, enum lexeme_kind kind) {
    return parser->at->kind == kind;
}

bool jinja_parser_is_name(const struct jinja_parser *parser, const char *name) {
    return parser->at->kind == LEXEME_NAME && bytes_equal(parser->at->text, bytes_of(name));
}

bool jinja_parser_skip(struct jinja_parser *parser, enum lexeme_kind kind) {
    if (parser->at->kind != kind) return false;
    parser->at++;
    return true;
}

bool jinja_parser_skip_name(struct jinja_parser *parser, const char *name) {
    if (!jinja_parser_is_name(parser, name)) return false;
    parser->at++;
    return true;
}

static const char *lexeme_word(enum lexeme_kind kind) {
    switch (kind) {
    case LEXEME_END:
        return "end of template";
    case LEXEME_DATA:
        return "template data";
    case LEXEME_BLOCK_BEGIN:
        return "begin of statement block";
    case LEXEME_BLOCK_END:
        return "end of statement block";
    case LEXEME_PRINT_BEGIN:
        return "begin of print statement";
    case LEXEME_PRINT_END:
        return "end of print statement";
    case LEXEME_STRING:
        return "a string";
    case LEXEME_INTEGER:
    case LEXEME_REAL:
        return "a number";
    default:
        return "an operator";
    }
}

void jinja_parser_note_unexpected(struct jinja_parser *parser, const char *expected) {
    const struct lexeme *token = parser->at;
    bool named = token->kind == LEXEME_NAME;
    int count = named ? (int)(token->text.count > 60 ? 60 : token->text.count) : 0;
    const char *text = named ? token->text.data : "";
    parser->machine->line = token->line;
    jinja_machine_note_failure(parser->machine, "%s%s%s'%s%.*s'",
                               expected ? "expected " : "unexpected ", expected ? expected : "",
                               expected ? ", got " : "", named ? "" : lexeme_word(token->kind),
                               count, text);
}

bool jinja_parser_expect(struct jinja_parser *parser, enum lexeme_kind kind, const char *what) {
    if (parser->at->kind != kind) return jinja_parser_unexpected(parser, what);
    parser->at++;
    return true;
}

/* Makes a node for a statement, with a struct node_body. */
static struct node *statement(struct jinja_parser *parser, enum node_kind kind) {
    struct node *node = jinja_parser_node(parser, kind, parser->at->line);
    if (!node) return NULL;
    node->body = machine_take(parser->machine, sizeof *node->body);
    if (!node->body) return NULL;
    *node->body = (struct node_body){.caller_slot = SLOT_NONE, .place = {0, SLOT_NONE}};
    return node;
}

/* ---- bodies ---- */

static bool is_any(const struct jinja_parser *parser, const char *const *names) {
    for (; names && *names; names++)
        if (jinja_parser_is_name(parser, *names)) return true;
    return false;
}

/* Parses the end of a tag, and statements up to a tag in `ends`. The name of that tag is the next
 * lexeme. */
static bool parse_body(struct jinja_parser *parser, const char *const *ends, struct node *owner,
                       struct node **out) {
    jinja_parser_skip(parser, LEXEME_COLON);
    if (!jinja_parser_expect(parser, LEXEME_BLOCK_END, "end of statement block") ||
        !parse_until(parser, ends, out))
        return false;
    if (jinja_parser_is(parser, LEXEME_END)) {
        parser->machine->line = parser->at->line;
        return machine_fail(parser->machine,
                            "Unexpected end of template. Jinja was looking for the tag '%s', as "
                            "the one of line %u is open",
                            ends[0], owner->line);
    }
    return true;
}

/* parse_body with a single end tag, which is skipped. */
static bool parse_whole_body(struct jinja_parser *parser, const char *end, struct node *owner) {
    const char *const ends[] = {end, NULL};
    if (!parse_body(parser, ends, owner, &owner->body->body)) return false;
    parser->at++;
    return true;
}

/* ---- statements ---- */

static bool parse_set(struct jinja_parser *parser, struct node **out) {
    struct node *node = statement(parser, NODE_SET);
    if (!node) return false;
    parser->at++;
    if (!jinja_expression_target(parser, TUPLE_NAMESPACE, &node->a)) return false;
    *out = node;
    if (jinja_parser_skip(parser, LEXEME_ASSIGN)) {
        if (!jinja_expression_tuple(parser, 0, &node->b)) return false;
        return true;
    }
    node->kind = NODE_SET_BLOCK;
    if (!jinja_expression_filters(parser, NULL, false, &node->b)) return false;
    return parse_whole_body(parser, "endset", node);
}

/* Copies a loop's target for its `if`. */
static bool copy_target(struct jinja_parser *parser, const struct node *from, struct node **out) {
    struct node *copy = jinja_parser_node(parser, from->kind, from->line);
    struct node_list items = {0};
    if (!copy) return false;
    copy->value = from->value;
    copy->count = from->count;
    for (const struct node *item = from->list; item; item = item->next) {
        struct node *child;
        if (!copy_target(parser, item, &child)) return false;
        jinja_parser_append(&items, child);
    }
    copy->list = items.first;
    *out = copy;
    return true;
}

static bool parse_for(struct jinja_parser *parser, struct node **out) {
    static const char *const ends[] = {"endfor", "else", NULL};
    struct node *node = statement(parser, NODE_FOR);
    if (!node) return false;
    parser->at++;
    if (!jinja_expression_target(parser, 0, &node->a)) return false;
    if (!jinja_parser_skip_name(parser, "in")) return jinja_parser_unexpected(parser, "'in'");
    if (!jinja_expression_tuple(parser, TUPLE_NO_CONDITION, &node->b)) return false;
    if (jinja_parser_skip_name(parser, "if") &&
        (!jinja_expression_parse(parser, true, &node->c) ||
         !copy_target(parser, node->a, &node->body->targets)))
        return false;
    if (jinja_parser_is_name(parser, "recursive"))
        return machine_fail(parser->machine, "a recursive loop is not supported");
    *out = node;
    if (!parse_body(parser, ends, node, &node->body->body)) return false;
    bool otherwise = jinja_parser_is_name(parser, "else");
    parser->at++;
    if (!otherwise) return true;
    static const char *const last[] = {"endfor", NULL};
    if (!parse_body(parser, last, node, &node->body->else_body)) return false;
    parser->at++;
    return true;
}

static bool parse_if(struct jinja_parser *parser, struct node **out) {
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif",
                                                                                        NULL};
    struct node *first = statement(parser, NODE_IF), *node = first;
    struct node_list others = {0};
    for (;;) {
        if (!node) return false;
        parser->at++;
        if (!jinja_expression_tuple(parser, TUPLE_NO_CONDITION, &node->a) ||
            !parse_body(parser, ends, node, &node->body->body))
            return false;
        if (!jinja_parser_is_name(parser, "elif")) break;
        node = statement(parser, NODE_IF);
        if (node) jinja_parser_append(&others, node);
    }
    first->list = others.first;
    *out = first;
    bool otherwise = jinja_parser_is_name(parser, "else");
    parser->at++;
    if (!otherwise) return true;
    if (!parse_body(parser, last, first, &first->body->else_body)) return false;
    parser->at++;
    return true;
}

/* Parses a single name to a NODE_NAME. */
static bool parse_single_name(struct jinja_parser *parser, struct node **out) {
    if (!jinja_parser_is(parser, LEXEME_NAME)) return jinja_parser_unexpected(parser, "name");
    const struct lexeme *token = parser->at++;
    *out = jinja_parser_node(parser, NODE_NAME, token->line);
    if (!*out || !jinja_parser_word(parser, token->text, &(*out)->count, &(*out)->value))
        return false;
    struct value constant;
    return !jinja_expression_constant(token->text, &constant) ||
           machine_fail(parser->machine, "can't assign to '%s'", (*out)->value.text->data);
}

/* Parses parameters in parentheses to names, with their defaults in `a`. */
static bool parse_signature(struct jinja_parser *parser, struct node *owner) {
    struct node_list parameters = {0};
    struct node *name;
    bool defaults = false;
    if (!jinja_parser_expect(parser, LEXEME_PARENTHESIS_LEFT, "(")) return false;
    while (!jinja_parser_is(parser, LEXEME_PARENTHESIS_RIGHT)) {
        if (parameters.count && !jinja_parser_expect(parser, LEXEME_COMMA, ",")) return false;
        if (!parse_single_name(parser, &name)) return false;
        for (struct node *other = parameters.first; other; other = other->next)
            if (other->count == name->count)
                return machine_fail(parser->machine, "duplicate argument '%s'",
                                    name->value.text->data);
        if (jinja_parser_skip(parser, LEXEME_ASSIGN)) {
            if (!jinja_expression_parse(parser, true, &name->a)) return false;
            defaults = true;
        } else if (defaults) {
            return machine_fail(parser->machine, "non-default argument follows default argument");
        }
        jinja_parser_append(&parameters, name);
    }
    parser->at++;
    owner->list = parameters.first;
    owner->body->parameter_count = parameters.count;
    return true;
}

static bool parse_macro(struct jinja_parser *parser, struct node **out) {
    struct node *node = statement(parser, NODE_MACRO), *name;
    if (!node) return false;
    parser->at++;
    if (!parse_single_name(parser, &name)) return false;
    node->value = name->value;
    node->count = name->count;
    *out = node;
    return parse_signature(parser, node) && parse_whole_body(parser, "endmacro", node);
}

static bool parse_call_block(struct jinja_parser *parser, struct node **out) {
    struct node *node = statement(parser, NODE_CALL_BLOCK);
    if (!node) return false;
    parser->at++;
    if (jinja_parser_is(parser, LEXEME_PARENTHESIS_LEFT) && !parse_signature(parser, node))
        return false;
    if (!jinja_expression_parse(parser, true, &node->b)) return false;
    if (node->b->kind != NODE_CALL) return machine_fail(parser->machine, "expected call");
    *out = node;
    return parse_whole_body(parser, "endcall", node);
}

static bool parse_generation(struct jinja_parser *parser, struct node **out) {
    struct node *node = *out = statement(parser, NODE_CALL_BLOCK);
    if (!node) return false;
    parser->at++;
    return parse_whole_body(parser, "endgeneration", node);
}

static bool parse_filter_block(struct jinja_parser *parser, struct node **out) {
    struct node *node = *out = statement(parser, NODE_FILTER_BLOCK);
    if (!node) return false;
    parser->at++;
    if (!jinja_expression_filters(parser, NULL, true, &node->a)) return false;
    return parse_whole_body(parser, "endfilter", node);
}

static bool parse_leap(struct jinja_parser *parser, struct node **out) {
    bool breaks = jinja_parser_is_name(parser, "break");
    *out = jinja_parser_node(parser, breaks ? NODE_BREAK : NODE_CONTINUE, parser->at->line);
    parser->at++;
    return *out != NULL;
}

static bool parse_statement(struct jinja_parser *parser, struct node **out) {
    static const struct {
        const char *name;
        bool (*parse)(struct jinja_parser *parser, struct node **out);
    } statements[] = {
        {"set", parse_set},     {"if", parse_if},           {"for", parse_for},
        {"macro", parse_macro}, {"call", parse_call_block}, {"filter", parse_filter_block},
        {"break", parse_leap},  {"continue", parse_leap},   {"generation", parse_generation},
    };
    static const char *const refused[] = {"include",    "import", "from", "extends", "block",
                                          "autoescape", "print",  "with", NULL};
    if (!jinja_parser_is(parser, LEXEME_NAME))
        return jinja_parser_unexpected(parser, "the name of a tag");
    parser->machine->line = parser->at->line;
    for (size_t i = 0; i < ARRAY_COUNT(statements); i++)
        if (jinja_parser_is_name(parser, statements[i].name))
            return statements[i].parse(parser, out);
    int count = (int)(parser->at->text.count > 60 ? 60 : parser->at->text.count);
    if (is_any(parser, refused))
        return machine_fail(parser->machine, "the tag '%.*s' is not supported", count,
                            parser->at->text.data);
    return machine_fail(parser->machine, "Encountered unknown tag '%.*s'", count,
                        parser->at->text.data);
}

static bool parse_data(struct jinja_parser *parser, struct node **out) {
    const struct lexeme *token = parser->at++;
    struct node *node = *out = jinja_parser_node(parser, NODE_TEXT, token->line);
    if (!node || !value_make_text(parser->machine, token->text.data, token->text.count,
                                  VALUE_TRUSTED, &node->value))
        return false;
    node->a = parser->program->texts;
    parser->program->texts = node;
    return true;
}

static bool parse_print_tag(struct jinja_parser *parser, struct node **out) {
    struct node *node = *out = jinja_parser_node(parser, NODE_PRINT, parser->at->line);
    parser->at++;
    if (!node || !jinja_expression_tuple(parser, 0, &node->a)) return false;
    return jinja_parser_expect(parser, LEXEME_PRINT_END, "end of print statement");
}

/* Parses statements up to the end of the template or a tag in `ends`. */
static bool parse_list(struct jinja_parser *parser, const char *const *ends,
                       struct node_list *list) {
    for (;;) {
        struct node *node;
        if (jinja_parser_is(parser, LEXEME_END)) return true;
        if (jinja_parser_is(parser, LEXEME_DATA)) {
            if (!parse_data(parser, &node)) return false;
        } else if (jinja_parser_is(parser, LEXEME_PRINT_BEGIN)) {
            if (!parse_print_tag(parser, &node)) return false;
        } else {
            if (!jinja_parser_expect(parser, LEXEME_BLOCK_BEGIN, "a tag")) return false;
            if (is_any(parser, ends)) return true;
            if (!parse_statement(parser, &node) ||
                !jinja_parser_expect(parser, LEXEME_BLOCK_END, "end of statement block"))
                return false;
        }
        jinja_parser_append(list, node);
    }
}

static bool parse_until(struct jinja_parser *parser, const char *const *ends, struct node **out) {
    struct node_list list = {0};
    if (parser->depth >= NODE_DEPTH_MAX)
        return machine_exceed(parser->machine, "levels of nesting");
    parser->depth++;
    bool done = parse_list(parser, ends, &list);
    parser->depth--;
    *out = list.first;
    return done;
}

bool jinja_parser_run(struct jinja_machine *machine, const struct lexeme *lexemes,
                      struct jinja_program *program) {
    struct jinja_parser parser = {.machine = machine, .program = program, .at = lexemes};
    return words_grow(&parser) && parse_until(&parser, NULL, &program->statements);
}
