/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/regex_tree.h"

#include "base/check.h"
#include "serving/grammar/automata/automaton_draft.h"
#include "base/utf8.h"

#define DEPTH_MAX 100
#define COUNT_MAX 1000000u /* of a repetition as spelt; more is no use to an automaton */
#define NO_CHARACTER UINT32_MAX

struct parser {
    struct automaton_work *work;
    struct bytes text;
    enum regex_syntax syntax;
    struct error *error;
    size_t at;
    uint32_t depth;
    struct regex_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *links;
    size_t link_count, link_capacity;
    uint32_t *waiting; /* nodes of sequences and alternatives that are not finished */
    size_t waiting_count, waiting_capacity;
    struct code_points ranges; /* of all sets, one behind the other */
    struct code_points set;    /* the set that is read */
};

/* `code` is STATUS_INVALID or STATUS_UNSUPPORTED. */
#define refuse(parser, code, what)                                                                 \
    error_set((parser)->error, (code), "%s at byte %zu of the pattern", (what), (parser)->at)

static enum status push_word(struct parser *parser, uint32_t **words, size_t *count,
                             size_t *capacity, uint32_t word) {
    if (!automaton_spend(parser->work, 1)) return STATUS_TOO_LARGE;
    if (*count == *capacity) {
        size_t old = *capacity ? *capacity : 32;
        *words = automaton_draft_grow(parser->work, *words, old, sizeof **words);
        if (!*words) return STATUS_NO_MEMORY;
        *capacity = 2 * old;
    }
    (*words)[(*count)++] = word;
    return STATUS_OK;
}

static enum status regex_tree_add_node(struct parser *parser, struct regex_node node,
                                       uint32_t *out) {
    if (!automaton_spend(parser->work, 1)) return STATUS_TOO_LARGE;
    if (parser->node_count == parser->node_capacity) {
        size_t old = parser->node_capacity ? parser->node_capacity : 16;
        parser->nodes = automaton_draft_grow(parser->work, parser->nodes, old, sizeof node);
        if (!parser->nodes) return STATUS_NO_MEMORY;
        parser->node_capacity = 2 * old;
    }
    *out = (uint32_t)parser->node_count;
    parser->nodes[parser->node_count++] = node;
    return STATUS_OK;
}

/* Nodes that wait from `base` on become the children of one node; a single one needs none. */
static enum status regex_tree_gather(struct parser *parser, enum regex_kind kind, size_t base,
                                     uint32_t *out) {
    size_t count = parser->waiting_count - base, first = parser->link_count;
    enum status status = STATUS_OK;
    parser->waiting_count = base;
    if (count == 1) {
        *out = parser->waiting[base];
        return STATUS_OK;
    }
    for (size_t i = 0; !status && i < count; i++)
        status = push_word(parser, &parser->links, &parser->link_count, &parser->link_capacity,
                           parser->waiting[base + i]);
    struct regex_node node = {.kind = kind, .first = (uint32_t)first, .count = (uint32_t)count};
    return status ? status : regex_tree_add_node(parser, node, out);
}

static enum status regex_tree_wait(struct parser *parser, uint32_t node) {
    return push_word(parser, &parser->waiting, &parser->waiting_count, &parser->waiting_capacity,
                     node);
}

/* ---- characters ---- */

static int regex_tree_peek(const struct parser *parser) {
    return parser->at < parser->text.count ? (uint8_t)parser->text.data[parser->at] : -1;
}

static bool regex_tree_take(struct parser *parser, const char *text) {
    struct bytes rest = {parser->text.data + parser->at, parser->text.count - parser->at};
    if (!bytes_start_with(rest, bytes_of(text))) return false;
    parser->at += strlen(text);
    return true;
}

/* The next character; the text is valid UTF-8 and not at its end. */
static uint32_t regex_tree_take_character(struct parser *parser) {
    unsigned bytes;
    uint32_t character = utf8_read(parser->text.data + parser->at, &bytes);
    parser->at += bytes;
    return character;
}

static int regex_tree_digit_value(int byte, int base) {
    int value = byte >= '0' && byte <= '9'   ? byte - '0'
                : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                             : base;
    return value < base ? value : -1;
}

/* Exactly `count` hexadecimal digits; NO_CHARACTER, and nothing taken, where there are others. */
static uint32_t regex_tree_take_hex(struct parser *parser, size_t count) {
    uint32_t value = 0;
    if (parser->text.count - parser->at < count) return NO_CHARACTER;
    for (size_t i = 0; i < count; i++) {
        int digit = regex_tree_digit_value((uint8_t)parser->text.data[parser->at + i], 16);
        if (digit < 0) return NO_CHARACTER;
        value = value << 4 | (uint32_t)digit;
    }
    parser->at += count;
    return value;
}

/* Behind \u: four digits, a pair of surrogates, or {digits}. */
static uint32_t take_unicode(struct parser *parser) {
    if (regex_tree_take(parser, "{")) {
        uint32_t value = 0;
        size_t digits = 0;
        for (; regex_tree_digit_value(regex_tree_peek(parser), 16) >= 0 && value <= CODE_POINT_MAX;
             digits++)
            value = value << 4 |
                    (uint32_t)regex_tree_digit_value((uint8_t)parser->text.data[parser->at++], 16);
        return digits && value <= CODE_POINT_MAX && regex_tree_take(parser, "}") ? value
                                                                                 : NO_CHARACTER;
    }
    uint32_t value = regex_tree_take_hex(parser, 4);
    size_t behind = parser->at;
    if (value >= 0xD800 && value < 0xDC00 && regex_tree_take(parser, "\\u")) {
        uint32_t low = regex_tree_take_hex(parser, 4);
        if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((value - 0xD800) << 10) + low - 0xDC00;
        parser->at = behind;
    }
    return value;
}

/* ---- sets ---- */

static const struct code_range digits[] = {{'0', '9'}};
static const struct code_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/* ECMA-262's WhiteSpace and LineTerminator. */
static const struct code_range spaces[] = {
    {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
/* Unicode's White_Space. */
static const struct code_range text_spaces[] = {
    {9, 13},          {' ', ' '},       {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

static enum status add_properties(struct parser *parser, const char *names) {
    enum status status = STATUS_OK;
    for (; !status && *names; names++)
        status = code_points_add_property(&parser->set,
                                          (struct bytes){*names == 'd'   ? "Nd"
                                                         : *names == 'p' ? "Pc"
                                                                         : names,
                                                         *names == 'd' || *names == 'p' ? 2 : 1});
    return status;
}

/* The ranges of the set from `from` on become ordered, and all others where that is wanted. */
static enum status finish_part(struct parser *parser, size_t from, bool negative) {
    struct code_points part = parser->set;
    if (part.count > from) { /* an empty part, as of [^], may come before any memory does */
        part.ranges += from;
        part.count -= from;
        code_points_order(&part);
        parser->set.count = from + part.count;
    }
    return negative ? code_points_complement(&parser->set, from) : STATUS_OK;
}

/* \d, \D, \w, \W, \s, \S */
static enum status add_shorthand(struct parser *parser, int letter) {
    size_t from = parser->set.count;
    bool negative = letter < 'a', wide = parser->syntax == REGEX_TEXT;
    enum status status = STATUS_OK;
    switch (negative ? letter - 'A' + 'a' : letter) {
    case 'd':
        status = wide ? add_properties(parser, "d")
                      : code_points_add_all(&parser->set, digits, ARRAY_COUNT(digits));
        break;
    case 'w':
        status = code_points_add_all(&parser->set, words, ARRAY_COUNT(words));
        if (!status && wide) status = add_properties(parser, negative ? "LMNpS" : "Ld");
        break;
    default:
        status = wide ? code_points_add_all(&parser->set, text_spaces, ARRAY_COUNT(text_spaces))
                      : code_points_add_all(&parser->set, spaces, ARRAY_COUNT(spaces));
    }
    return status ? status : finish_part(parser, from, negative);
}

/* Behind \p or \P: {name}, {gc=name}, or in Rust's syntax one letter. */
static enum status regex_tree_add_property(struct parser *parser, bool negative) {
    size_t from = parser->set.count;
    struct bytes name = {parser->text.data + parser->at, 1};
    if (regex_tree_take(parser, "{")) {
        if (regex_tree_take(parser, "^")) negative = !negative;
        if (!regex_tree_take(parser, "General_Category=")) (void)regex_tree_take(parser, "gc=");
        name = (struct bytes){parser->text.data + parser->at, 0};
        while (regex_tree_peek(parser) != -1 && regex_tree_peek(parser) != '}') {
            name.count++;
            parser->at++;
        }
        if (!regex_tree_take(parser, "}")) return refuse(parser, STATUS_INVALID, "\\p{ without }");
    } else if (parser->syntax == REGEX_TEXT && regex_tree_peek(parser) != -1) {
        parser->at++;
    } else {
        return refuse(parser, STATUS_INVALID, "\\p without {");
    }
    enum status status = code_points_add_property(&parser->set, name);
    if (status == STATUS_NOT_FOUND)
        return refuse(parser, STATUS_UNSUPPORTED,
                      "\\p of something else than a general category (like \\p{L})");
    return status ? status : finish_part(parser, from, negative);
}

/* Behind a backslash: a character, or NO_CHARACTER where a whole set was added instead. */
static enum status regex_tree_read_escape(struct parser *parser, bool in_class, uint32_t *out) {
    static const char controls[] = "t\tn\nv\vf\fr\r";
    *out = NO_CHARACTER;
    if (regex_tree_peek(parser) == -1) return refuse(parser, STATUS_INVALID, "a backslash");
    uint32_t letter = regex_tree_take_character(parser);
    if (letter < 0x80 && letter && strchr("dDwWsS", (int)letter))
        return add_shorthand(parser, (int)letter);
    if (letter == 'p' || letter == 'P') return regex_tree_add_property(parser, letter == 'P');
    for (size_t i = 0; controls[i]; i += 2)
        if (letter == (uint8_t)controls[i]) *out = (uint8_t)controls[i + 1];
    if (*out != NO_CHARACTER) return STATUS_OK;
    if (letter == 'x' || letter == 'u') {
        *out = letter == 'x' ? regex_tree_take_hex(parser, 2) : take_unicode(parser);
        bool found = *out != NO_CHARACTER;
        return found ? STATUS_OK : refuse(parser, STATUS_INVALID, "\\x or \\u without its digits");
    }
    if (letter == 'c') {
        int control = regex_tree_peek(parser) | 0x20;
        if (control < 'a' || control > 'z')
            return refuse(parser, STATUS_INVALID, "\\c without a letter");
        *out = (uint32_t)(uint8_t)parser->text.data[parser->at++] % 32;
        return STATUS_OK;
    }
    if (letter == '0' && regex_tree_digit_value(regex_tree_peek(parser), 10) < 0) {
        *out = 0;
        return STATUS_OK;
    }
    if (letter == 'b' && in_class) {
        *out = 8;
        return STATUS_OK;
    }
    if (letter == 'k' || (letter >= '0' && letter <= '9'))
        return refuse(parser, STATUS_UNSUPPORTED, "a back reference");
    if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z')
        return refuse(parser, STATUS_INVALID, "an unknown escape");
    *out = letter;
    return STATUS_OK;
}

/* One end of a range in brackets; NO_CHARACTER: a whole set, which is added already. */
static enum status regex_tree_read_member(struct parser *parser, uint32_t *out) {
    if (regex_tree_peek(parser) == -1) return refuse(parser, STATUS_INVALID, "[ without ]");
    if (regex_tree_take(parser, "\\")) return regex_tree_read_escape(parser, true, out);
    *out = regex_tree_take_character(parser);
    return STATUS_OK;
}

/* Behind [ */
static enum status regex_tree_read_class(struct parser *parser) {
    bool negative = regex_tree_take(parser, "^");
    bool opening = parser->syntax == REGEX_TEXT; /* a ] that comes first is itself */
    enum status status = STATUS_OK;
    while (!status && (opening || !regex_tree_take(parser, "]"))) {
        uint32_t first = 0, last = 0;
        opening = false;
        status = regex_tree_read_member(parser, &first);
        if (status) break;
        size_t dash = parser->at;
        if (regex_tree_take(parser, "-") && regex_tree_peek(parser) != ']') {
            size_t before = parser->set.count;
            status = regex_tree_read_member(parser, &last);
            if (status) break;
            if (first != NO_CHARACTER && last != NO_CHARACTER) {
                if (first > last) return refuse(parser, STATUS_INVALID, "a range that runs down");
                status = code_points_add(&parser->set, first, last);
                continue;
            }
            parser->set.count = before; /* a set is no end of a range: the dash is itself */
        }
        parser->at = dash;
        if (first != NO_CHARACTER) status = code_points_add(&parser->set, first, first);
    }
    return status ? status : finish_part(parser, 0, negative);
}

static enum status add_set(struct parser *parser, uint32_t *out) {
    struct regex_node node = {.kind = REGEX_SET,
                              .first = (uint32_t)parser->ranges.count,
                              .count = (uint32_t)parser->set.count};
    enum status status =
        code_points_add_all(&parser->ranges, parser->set.ranges, parser->set.count);
    return status ? status : regex_tree_add_node(parser, node, out);
}

/* ---- atoms, sequences, alternatives ---- */

static enum status regex_tree_read_alternatives(struct parser *parser, uint32_t *out);

/* Behind ( */
static enum status read_group(struct parser *parser, uint32_t *out) {
    struct regex_node look = {.kind = REGEX_LOOK};
    bool looks = false;
    if (regex_tree_take(parser, "?")) {
        looks = regex_tree_take(parser, "=");
        if (!looks) looks = look.negative = regex_tree_take(parser, "!");
        if (regex_tree_take(parser, "<=") || regex_tree_take(parser, "<!"))
            return refuse(parser, STATUS_UNSUPPORTED, "looking behind");
        if (!looks && (regex_tree_take(parser, "P<") || regex_tree_take(parser, "<"))) {
            while (regex_tree_peek(parser) != -1 && regex_tree_peek(parser) != '>')
                parser->at++;
            if (!regex_tree_take(parser, ">"))
                return refuse(parser, STATUS_INVALID, "(?< without >");
        } else if (!looks && !regex_tree_take(parser, ":")) {
            return refuse(parser, STATUS_UNSUPPORTED, "a group's flag");
        }
    }
    if (++parser->depth > DEPTH_MAX)
        return refuse(parser, STATUS_UNSUPPORTED, "more than 100 groups in one another");
    enum status status = regex_tree_read_alternatives(parser, out);
    if (status) return status;
    parser->depth--;
    if (!regex_tree_take(parser, ")")) return refuse(parser, STATUS_INVALID, "( without )");
    look.first = *out;
    return looks ? regex_tree_add_node(parser, look, out) : STATUS_OK;
}

static enum status read_atom(struct parser *parser, bool *repeatable, uint32_t *out) {
    static const struct code_range newlines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    enum status status = STATUS_OK;
    *repeatable = true;
    parser->set.count = 0;
    if (regex_tree_take(parser, "(")) return read_group(parser, out);
    bool wide = parser->syntax == REGEX_TEXT;
    bool begin = regex_tree_take(parser, "^") || (wide && regex_tree_take(parser, "\\A"));
    bool end = !begin && (regex_tree_take(parser, "$") || (wide && regex_tree_take(parser, "\\z")));
    bool edge = !begin && !end && regex_tree_take(parser, "\\b");
    bool no_edge = !begin && !end && !edge && regex_tree_take(parser, "\\B");
    if (begin || end || edge || no_edge) {
        *repeatable = false;
        return regex_tree_add_node(parser,
                                   (struct regex_node){.kind = begin ? REGEX_BEGIN
                                                               : end ? REGEX_END
                                                                     : REGEX_WORD_EDGE,
                                                       .negative = no_edge},
                                   out);
    }
    if (regex_tree_take(parser, ".")) {
        size_t count = parser->syntax == REGEX_ECMA ? ARRAY_COUNT(newlines) : 1;
        status = code_points_add_all(&parser->set, newlines, count);
        if (!status) status = code_points_complement(&parser->set, 0);
    } else if (regex_tree_take(parser, "[")) {
        status = regex_tree_read_class(parser);
    } else {
        uint32_t character = 0;
        if (regex_tree_take(parser, "\\"))
            status = regex_tree_read_escape(parser, false, &character);
        else
            character = regex_tree_take_character(parser);
        if (!status && character != NO_CHARACTER)
            status = code_points_add(&parser->set, character, character);
    }
    return status ? status : add_set(parser, out);
}

static bool regex_tree_take_number(struct parser *parser, uint32_t *out) {
    size_t from = parser->at;
    *out = 0;
    for (; regex_tree_digit_value(regex_tree_peek(parser), 10) >= 0; parser->at++) {
        *out = *out * 10 + (uint32_t)regex_tree_digit_value(regex_tree_peek(parser), 10);
        if (*out > COUNT_MAX) *out = COUNT_MAX;
    }
    return parser->at > from;
}

/* *, +, ?, {n}, {n,} or {n,m}. False: what comes is no quantifier. */
static bool take_quantifier(struct parser *parser, uint32_t *min, uint32_t *max) {
    size_t from = parser->at;
    *min = 0;
    *max = REGEX_UNBOUNDED;
    if (regex_tree_take(parser, "*")) return true;
    if (regex_tree_take(parser, "?")) {
        *max = 1;
        return true;
    }
    if (regex_tree_take(parser, "+")) {
        *min = 1;
        return true;
    }
    if (regex_tree_take(parser, "{") && regex_tree_take_number(parser, min)) {
        if (!regex_tree_take(parser, ","))
            *max = *min;
        else if (!regex_tree_take_number(parser, max))
            *max = REGEX_UNBOUNDED;
        if (regex_tree_take(parser, "}")) return true;
    }
    parser->at = from;
    return false;
}

static enum status regex_tree_read_sequence(struct parser *parser, uint32_t *out) {
    size_t base = parser->waiting_count;
    enum status status = STATUS_OK;
    while (!status && regex_tree_peek(parser) != -1 && regex_tree_peek(parser) != '|' &&
           regex_tree_peek(parser) != ')') {
        uint32_t node = 0, min = 0, max = 0;
        bool repeatable = true;
        if (take_quantifier(parser, &min, &max))
            return refuse(parser, STATUS_INVALID, "a quantifier of nothing");
        status = read_atom(parser, &repeatable, &node);
        if (!status && take_quantifier(parser, &min, &max)) {
            (void)regex_tree_take(parser, "?"); /* lazy: the same texts */
            if (!repeatable || min > max)
                return refuse(parser, STATUS_INVALID, "a quantifier that cannot be");
            status = regex_tree_add_node(
                parser,
                (struct regex_node){.kind = REGEX_REPEAT, .first = node, .min = min, .max = max},
                &node);
        }
        if (!status) status = regex_tree_wait(parser, node);
    }
    return status ? status : regex_tree_gather(parser, REGEX_SEQUENCE, base, out);
}

static enum status regex_tree_read_alternatives(struct parser *parser, uint32_t *out) {
    size_t base = parser->waiting_count;
    enum status status = STATUS_OK;
    do {
        uint32_t node = 0;
        status = regex_tree_read_sequence(parser, &node);
        if (!status) status = regex_tree_wait(parser, node);
    } while (!status && regex_tree_take(parser, "|"));
    return status ? status : regex_tree_gather(parser, REGEX_ALTERNATE, base, out);
}

enum status regex_tree_parse(struct automaton_work *work, struct bytes pattern,
                             enum regex_syntax syntax, struct regex *out, struct error *error) {
    struct parser parser = {.work = work, .text = pattern, .syntax = syntax, .error = error};
    parser.ranges.work = parser.set.work = work;
    if (!automaton_spend(work, pattern.count)) return STATUS_TOO_LARGE;
    parser.at = utf8_valid_prefix(pattern);
    if (parser.at < pattern.count) return refuse(&parser, STATUS_INVALID, "invalid UTF-8");
    parser.at = 0;
    uint32_t root = 0;
    enum status status = regex_tree_read_alternatives(&parser, &root);
    if (status) return status;
    if (parser.at < pattern.count) return refuse(&parser, STATUS_INVALID, ") without (");
    *out = (struct regex){root, parser.nodes, parser.links, parser.ranges.ranges};
    return STATUS_OK;
}
