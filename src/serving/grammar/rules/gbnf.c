/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/gbnf.h"

#include "serving/grammar/automata/automaton_draft.h"
#include "base/utf8.h"

#define DEPTH_MAX 100
#define COUNT_MAX 1000000u /* of a repetition as spelt; more is no use to an automaton */

struct gbnf_parser {
    struct rule_draft *draft;
    struct bytes text;
    const struct tokenizer *tokenizer;
    struct error *error;
    size_t at;
    uint32_t depth;
    size_t first_rule; /* of this grammar */
    struct bytes rule; /* that is read; empty: none yet */
};

/* ---- failures ---- */

static uint32_t line_at(const struct gbnf_parser *parser, size_t at) {
    uint32_t line = 1;
    for (size_t i = 0; i < at; i++)
        line += parser->text.data[i] == '\n';
    return line;
}

static enum status refuse(const struct gbnf_parser *parser, enum status status, const char *what) {
    uint32_t line = line_at(parser, parser->at);
    if (!parser->rule.count)
        return error_set(parser->error, status, "gbnf: line %u: %s", line, what);
    return error_set(parser->error, status, "gbnf: line %u: rule %.*s: %s", line,
                     (int)parser->rule.count, parser->rule.data, what);
}

/* ---- characters ---- */

static int gbnf_peek(const struct gbnf_parser *parser) {
    return parser->at < parser->text.count ? (uint8_t)parser->text.data[parser->at] : -1;
}

static bool gbnf_take(struct gbnf_parser *parser, const char *text) {
    struct bytes rest = {parser->text.data + parser->at, parser->text.count - parser->at};
    if (!bytes_start_with(rest, bytes_of(text))) return false;
    parser->at += strlen(text);
    return true;
}

static bool is_newline(int byte) {
    return byte == '\n' || byte == '\r';
}

static bool gbnf_is_name(int byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_';
}

/* Blanks and comments; line ends only where a rule may go on behind them. */
static void gbnf_skip(struct gbnf_parser *parser, bool lines) {
    for (int byte = gbnf_peek(parser);
         byte == ' ' || byte == '\t' || byte == '#' || (lines && is_newline(byte));
         byte = gbnf_peek(parser)) {
        parser->at++;
        while (byte == '#' && gbnf_peek(parser) != -1 && !is_newline(gbnf_peek(parser)))
            parser->at++;
    }
}

static int gbnf_digit_value(int byte) {
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

static enum status gbnf_take_hex(struct gbnf_parser *parser, uint32_t digits, uint32_t *out) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < digits; i++, parser->at++) {
        int digit = gbnf_digit_value(gbnf_peek(parser));
        if (digit < 0) return refuse(parser, STATUS_INVALID, "\\x has 2 digits, \\u 4, \\U 8");
        value = value << 4 | (uint64_t)digit;
    }
    if (value > CODE_POINT_MAX || (value >= 0xD800 && value <= 0xDFFF))
        return refuse(parser, STATUS_INVALID, "an escape of something that is no character");
    *out = (uint32_t)value;
    return STATUS_OK;
}

static enum status gbnf_take_escape(struct gbnf_parser *parser, uint32_t *out) {
    static const char plain[] = "\\\"[]^-";
    int byte = gbnf_peek(parser);
    if (byte != -1) parser->at++;
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

/* The next character of a literal or a class; the text is valid UTF-8. */
static enum status gbnf_take_character(struct gbnf_parser *parser, uint32_t *out) {
    int lead = gbnf_peek(parser);
    if (lead == -1 || is_newline(lead))
        return refuse(parser, STATUS_INVALID, "a literal or a class without its end");
    if (lead == '\\') {
        parser->at++;
        return gbnf_take_escape(parser, out);
    }
    unsigned bytes;
    *out = utf8_read(parser->text.data + parser->at, &bytes);
    parser->at += bytes;
    return STATUS_OK;
}

/* ---- terminals ---- */

/* Behind the opening quote. */
static enum status read_literal(struct gbnf_parser *parser, uint32_t *out) {
    size_t base = parser->draft->waiting_count;
    while (!gbnf_take(parser, "\"")) {
        struct code_range one;
        uint32_t node = 0;
        enum status status = gbnf_take_character(parser, &one.first);
        one.last = one.first;
        if (!status) status = rule_draft_set(parser->draft, &one, 1, &node);
        if (!status) status = rule_draft_wait(parser->draft, node);
        if (status) return status;
    }
    return rule_draft_gather(parser->draft, REGEX_SEQUENCE, base, out);
}

/* Behind [ */
static enum status gbnf_read_class(struct gbnf_parser *parser, uint32_t *out) {
    struct code_points set = {.work = parser->draft->work};
    bool negative = gbnf_take(parser, "^");
    enum status status = STATUS_OK;
    while (!status && !gbnf_take(parser, "]")) {
        uint32_t first = 0, last = 0;
        status = gbnf_take_character(parser, &first);
        last = first;
        size_t dash = parser->at;
        if (!status && gbnf_take(parser, "-")) {
            if (gbnf_peek(parser) == ']')
                parser->at = dash;
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
    if (!status) status = rule_draft_set(parser->draft, set.ranges, set.count, out);
    arena_clear(parser->draft->work->scratch);
    return status;
}

/* Behind < : [number]> or text> */
static enum status gbnf_read_token(struct gbnf_parser *parser, enum rule_symbol kind,
                                   uint32_t *out) {
    size_t from = parser->at - 1;
    uint64_t number = 0;
    uint32_t token = 0;
    while (gbnf_peek(parser) != -1 && !is_newline(gbnf_peek(parser)) && gbnf_peek(parser) != '>')
        parser->at++;
    if (!gbnf_take(parser, ">")) return refuse(parser, STATUS_INVALID, "< without >");
    struct bytes text = {parser->text.data + from, parser->at - from};
    bool numbered = text.count > 4 && text.data[1] == '[' && text.data[text.count - 2] == ']';
    for (size_t i = 2; numbered && i < text.count - 2; i++) {
        int digit = gbnf_digit_value(text.data[i]);
        if (digit < 0 || digit > 9 || number > UINT32_MAX)
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
    return rule_draft_symbol(parser->draft, kind, token, out);
}

/* ---- rules ---- */

static struct bytes gbnf_take_name(struct gbnf_parser *parser) {
    size_t from = parser->at;
    while (gbnf_is_name(gbnf_peek(parser)))
        parser->at++;
    return (struct bytes){parser->text.data + from, parser->at - from};
}

/* The rule of this name, which may not be written yet. */
static enum status find_rule(struct gbnf_parser *parser, struct bytes name, uint32_t *out) {
    struct rule_draft *draft = parser->draft;
    for (size_t r = parser->first_rule; r < draft->rule_count; r++) {
        if (!automaton_spend(draft->work, 1)) return STATUS_TOO_LARGE;
        if (!bytes_equal(draft->rules[r].name, name)) continue;
        *out = (uint32_t)r;
        return STATUS_OK;
    }
    struct draft_rule rule = {.name = name, .line = line_at(parser, parser->at), .body = RULE_NONE};
    return rule_draft_add_rule(draft, &rule, out);
}

static enum status gbnf_read_alternatives(struct gbnf_parser *parser, bool nested, uint32_t *out);

static enum status gbnf_read_item(struct gbnf_parser *parser, uint32_t *out) {
    static const struct code_range any = {0, CODE_POINT_MAX};
    enum status status = STATUS_OK;
    uint32_t rule = 0;
    if (gbnf_is_name(gbnf_peek(parser))) {
        status = find_rule(parser, gbnf_take_name(parser), &rule);
        return status ? status : rule_draft_reference(parser->draft, rule, out);
    }
    if (gbnf_take(parser, "\"")) return read_literal(parser, out);
    if (gbnf_take(parser, "[")) return gbnf_read_class(parser, out);
    if (gbnf_take(parser, ".")) return rule_draft_set(parser->draft, &any, 1, out);
    if (gbnf_take(parser, "!<")) return gbnf_read_token(parser, RULE_OTHER_TOKEN, out);
    if (gbnf_take(parser, "<")) return gbnf_read_token(parser, RULE_TOKEN, out);
    if (!gbnf_take(parser, "(")) return refuse(parser, STATUS_INVALID, "something unknown");
    if (++parser->depth > DEPTH_MAX)
        return refuse(parser, STATUS_TOO_LARGE, "more than 100 groups in one another");
    gbnf_skip(parser, true);
    status = gbnf_read_alternatives(parser, true, out);
    parser->depth--;
    if (!status && !gbnf_take(parser, ")"))
        status = refuse(parser, STATUS_INVALID, "( without ), or something unknown");
    return status;
}

static bool gbnf_take_number(struct gbnf_parser *parser, uint32_t *out) {
    size_t from = parser->at;
    *out = 0;
    for (; gbnf_peek(parser) >= '0' && gbnf_peek(parser) <= '9'; parser->at++) {
        *out = *out * 10 + (uint32_t)(gbnf_peek(parser) - '0');
        if (*out > COUNT_MAX) *out = COUNT_MAX;
    }
    return parser->at > from;
}

/* Behind { */
static enum status read_counts(struct gbnf_parser *parser, uint32_t *min, uint32_t *max) {
    gbnf_skip(parser, false);
    bool right = gbnf_take_number(parser, min);
    *max = *min;
    gbnf_skip(parser, false);
    if (right && gbnf_take(parser, ",")) {
        gbnf_skip(parser, false);
        if (!gbnf_take_number(parser, max)) *max = REGEX_UNBOUNDED;
        gbnf_skip(parser, false);
    }
    if (!right || !gbnf_take(parser, "}") || *min > *max)
        return refuse(parser, STATUS_INVALID, "a repetition is {m}, {m,} or {m,n}");
    return STATUS_OK;
}

static enum status read_repeats(struct gbnf_parser *parser, bool nested, uint32_t *node) {
    for (;;) {
        uint32_t min = 0, max = REGEX_UNBOUNDED;
        enum status status = STATUS_OK;
        gbnf_skip(parser, nested);
        if (gbnf_take(parser, "+"))
            min = 1;
        else if (gbnf_take(parser, "?"))
            max = 1;
        else if (gbnf_take(parser, "{"))
            status = read_counts(parser, &min, &max);
        else if (!gbnf_take(parser, "*"))
            return STATUS_OK;
        if (!status) status = rule_draft_repeat(parser->draft, *node, min, max, node);
        if (status) return status;
    }
}

static bool begins_item(int byte) {
    return gbnf_is_name(byte) || byte == '"' || byte == '[' || byte == '.' || byte == '<' ||
           byte == '!' || byte == '(';
}

static enum status gbnf_read_sequence(struct gbnf_parser *parser, bool nested, uint32_t *out) {
    size_t base = parser->draft->waiting_count;
    while (begins_item(gbnf_peek(parser))) {
        uint32_t node = 0;
        enum status status = gbnf_read_item(parser, &node);
        if (!status) status = read_repeats(parser, nested, &node);
        if (!status) status = rule_draft_wait(parser->draft, node);
        if (status) return status;
    }
    return rule_draft_gather(parser->draft, REGEX_SEQUENCE, base, out);
}

static enum status gbnf_read_alternatives(struct gbnf_parser *parser, bool nested, uint32_t *out) {
    size_t base = parser->draft->waiting_count;
    enum status status = STATUS_OK;
    do {
        uint32_t node = 0;
        gbnf_skip(parser, true);
        status = gbnf_read_sequence(parser, nested, &node);
        if (!status) status = rule_draft_wait(parser->draft, node);
    } while (!status && gbnf_take(parser, "|"));
    return status ? status : rule_draft_gather(parser->draft, REGEX_ALTERNATE, base, out);
}

static enum status read_rule(struct gbnf_parser *parser) {
    uint32_t rule = 0, body = 0;
    parser->rule = (struct bytes){"", 0};
    struct bytes name = gbnf_take_name(parser);
    if (!name.count) return refuse(parser, STATUS_INVALID, "expected a rule: name ::= ...");
    uint32_t line = line_at(parser, parser->at);
    parser->rule = name;
    gbnf_skip(parser, false);
    if (!gbnf_take(parser, "::="))
        return refuse(parser, STATUS_INVALID, "expected ::= behind its name");
    enum status status = find_rule(parser, name, &rule);
    if (!status && parser->draft->rules[rule].body != RULE_NONE)
        return refuse(parser, STATUS_INVALID, "is written twice");
    if (!status) status = gbnf_read_alternatives(parser, false, &body);
    if (status) return status;
    if (gbnf_peek(parser) != -1 && !is_newline(gbnf_peek(parser)))
        return refuse(parser, STATUS_INVALID, "something unknown; expected the rule's end");
    parser->draft->rules[rule].body = body;
    parser->draft->rules[rule].line = line;
    return STATUS_OK;
}

static enum status find_root(struct gbnf_parser *parser, uint32_t *out) {
    struct rule_draft *draft = parser->draft;
    uint32_t root = RULE_NONE;
    parser->rule = (struct bytes){"", 0};
    for (size_t r = parser->first_rule; r < draft->rule_count; r++) {
        const struct draft_rule *rule = &draft->rules[r];
        if (rule->body == RULE_NONE && !rule->automaton)
            return error_set(parser->error, STATUS_INVALID,
                             "gbnf: line %u: rule %.*s: is used, but not written", rule->line,
                             (int)rule->name.count, rule->name.data);
        if (bytes_equal(rule->name, BYTES_LITERAL("root"))) root = (uint32_t)r;
    }
    if (root == RULE_NONE) return refuse(parser, STATUS_INVALID, "the grammar has no rule root");
    return rule_draft_reference(draft, root, out);
}

enum status gbnf_read(struct rule_draft *draft, struct bytes text,
                      const struct tokenizer *tokenizer, uint32_t *out, struct error *error) {
    struct gbnf_parser parser = {.draft = draft,
                                 .text = text,
                                 .tokenizer = tokenizer,
                                 .error = error,
                                 .first_rule = draft->rule_count};
    error_set(error, STATUS_TOO_LARGE, "gbnf: the grammar is too large");
    parser.at = utf8_valid_prefix(text);
    if (parser.at < text.count) return refuse(&parser, STATUS_INVALID, "invalid UTF-8");
    parser.at = 0;
    if (!automaton_spend(draft->work, text.count)) return STATUS_TOO_LARGE;
    enum status status = STATUS_OK;
    for (gbnf_skip(&parser, true); !status && parser.at < text.count; gbnf_skip(&parser, true))
        status = read_rule(&parser);
    return status ? status : find_root(&parser, out);
}
