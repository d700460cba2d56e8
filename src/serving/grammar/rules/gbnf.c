/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/gbnf.h"

#include "base/utf8.h"
#include "serving/grammar/automata/automaton_builder.h"

#define DEPTH_MAX 100

struct gbnf_parser {
    struct grammar_builder *builder;
    struct regex_source *source;
    const struct tokenizer *tokenizer;
    struct error *error;
    uint32_t depth;
    uint32_t first_rule; /* the first rule of this grammar in the builder */
    struct bytes rule;   /* the rule being parsed; empty: none yet */
};

/* ---- failures ---- */

static uint32_t line_at(const struct gbnf_parser *parser, size_t at) {
    uint32_t line = 1;
    for (size_t i = 0; i < at; i++)
        line += parser->source->text.data[i] == '\n';
    return line;
}

static enum status refuse(const struct gbnf_parser *parser, enum status status, const char *what) {
    uint32_t line = line_at(parser, parser->source->at);
    if (!parser->rule.count)
        return error_set(parser->error, status, "gbnf: line %u: %s", line, what);
    return error_set(parser->error, status, "gbnf: line %u: rule %.*s: %s", line,
                     (int)parser->rule.count, parser->rule.data, what);
}

/* ---- characters ---- */

static bool is_newline(int byte) {
    return byte == '\n' || byte == '\r';
}

static bool gbnf_is_name(int byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_';
}

/* Skips blanks and comments, and line ends if `lines`. */
static void gbnf_skip(struct gbnf_parser *parser, bool lines) {
    for (int byte = regex_tree_peek(parser->source);
         byte == ' ' || byte == '\t' || byte == '#' || (lines && is_newline(byte));
         byte = regex_tree_peek(parser->source)) {
        parser->source->at++;
        while (byte == '#' && regex_tree_peek(parser->source) != -1 &&
               !is_newline(regex_tree_peek(parser->source)))
            parser->source->at++;
    }
}

static enum status gbnf_take_hex(struct gbnf_parser *parser, uint32_t digits, uint32_t *out) {
    int64_t value = regex_tree_take_hex(parser->source, digits);
    if (value < 0) return refuse(parser, STATUS_INVALID, "\\x has 2 digits, \\u 4, \\U 8");
    if (value > CODE_POINT_MAX || (value >= 0xD800 && value <= 0xDFFF))
        return refuse(parser, STATUS_INVALID, "an escape of something that is no character");
    *out = (uint32_t)value;
    return STATUS_OK;
}

static enum status gbnf_take_escape(struct gbnf_parser *parser, uint32_t *out) {
    static const char plain[] = "\\\"[]^-";
    int byte = regex_tree_peek(parser->source);
    if (byte != -1) parser->source->at++;
    switch (byte) {
    case 'x':
        return gbnf_take_hex(parser, 2, out);
    case 'u':
        return gbnf_take_hex(parser, 4, out);
    case 'U':
        return gbnf_take_hex(parser, 8, out);
    case 't':
        *out = '\t';
        return STATUS_OK;
    case 'n':
        *out = '\n';
        return STATUS_OK;
    case 'r':
        *out = '\r';
        return STATUS_OK;
    default:
        break;
    }
    if (byte <= 0 || !strchr(plain, byte))
        return refuse(parser, STATUS_INVALID, "an unknown escape");
    *out = (uint32_t)byte;
    return STATUS_OK;
}

/* Reads a character of a literal or a class. */
static enum status gbnf_take_character(struct gbnf_parser *parser, uint32_t *out) {
    int lead = regex_tree_peek(parser->source);
    if (lead == -1 || is_newline(lead))
        return refuse(parser, STATUS_INVALID, "a literal or a class without its end");
    *out = regex_tree_take_character(parser->source);
    return *out == '\\' ? gbnf_take_escape(parser, out) : STATUS_OK;
}

/* ---- terminals ---- */

/* Reads a literal after its opening quote. */
static enum status read_literal(struct gbnf_parser *parser, uint32_t *out) {
    uint32_t base = parser->builder->tree.waiting_count;
    while (!regex_tree_take(parser->source, "\"")) {
        struct code_range one;
        uint32_t node = 0;
        enum status status = gbnf_take_character(parser, &one.first);
        one.last = one.first;
        if (!status) status = regex_tree_add_set(&parser->builder->tree, &one, 1, &node);
        if (!status) status = regex_tree_wait(&parser->builder->tree, node);
        if (status) return status;
    }
    return regex_tree_gather(&parser->builder->tree, REGEX_SEQUENCE, base, out);
}

/* Reads a bracket class after its [ */
static enum status gbnf_read_class(struct gbnf_parser *parser, uint32_t *out) {
    struct code_points set = {.work = parser->builder->work};
    bool negative = regex_tree_take(parser->source, "^");
    enum status status = STATUS_OK;
    while (!status && !regex_tree_take(parser->source, "]")) {
        uint32_t first = 0, last = 0;
        status = gbnf_take_character(parser, &first);
        last = first;
        size_t dash = parser->source->at;
        if (!status && regex_tree_take(parser->source, "-")) {
            if (regex_tree_peek(parser->source) == ']')
                parser->source->at = dash;
            else
                status = gbnf_take_character(parser, &last);
        }
        if (!status && last < first)
            status = refuse(parser, STATUS_INVALID, "a range that runs down");
        if (!status) status = code_points_add(&set, first, last);
    }
    if (status) return status;
    code_points_order(&set);
    if (negative) status = code_points_complement(&set, 0);
    if (!status) status = regex_tree_add_set(&parser->builder->tree, set.ranges, set.count, out);
    arena_clear(parser->builder->work->scratch);
    return status;
}

/* Reads a token after its <: [number]> or text> */
static enum status gbnf_read_token(struct gbnf_parser *parser, enum rule_symbol kind,
                                   uint32_t *out) {
    size_t from = parser->source->at - 1;
    uint64_t number = 0;
    uint32_t token = 0;
    while (regex_tree_peek(parser->source) != -1 && !is_newline(regex_tree_peek(parser->source)) &&
           regex_tree_peek(parser->source) != '>')
        parser->source->at++;
    if (!regex_tree_take(parser->source, ">")) return refuse(parser, STATUS_INVALID, "< without >");
    struct bytes text = {parser->source->text.data + from, parser->source->at - from};
    bool numbered = text.count > 4 && text.data[1] == '[' && text.data[text.count - 2] == ']';
    for (size_t i = 2; numbered && i < text.count - 2; i++) {
        int digit = regex_tree_digit_value(text.data[i], 10);
        if (digit < 0 || number > UINT32_MAX)
            return refuse(parser, STATUS_INVALID, "a token's number without digits");
        number = number * 10 + (uint64_t)digit;
    }
    bool found = parser->tokenizer && (numbered ? number < tokenizer_vocab_count(parser->tokenizer)
                                                : tokenizer_find(parser->tokenizer, text, &token));
    if (numbered) token = (uint32_t)number;
    if (!found)
        return error_set(parser->error, STATUS_INVALID,
                         "gbnf: line %u: rule %.*s: the tokenizer has no token %.*s",
                         line_at(parser, from), (int)parser->rule.count, parser->rule.data,
                         (int)text.count, text.data);
    return grammar_builder_symbol(parser->builder, kind, token, out);
}

/* ---- rules ---- */

static struct bytes gbnf_take_name(struct gbnf_parser *parser) {
    size_t from = parser->source->at;
    while (gbnf_is_name(regex_tree_peek(parser->source)))
        parser->source->at++;
    return (struct bytes){parser->source->text.data + from, parser->source->at - from};
}

/* The rule with this name, added without a body if it is new. */
static enum status find_rule(struct gbnf_parser *parser, struct bytes name, uint32_t *out) {
    struct grammar_builder *builder = parser->builder;
    for (uint32_t r = parser->first_rule; r < builder->rule_count; r++) {
        if (!automaton_spend(builder->work, 1)) return STATUS_TOO_LARGE;
        if (!bytes_equal(builder->rules[r].name, name)) continue;
        *out = r;
        return STATUS_OK;
    }
    struct builder_rule rule = {
        .name = name, .line = line_at(parser, parser->source->at), .body = RULE_NONE};
    return grammar_builder_add_rule(builder, &rule, out);
}

static enum status gbnf_read_alternatives(struct gbnf_parser *parser, bool nested, uint32_t *out);

static enum status gbnf_read_item(struct gbnf_parser *parser, uint32_t *out) {
    static const struct code_range any = {0, CODE_POINT_MAX};
    enum status status = STATUS_OK;
    uint32_t rule = 0;
    if (gbnf_is_name(regex_tree_peek(parser->source))) {
        status = find_rule(parser, gbnf_take_name(parser), &rule);
        return status ? status : grammar_builder_reference(parser->builder, rule, out);
    }
    if (regex_tree_take(parser->source, "\"")) return read_literal(parser, out);
    if (regex_tree_take(parser->source, "[")) return gbnf_read_class(parser, out);
    if (regex_tree_take(parser->source, "."))
        return regex_tree_add_set(&parser->builder->tree, &any, 1, out);
    if (regex_tree_take(parser->source, "!<"))
        return gbnf_read_token(parser, RULE_OTHER_TOKEN, out);
    if (regex_tree_take(parser->source, "<")) return gbnf_read_token(parser, RULE_TOKEN, out);
    if (!regex_tree_take(parser->source, "("))
        return refuse(parser, STATUS_INVALID, "something unknown");
    if (++parser->depth > DEPTH_MAX)
        return refuse(parser, STATUS_TOO_LARGE, "more than 100 groups in one another");
    gbnf_skip(parser, true);
    status = gbnf_read_alternatives(parser, true, out);
    parser->depth--;
    if (!status && !regex_tree_take(parser->source, ")"))
        status = refuse(parser, STATUS_INVALID, "( without ), or something unknown");
    return status;
}

/* Reads a repetition's counts after its { */
static enum status read_counts(struct gbnf_parser *parser, uint32_t *min, uint32_t *max) {
    gbnf_skip(parser, false);
    bool right = regex_tree_take_number(parser->source, min);
    *max = *min;
    gbnf_skip(parser, false);
    if (right && regex_tree_take(parser->source, ",")) {
        gbnf_skip(parser, false);
        if (!regex_tree_take_number(parser->source, max)) *max = REGEX_UNBOUNDED;
        gbnf_skip(parser, false);
    }
    if (!right || !regex_tree_take(parser->source, "}") || *min > *max)
        return refuse(parser, STATUS_INVALID, "a repetition is {m}, {m,} or {m,n}");
    return STATUS_OK;
}

static enum status read_repeats(struct gbnf_parser *parser, bool nested, uint32_t *node) {
    for (;;) {
        uint32_t min = 0, max = REGEX_UNBOUNDED;
        enum status status = STATUS_OK;
        gbnf_skip(parser, nested);
        if (regex_tree_take(parser->source, "+"))
            min = 1;
        else if (regex_tree_take(parser->source, "?"))
            max = 1;
        else if (regex_tree_take(parser->source, "{"))
            status = read_counts(parser, &min, &max);
        else if (!regex_tree_take(parser->source, "*"))
            return STATUS_OK;
        if (!status) status = grammar_builder_repeat(parser->builder, *node, min, max, node);
        if (status) return status;
    }
}

static bool begins_item(int byte) {
    return gbnf_is_name(byte) || byte == '"' || byte == '[' || byte == '.' || byte == '<' ||
           byte == '!' || byte == '(';
}

static enum status gbnf_read_sequence(struct gbnf_parser *parser, bool nested, uint32_t *out) {
    uint32_t base = parser->builder->tree.waiting_count;
    while (begins_item(regex_tree_peek(parser->source))) {
        uint32_t node = 0;
        enum status status = gbnf_read_item(parser, &node);
        if (!status) status = read_repeats(parser, nested, &node);
        if (!status) status = regex_tree_wait(&parser->builder->tree, node);
        if (status) return status;
    }
    return regex_tree_gather(&parser->builder->tree, REGEX_SEQUENCE, base, out);
}

static enum status gbnf_read_alternatives(struct gbnf_parser *parser, bool nested, uint32_t *out) {
    uint32_t base = parser->builder->tree.waiting_count;
    enum status status = STATUS_OK;
    do {
        uint32_t node = 0;
        gbnf_skip(parser, true);
        status = gbnf_read_sequence(parser, nested, &node);
        if (!status) status = regex_tree_wait(&parser->builder->tree, node);
    } while (!status && regex_tree_take(parser->source, "|"));
    return status ? status : regex_tree_gather(&parser->builder->tree, REGEX_ALTERNATE, base, out);
}

static enum status read_rule(struct gbnf_parser *parser) {
    uint32_t rule = 0, body = 0;
    parser->rule = (struct bytes){"", 0};
    struct bytes name = gbnf_take_name(parser);
    if (!name.count) return refuse(parser, STATUS_INVALID, "expected a rule: name ::= ...");
    uint32_t line = line_at(parser, parser->source->at);
    parser->rule = name;
    gbnf_skip(parser, false);
    if (!regex_tree_take(parser->source, "::="))
        return refuse(parser, STATUS_INVALID, "expected ::= behind its name");
    enum status status = find_rule(parser, name, &rule);
    if (!status && parser->builder->rules[rule].body != RULE_NONE)
        return refuse(parser, STATUS_INVALID, "is written twice");
    if (!status) status = gbnf_read_alternatives(parser, false, &body);
    if (status) return status;
    if (regex_tree_peek(parser->source) != -1 && !is_newline(regex_tree_peek(parser->source)))
        return refuse(parser, STATUS_INVALID, "something unknown; expected the rule's end");
    parser->builder->rules[rule].body = body;
    parser->builder->rules[rule].line = line;
    return STATUS_OK;
}

static enum status find_root(struct gbnf_parser *parser, uint32_t *out) {
    struct grammar_builder *builder = parser->builder;
    uint32_t root = RULE_NONE;
    parser->rule = (struct bytes){"", 0};
    for (uint32_t r = parser->first_rule; r < builder->rule_count; r++) {
        const struct builder_rule *rule = &builder->rules[r];
        if (rule->body == RULE_NONE && !rule->automaton)
            return error_set(parser->error, STATUS_INVALID,
                             "gbnf: line %u: rule %.*s: is used, but not written", rule->line,
                             (int)rule->name.count, rule->name.data);
        if (bytes_equal(rule->name, BYTES_LITERAL("root"))) root = r;
    }
    if (root == RULE_NONE) return refuse(parser, STATUS_INVALID, "the grammar has no rule root");
    return grammar_builder_reference(builder, root, out);
}

enum status gbnf_read(struct grammar_builder *builder, struct bytes text,
                      const struct tokenizer *tokenizer, uint32_t *out, struct error *error) {
    struct regex_source source = {.text = text};
    struct gbnf_parser parser = {.builder = builder,
                                 .source = &source,
                                 .tokenizer = tokenizer,
                                 .error = error,
                                 .first_rule = builder->rule_count};
    error_set(error, STATUS_TOO_LARGE, "gbnf: the grammar is too large");
    source.at = utf8_valid_prefix(text);
    if (source.at < text.count) return refuse(&parser, STATUS_INVALID, "invalid UTF-8");
    source.at = 0;
    if (!automaton_spend(builder->work, text.count)) return STATUS_TOO_LARGE;
    enum status status = STATUS_OK;
    for (gbnf_skip(&parser, true); !status && source.at < text.count; gbnf_skip(&parser, true))
        status = read_rule(&parser);
    return status ? status : find_root(&parser, out);
}
