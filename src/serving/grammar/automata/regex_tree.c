/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/regex_tree.h"

#include "base/check.h"
#include "base/utf8.h"
#include "serving/grammar/automata/automaton_builder.h"

#define DEPTH_MAX 100
#define COUNT_MAX 1000000u
#define NO_CHARACTER UINT32_MAX

/* ---- trees ---- */

enum status regex_tree_add_node(struct regex_tree *tree, struct regex_node node, uint32_t *out) {
    enum status status = automaton_builder_room(
        tree->work, tree->arena, &tree->nodes, tree->node_count, &tree->node_capacity, sizeof node);
    if (status) return status;
    *out = tree->node_count;
    tree->nodes[tree->node_count++] = node;
    return STATUS_OK;
}

enum status regex_tree_add_set(struct regex_tree *tree, const struct code_range *ranges,
                               size_t count, uint32_t *out) {
    struct regex_node node = {
        .kind = REGEX_SET, .first = tree->range_count, .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        enum status status =
            automaton_builder_room(tree->work, tree->arena, &tree->ranges, tree->range_count,
                                   &tree->range_capacity, sizeof *ranges);
        if (status) return status;
        tree->ranges[tree->range_count++] = ranges[i];
    }
    return regex_tree_add_node(tree, node, out);
}

enum status regex_tree_add_link(struct regex_tree *tree, uint32_t node) {
    enum status status = automaton_builder_room(
        tree->work, tree->arena, &tree->links, tree->link_count, &tree->link_capacity, sizeof node);
    if (!status) tree->links[tree->link_count++] = node;
    return status;
}

enum status regex_tree_wait(struct regex_tree *tree, uint32_t node) {
    enum status status =
        automaton_builder_room(tree->work, tree->arena, &tree->waiting, tree->waiting_count,
                               &tree->waiting_capacity, sizeof node);
    if (!status) tree->waiting[tree->waiting_count++] = node;
    return status;
}

enum status regex_tree_gather(struct regex_tree *tree, enum regex_kind kind, uint32_t base,
                              uint32_t *out) {
    struct regex_node node = {
        .kind = kind, .first = tree->link_count, .count = tree->waiting_count - base};
    enum status status = STATUS_OK;
    tree->waiting_count = base;
    if (node.count == 1) {
        *out = tree->waiting[base];
        return STATUS_OK;
    }
    for (uint32_t i = 0; !status && i < node.count; i++)
        status = regex_tree_add_link(tree, tree->waiting[base + i]);
    return status ? status : regex_tree_add_node(tree, node, out);
}

/* ---- characters ---- */

int regex_tree_peek(const struct regex_source *source) {
    return source->at < source->text.count ? (uint8_t)source->text.data[source->at] : -1;
}

bool regex_tree_take(struct regex_source *source, const char *text) {
    struct bytes rest = {source->text.data + source->at, source->text.count - source->at};
    if (!bytes_start_with(rest, bytes_of(text))) return false;
    source->at += strlen(text);
    return true;
}

uint32_t regex_tree_take_character(struct regex_source *source) {
    unsigned bytes;
    uint32_t character = utf8_read(source->text.data + source->at, &bytes);
    source->at += bytes;
    return character;
}

int64_t regex_tree_take_hex(struct regex_source *source, size_t count) {
    int64_t value = 0;
    if (source->text.count - source->at < count) return -1;
    for (size_t i = 0; i < count; i++) {
        int digit = regex_tree_digit_value((uint8_t)source->text.data[source->at + i], 16);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    source->at += count;
    return value;
}

bool regex_tree_take_number(struct regex_source *source, uint32_t *out) {
    size_t from = source->at;
    *out = 0;
    for (; regex_tree_digit_value(regex_tree_peek(source), 10) >= 0; source->at++) {
        *out = *out * 10 + (uint32_t)regex_tree_digit_value(regex_tree_peek(source), 10);
        if (*out > COUNT_MAX) *out = COUNT_MAX;
    }
    return source->at > from;
}

struct parser {
    struct regex_source *source;
    enum regex_syntax syntax;
    struct error *error;
    uint32_t depth;
    struct regex_tree tree;
    struct code_points set; /* the character class being read */
};

/* Returns `code` with a message. */
#define refuse(parser, code, what)                                                                 \
    error_set((parser)->error, (code), "%s at byte %zu of the pattern", (what),                    \
              (parser)->source->at)

/* Reads what follows \u: four digits, a surrogate pair, or {digits}. Returns -1 for anything
 * else. */
static int64_t take_unicode(struct regex_source *source) {
    if (regex_tree_take(source, "{")) {
        int64_t value = 0, digits = 0;
        for (int digit; value <= CODE_POINT_MAX &&
                        (digit = regex_tree_digit_value(regex_tree_peek(source), 16)) >= 0;
             digits++, source->at++)
            value = value << 4 | digit;
        bool right = digits && value <= CODE_POINT_MAX && regex_tree_take(source, "}");
        return right ? value : -1;
    }
    int64_t value = regex_tree_take_hex(source, 4);
    size_t behind = source->at;
    if (value >= 0xD800 && value < 0xDC00 && regex_tree_take(source, "\\u")) {
        int64_t low = regex_tree_take_hex(source, 4);
        if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((value - 0xD800) << 10) + low - 0xDC00;
        source->at = behind;
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

/* Orders the ranges from index `from` on, and complements them if `negative`. */
static enum status finish_part(struct parser *parser, size_t from, bool negative) {
    struct code_points part = parser->set;
    if (part.count > from) { /* [^] has no ranges, and no memory was allocated yet */
        part.ranges += from;
        part.count -= from;
        code_points_order(&part);
        parser->set.count = from + part.count;
    }
    return negative ? code_points_complement(&parser->set, from) : STATUS_OK;
}

/* Adds the class of \d, \D, \w, \W, \s or \S. */
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

/* Reads the property after \p or \P: {name}, {gc=name}, or a single letter (Rust). */
static enum status regex_tree_add_property(struct parser *parser, bool negative) {
    size_t from = parser->set.count;
    struct bytes name = {parser->source->text.data + parser->source->at, 1};
    if (regex_tree_take(parser->source, "{")) {
        if (regex_tree_take(parser->source, "^")) negative = !negative;
        if (!regex_tree_take(parser->source, "General_Category="))
            (void)regex_tree_take(parser->source, "gc=");
        name = (struct bytes){parser->source->text.data + parser->source->at, 0};
        while (regex_tree_peek(parser->source) != -1 && regex_tree_peek(parser->source) != '}') {
            name.count++;
            parser->source->at++;
        }
        if (!regex_tree_take(parser->source, "}"))
            return refuse(parser, STATUS_INVALID, "\\p{ without }");
    } else if (parser->syntax == REGEX_TEXT && regex_tree_peek(parser->source) != -1) {
        parser->source->at++;
    } else {
        return refuse(parser, STATUS_INVALID, "\\p without {");
    }
    enum status status = code_points_add_property(&parser->set, name);
    if (status == STATUS_NOT_FOUND)
        return refuse(parser, STATUS_UNSUPPORTED,
                      "\\p of something else than a general category (like \\p{L})");
    return status ? status : finish_part(parser, from, negative);
}

/* Reads an escape after its backslash: a character, or a class, which is added to the set
 * (NO_CHARACTER). */
static enum status regex_tree_read_escape(struct parser *parser, bool in_class, uint32_t *out) {
    static const char controls[] = "t\tn\nv\vf\fr\r";
    *out = NO_CHARACTER;
    if (regex_tree_peek(parser->source) == -1) return refuse(parser, STATUS_INVALID, "a backslash");
    uint32_t letter = regex_tree_take_character(parser->source);
    if (letter < 0x80 && letter && strchr("dDwWsS", (int)letter))
        return add_shorthand(parser, (int)letter);
    if (letter == 'p' || letter == 'P') return regex_tree_add_property(parser, letter == 'P');
    for (size_t i = 0; controls[i]; i += 2)
        if (letter == (uint8_t)controls[i]) *out = (uint8_t)controls[i + 1];
    if (*out != NO_CHARACTER) return STATUS_OK;
    if (letter == 'x' || letter == 'u') {
        int64_t code =
            letter == 'x' ? regex_tree_take_hex(parser->source, 2) : take_unicode(parser->source);
        if (code < 0) return refuse(parser, STATUS_INVALID, "\\x or \\u without its digits");
        *out = (uint32_t)code;
        return STATUS_OK;
    }
    if (letter == 'c') {
        int control = regex_tree_peek(parser->source) | 0x20;
        if (control < 'a' || control > 'z')
            return refuse(parser, STATUS_INVALID, "\\c without a letter");
        *out = (uint32_t)(uint8_t)parser->source->text.data[parser->source->at++] % 32;
        return STATUS_OK;
    }
    if (letter == '0' && regex_tree_digit_value(regex_tree_peek(parser->source), 10) < 0) {
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

/* Reads one element of a bracket class. NO_CHARACTER: a class escape, which is added to the set. */
static enum status regex_tree_read_member(struct parser *parser, uint32_t *out) {
    if (regex_tree_peek(parser->source) == -1) return refuse(parser, STATUS_INVALID, "[ without ]");
    if (regex_tree_take(parser->source, "\\")) return regex_tree_read_escape(parser, true, out);
    *out = regex_tree_take_character(parser->source);
    return STATUS_OK;
}

/* Reads a bracket class after its [ */
static enum status regex_tree_read_class(struct parser *parser) {
    bool negative = regex_tree_take(parser->source, "^");
    bool opening = parser->syntax == REGEX_TEXT; /* a leading ] is literal */
    enum status status = STATUS_OK;
    while (!status && (opening || !regex_tree_take(parser->source, "]"))) {
        uint32_t first = 0, last = 0;
        opening = false;
        status = regex_tree_read_member(parser, &first);
        if (status) break;
        size_t dash = parser->source->at;
        if (regex_tree_take(parser->source, "-") && regex_tree_peek(parser->source) != ']') {
            status = regex_tree_read_member(parser, &last);
            if (status) break;
            if (first != NO_CHARACTER && last != NO_CHARACTER) {
                if (first > last) return refuse(parser, STATUS_INVALID, "a range that runs down");
                status = code_points_add(&parser->set, first, last);
                continue;
            }
            /* A class escape cannot bound a range: the dash is literal (ECMA-262, B.1.2.8.1). The
             * element on its right does not start another range. */
            status = code_points_add(&parser->set, '-', '-');
            if (!status && last != NO_CHARACTER) status = code_points_add(&parser->set, last, last);
        } else {
            parser->source->at = dash;
        }
        if (!status && first != NO_CHARACTER) status = code_points_add(&parser->set, first, first);
    }
    return status ? status : finish_part(parser, 0, negative);
}

/* ---- atoms, sequences, alternatives ---- */

static enum status regex_tree_read_alternatives(struct parser *parser, uint32_t *out);

/* Reads a group after its ( */
static enum status read_group(struct parser *parser, uint32_t *out) {
    struct regex_node look = {.kind = REGEX_LOOKAHEAD};
    bool looks = false;
    if (regex_tree_take(parser->source, "?")) {
        looks = regex_tree_take(parser->source, "=");
        if (!looks) looks = look.negative = regex_tree_take(parser->source, "!");
        if (regex_tree_take(parser->source, "<=") || regex_tree_take(parser->source, "<!"))
            return refuse(parser, STATUS_UNSUPPORTED, "looking behind");
        if (!looks &&
            (regex_tree_take(parser->source, "P<") || regex_tree_take(parser->source, "<"))) {
            while (regex_tree_peek(parser->source) != -1 && regex_tree_peek(parser->source) != '>')
                parser->source->at++;
            if (!regex_tree_take(parser->source, ">"))
                return refuse(parser, STATUS_INVALID, "(?< without >");
        } else if (!looks && !regex_tree_take(parser->source, ":")) {
            return refuse(parser, STATUS_UNSUPPORTED, "a group's flag");
        }
    }
    if (++parser->depth > DEPTH_MAX)
        return refuse(parser, STATUS_UNSUPPORTED, "more than 100 groups in one another");
    enum status status = regex_tree_read_alternatives(parser, out);
    if (status) return status;
    parser->depth--;
    if (!regex_tree_take(parser->source, ")")) return refuse(parser, STATUS_INVALID, "( without )");
    look.first = *out;
    return looks ? regex_tree_add_node(&parser->tree, look, out) : STATUS_OK;
}

static enum status read_atom(struct parser *parser, bool *repeatable, uint32_t *out) {
    static const struct code_range newlines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    enum status status = STATUS_OK;
    *repeatable = true;
    parser->set.count = 0;
    if (regex_tree_take(parser->source, "(")) return read_group(parser, out);
    bool wide = parser->syntax == REGEX_TEXT;
    bool begin =
        regex_tree_take(parser->source, "^") || (wide && regex_tree_take(parser->source, "\\A"));
    bool end = !begin && (regex_tree_take(parser->source, "$") ||
                          (wide && regex_tree_take(parser->source, "\\z")));
    bool edge = !begin && !end && regex_tree_take(parser->source, "\\b");
    bool no_edge = !begin && !end && !edge && regex_tree_take(parser->source, "\\B");
    if (begin || end || edge || no_edge) {
        *repeatable = false;
        return regex_tree_add_node(&parser->tree,
                                   (struct regex_node){.kind = begin ? REGEX_BEGIN
                                                               : end ? REGEX_END
                                                                     : REGEX_WORD_EDGE,
                                                       .negative = no_edge},
                                   out);
    }
    if (regex_tree_take(parser->source, ".")) {
        size_t count = parser->syntax == REGEX_ECMA ? ARRAY_COUNT(newlines) : 1;
        status = code_points_add_all(&parser->set, newlines, count);
        if (!status) status = code_points_complement(&parser->set, 0);
    } else if (regex_tree_take(parser->source, "[")) {
        status = regex_tree_read_class(parser);
    } else {
        uint32_t character = 0;
        if (regex_tree_take(parser->source, "\\"))
            status = regex_tree_read_escape(parser, false, &character);
        else
            character = regex_tree_take_character(parser->source);
        if (!status && character != NO_CHARACTER)
            status = code_points_add(&parser->set, character, character);
    }
    return status ? status
                  : regex_tree_add_set(&parser->tree, parser->set.ranges, parser->set.count, out);
}

/* Reads a quantifier: *, +, ?, {n}, {n,} or {n,m}. False: none follows. */
static bool take_quantifier(struct parser *parser, uint32_t *min, uint32_t *max) {
    size_t from = parser->source->at;
    *min = 0;
    *max = REGEX_UNBOUNDED;
    if (regex_tree_take(parser->source, "*")) return true;
    if (regex_tree_take(parser->source, "?")) {
        *max = 1;
        return true;
    }
    if (regex_tree_take(parser->source, "+")) {
        *min = 1;
        return true;
    }
    if (regex_tree_take(parser->source, "{") && regex_tree_take_number(parser->source, min)) {
        if (!regex_tree_take(parser->source, ","))
            *max = *min;
        else if (!regex_tree_take_number(parser->source, max))
            *max = REGEX_UNBOUNDED;
        if (regex_tree_take(parser->source, "}")) return true;
    }
    parser->source->at = from;
    return false;
}

static enum status regex_tree_read_sequence(struct parser *parser, uint32_t *out) {
    size_t base = parser->tree.waiting_count;
    enum status status = STATUS_OK;
    while (!status && regex_tree_peek(parser->source) != -1 &&
           regex_tree_peek(parser->source) != '|' && regex_tree_peek(parser->source) != ')') {
        uint32_t node = 0, min = 0, max = 0;
        bool repeatable = true;
        if (take_quantifier(parser, &min, &max))
            return refuse(parser, STATUS_INVALID, "a quantifier of nothing");
        status = read_atom(parser, &repeatable, &node);
        if (!status && take_quantifier(parser, &min, &max)) {
            (void)regex_tree_take(parser->source, "?"); /* lazy: matches the same texts */
            if (!repeatable || min > max)
                return refuse(parser, STATUS_INVALID, "a quantifier that cannot be");
            status = regex_tree_add_node(
                &parser->tree,
                (struct regex_node){.kind = REGEX_REPEAT, .first = node, .min = min, .max = max},
                &node);
        }
        if (!status) status = regex_tree_wait(&parser->tree, node);
    }
    return status ? status : regex_tree_gather(&parser->tree, REGEX_SEQUENCE, base, out);
}

static enum status regex_tree_read_alternatives(struct parser *parser, uint32_t *out) {
    size_t base = parser->tree.waiting_count;
    enum status status = STATUS_OK;
    do {
        uint32_t node = 0;
        status = regex_tree_read_sequence(parser, &node);
        if (!status) status = regex_tree_wait(&parser->tree, node);
    } while (!status && regex_tree_take(parser->source, "|"));
    return status ? status : regex_tree_gather(&parser->tree, REGEX_ALTERNATE, base, out);
}

enum status regex_tree_parse(struct automaton_work *work, struct bytes pattern,
                             enum regex_syntax syntax, struct regex *out, struct error *error) {
    struct regex_source source = {.text = pattern};
    struct parser parser = {.source = &source,
                            .syntax = syntax,
                            .error = error,
                            .tree = {.work = work, .arena = work->scratch},
                            .set = {.work = work}};
    if (!automaton_spend(work, pattern.count)) return STATUS_TOO_LARGE;
    source.at = utf8_valid_prefix(pattern);
    if (source.at < pattern.count) return refuse(&parser, STATUS_INVALID, "invalid UTF-8");
    source.at = 0;
    uint32_t root = 0;
    enum status status = regex_tree_read_alternatives(&parser, &root);
    if (status) return status;
    if (source.at < pattern.count) return refuse(&parser, STATUS_INVALID, ") without (");
    *out = (struct regex){root, parser.tree.nodes, parser.tree.links, parser.tree.ranges};
    return STATUS_OK;
}
