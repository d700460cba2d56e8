/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/parse/jinja_lexer.h"

#include <math.h>

#include "base/check.h"
#include "base/real.h"
#include "base/unicode.h"
#include "base/utf8.h"

struct lexer {
    struct jinja_machine *machine;
    const char *data; /* newlines are \n; zero-terminated */
    size_t count, at;
    struct lexeme *lexemes;
    size_t lexeme_count, lexeme_capacity;
    bool line_starts; /* the last match ended with a newline */
};

#define BRACES_MAX 256

static bool push(struct lexer *lexer, struct lexeme lexeme) {
    if (lexer->lexeme_count == lexer->lexeme_capacity) {
        size_t capacity = lexer->lexeme_capacity ? 2 * lexer->lexeme_capacity : 256;
        struct lexeme *lexemes = machine_take(lexer->machine, capacity * sizeof *lexemes);
        if (!lexemes) return false;
        if (lexer->lexeme_count)
            memcpy(lexemes, lexer->lexemes, lexer->lexeme_count * sizeof *lexemes);
        lexer->lexemes = lexemes;
        lexer->lexeme_capacity = capacity;
    }
    lexeme.line = lexer->machine->line;
    lexer->lexemes[lexer->lexeme_count++] = lexeme;
    return true;
}

static bool push_kind(struct lexer *lexer, enum lexeme_kind kind) {
    return push(lexer, (struct lexeme){.kind = kind});
}

static void count_lines(struct lexer *lexer, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        lexer->machine->line += lexer->data[i] == '\n';
}

/* Advances to `to`. The bytes passed are one match of Jinja's lexer. */
static void jinja_lexer_pass(struct lexer *lexer, size_t to) {
    count_lines(lexer, lexer->at, to);
    if (to > lexer->at) lexer->line_starts = lexer->data[to - 1] == '\n';
    lexer->at = to;
}

static bool is_space_at(const struct lexer *lexer, size_t at, unsigned *bytes) {
    return unicode_is_space(utf8_read(lexer->data + at, bytes));
}

static size_t skip_space(const struct lexer *lexer, size_t at) {
    unsigned bytes;
    while (at < lexer->count && is_space_at(lexer, at, &bytes))
        at += bytes;
    return at;
}

/* The end of [from, to) without its trailing white space. */
static size_t trim_end(const struct lexer *lexer, size_t from, size_t to) {
    while (to > from) {
        size_t start = to - 1;
        unsigned bytes;
        while (start > from && ((uint8_t)lexer->data[start] & 0xC0) == 0x80)
            start--;
        if (!is_space_at(lexer, start, &bytes)) break;
        to = start;
    }
    return to;
}

static bool starts(const struct lexer *lexer, size_t at, const char *text) {
    size_t count = strlen(text);
    return count <= lexer->count - at && memcmp(lexer->data + at, text, count) == 0;
}

/* The end of the text before a tag, without the white space that the tag removes. `sign` is the '-'
 * or '+' after the tag's opening, or 0. */
static size_t data_end(const struct lexer *lexer, size_t from, size_t to, char sign, bool print) {
    if (sign == '-') return trim_end(lexer, from, to);
    if (sign == '+' || print) return to;
    size_t line = to;
    while (line > from && lexer->data[line - 1] != '\n')
        line--;
    if (line == from && !lexer->line_starts) return to;
    return skip_space(lexer, line) >= to && to > line ? line : to;
}

static bool push_data(struct lexer *lexer, size_t from, size_t to) {
    if (from == to) return true;
    struct bytes text = {lexer->data + from, to - from};
    return push(lexer, (struct lexeme){.kind = LEXEME_DATA, .text = text});
}

/* The position after the end of a tag ("%}", "-%}") at `at`; 0 if there is none. */
static size_t tag_end(const struct lexer *lexer, size_t at, const char *mark, bool trims) {
    size_t mark_count = strlen(mark);
    if (starts(lexer, at, mark)) {
        at += mark_count;
        return trims && at < lexer->count && lexer->data[at] == '\n' ? at + 1 : at;
    }
    if (at >= lexer->count || !starts(lexer, at + 1, mark)) return 0;
    if (lexer->data[at] == '-') return skip_space(lexer, at + 1 + mark_count);
    return lexer->data[at] == '+' && trims ? at + 1 + mark_count : 0;
}

static char sign_at(const struct lexer *lexer, size_t at) {
    if (at >= lexer->count) return 0;
    return lexer->data[at] == '-' || lexer->data[at] == '+' ? lexer->data[at] : 0;
}

/* The position after {% raw %} at `at`; 0 if it is another block. */
static size_t raw_begin(const struct lexer *lexer, size_t at) {
    at += 2;
    at += sign_at(lexer, at) != 0;
    at = skip_space(lexer, at);
    if (!starts(lexer, at, "raw")) return 0;
    at = skip_space(lexer, at + 3);
    if (starts(lexer, at, "%}")) return at + 2;
    return starts(lexer, at, "-%}") ? skip_space(lexer, at + 3) : 0;
}

static bool lex_raw(struct lexer *lexer) {
    size_t start = lexer->at;
    for (size_t at = start; at + 1 < lexer->count; at++) {
        if (!starts(lexer, at, "{%")) continue;
        char sign = sign_at(lexer, at + 2);
        size_t word = skip_space(lexer, at + 2 + (sign != 0));
        if (!starts(lexer, word, "endraw")) continue;
        size_t end = tag_end(lexer, skip_space(lexer, word + 6), "%}", true);
        if (end == 0) continue;
        if (!push_data(lexer, start, data_end(lexer, start, at, sign, false))) return false;
        jinja_lexer_pass(lexer, end);
        return true;
    }
    return machine_fail(lexer->machine, "Missing end of raw directive");
}

static bool lex_comment(struct lexer *lexer) {
    for (size_t at = lexer->at; at + 1 < lexer->count; at++) {
        size_t end = tag_end(lexer, at, "#}", true);
        if (end == 0) continue;
        jinja_lexer_pass(lexer, end);
        return true;
    }
    return machine_fail(lexer->machine, "Missing end of comment tag");
}

/* ---- literals ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter_or_digit(char c) {
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static size_t jinja_lexer_skip_digits(const struct lexer *lexer, size_t at) {
    while (is_digit(lexer->data[at]))
        at++;
    return at;
}

/* The position after the fraction and exponent of a number. Its first digits end at `at`. */
static size_t real_end(const struct lexer *lexer, size_t at) {
    const char *data = lexer->data;
    if (data[at] == '.' && is_digit(data[at + 1])) at = jinja_lexer_skip_digits(lexer, at + 1);
    size_t power = at + 1 + (data[at + 1] == '+' || data[at + 1] == '-');
    if ((data[at] | 0x20) != 'e' || !is_digit(data[power])) return at;
    return jinja_lexer_skip_digits(lexer, power);
}

/* Lexes a decimal number. After a dot, a number has no fraction: a.0.5 means a[0][5]. */
static bool lex_number(struct lexer *lexer) {
    const char *data = lexer->data;
    size_t at = lexer->at, end = jinja_lexer_skip_digits(lexer, at);
    bool behind_dot = at > 0 && data[at - 1] == '.';
    size_t behind = behind_dot ? end : real_end(lexer, end);
    struct lexeme number = {.kind = behind > end ? LEXEME_REAL : LEXEME_INTEGER};
    if (data[behind] == '_' || is_letter_or_digit(data[behind]) ||
        (data[at] == '0' && end > at + 1))
        return machine_fail(lexer->machine, "a number that is not decimal is not supported");
    for (size_t i = at; i < end && number.kind == LEXEME_INTEGER; i++)
        if (__builtin_mul_overflow(number.integer, 10, &number.integer) ||
            __builtin_add_overflow(number.integer, data[i] - '0', &number.integer))
            return machine_fail(lexer->machine, "an integer beyond 64 bits is not supported");
    if (number.kind == LEXEME_REAL &&
        (!real_read((struct bytes){data + at, behind - at}, &number.real) || isinf(number.real)))
        return machine_fail(lexer->machine, "a number of this size is not supported");
    if (!push(lexer, number)) return false;
    jinja_lexer_pass(lexer, behind);
    return true;
}

struct unescaped {
    char *data;
    size_t count;
};

static void write_character(struct unescaped *out, uint32_t character) {
    out->count += utf8_write(character, out->data + out->count);
}

/* Decodes a character given as `digits` hexadecimal digits at `at`. */
static bool unescape_hex(struct lexer *lexer, size_t at, size_t end, unsigned digits,
                         struct unescaped *out) {
    uint32_t character = 0;
    for (unsigned i = 0; i < digits; i++) {
        int digit = at + i < end ? hex_digit(lexer->data[at + i]) : -1;
        if (digit < 0) return machine_fail(lexer->machine, "truncated \\x, \\u or \\U escape");
        character = character << 4 | (uint32_t)digit;
    }
    if (character > 0x10FFFF) return machine_fail(lexer->machine, "illegal Unicode character");
    if (character >= 0xD800 && character < 0xE000)
        return machine_fail(lexer->machine, "half of a surrogate pair is not supported");
    write_character(out, character);
    return true;
}

/* Decodes the escape with its backslash before *at, and moves *at past it. */
static bool unescape(struct lexer *lexer, size_t *at, size_t end, struct unescaped *out) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = lexer->data[*at];
    const char *simple = c ? strchr(from, c) : NULL;
    if ((uint8_t)c >= 0x80 || (c >= '0' && c <= '7') || c == 'N')
        return machine_fail(lexer->machine, "this escape in a string is not supported");
    (*at)++;
    if (simple) {
        out->data[out->count++] = to[simple - from];
        return true;
    }
    if (c == '\n') return true;
    if (c == 'x' || c == 'u' || c == 'U') {
        unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!unescape_hex(lexer, *at, end, digits, out)) return false;
        *at += digits;
        return true;
    }
    out->data[out->count++] = '\\';
    out->data[out->count++] = c;
    return true;
}

static bool lex_string(struct lexer *lexer) {
    char quote = lexer->data[lexer->at];
    size_t start = lexer->at + 1, end = start;
    while (end < lexer->count && lexer->data[end] != quote)
        end += lexer->data[end] == '\\' ? 2 : 1;
    if (end >= lexer->count)
        return machine_fail(lexer->machine, "unexpected char %c: a string has no end", quote);
    struct unescaped out = {machine_take(lexer->machine, (end - start) * 3 + 16), 0};
    if (!out.data) return false;
    for (size_t at = start; at < end;) {
        if (lexer->data[at] != '\\') {
            out.data[out.count++] = lexer->data[at++];
            continue;
        }
        at++;
        if (!unescape(lexer, &at, end, &out)) return false;
    }
    struct bytes text = {out.data, out.count};
    if (!push(lexer, (struct lexeme){.kind = LEXEME_STRING, .text = text})) return false;
    jinja_lexer_pass(lexer, end + 1);
    return true;
}

/* ---- inside of tags ---- */

static bool lex_name(struct lexer *lexer) {
    size_t start = lexer->at, end = start;
    while (end < lexer->count && (lexer->data[end] == '_' || is_letter_or_digit(lexer->data[end])))
        end++;
    uint8_t byte = end < lexer->count ? (uint8_t)lexer->data[end] : 0;
    if (byte >= 0x80)
        return machine_fail(lexer->machine, "a name with letters beyond ASCII is not supported");
    if (end == start)
        return byte >= 0x21 && byte < 0x7F
                   ? machine_fail(lexer->machine, "unexpected char '%c'", byte)
                   : machine_fail(lexer->machine, "unexpected char of code 0x%02X", byte);
    struct bytes text = {lexer->data + start, end - start};
    if (!push(lexer, (struct lexeme){.kind = LEXEME_NAME, .text = text})) return false;
    jinja_lexer_pass(lexer, end);
    return true;
}

static const struct {
    const char text[3];
    enum lexeme_kind kind;
} operators[] = {
    {"//", LEXEME_FLOOR},
    {"**", LEXEME_POWER},
    {"==", LEXEME_EQUAL},
    {"!=", LEXEME_UNEQUAL},
    {">=", LEXEME_GREATER_EQUAL},
    {"<=", LEXEME_LESS_EQUAL},
    {"+", LEXEME_ADD},
    {"-", LEXEME_SUBTRACT},
    {"/", LEXEME_DIVIDE},
    {"*", LEXEME_MULTIPLY},
    {"%", LEXEME_MODULO},
    {"~", LEXEME_TILDE},
    {"[", LEXEME_BRACKET_LEFT},
    {"]", LEXEME_BRACKET_RIGHT},
    {"(", LEXEME_PARENTHESIS_LEFT},
    {")", LEXEME_PARENTHESIS_RIGHT},
    {"{", LEXEME_BRACE_LEFT},
    {"}", LEXEME_BRACE_RIGHT},
    {">", LEXEME_GREATER},
    {"<", LEXEME_LESS},
    {"=", LEXEME_ASSIGN},
    {".", LEXEME_DOT},
    {":", LEXEME_COLON},
    {"|", LEXEME_PIPE},
    {",", LEXEME_COMMA},
    {";", LEXEME_SEMICOLON},
};

struct open_braces {
    char open[BRACES_MAX]; /* expected closing brackets, innermost last */
    unsigned count;
};

static bool balance(struct lexer *lexer, struct open_braces *braces, char c) {
    char closing = c == '{' ? '}' : c == '(' ? ')' : c == '[' ? ']' : 0;
    if (closing) {
        if (braces->count == BRACES_MAX) return machine_exceed(lexer->machine, "levels of nesting");
        braces->open[braces->count++] = closing;
        return true;
    }
    if (c != '}' && c != ')' && c != ']') return true;
    if (braces->count == 0) return machine_fail(lexer->machine, "unexpected '%c'", c);
    char expected = braces->open[--braces->count];
    if (expected == c) return true;
    return machine_fail(lexer->machine, "unexpected '%c', expected '%c'", c, expected);
}

static bool lex_operator(struct lexer *lexer, struct open_braces *braces, bool *found) {
    *found = true;
    for (size_t i = 0; i < ARRAY_COUNT(operators); i++) {
        if (!starts(lexer, lexer->at, operators[i].text)) continue;
        if (!balance(lexer, braces, operators[i].text[0])) return false;
        if (!push_kind(lexer, operators[i].kind)) return false;
        jinja_lexer_pass(lexer, lexer->at + strlen(operators[i].text));
        return true;
    }
    *found = false;
    return true;
}

static bool lex_one(struct lexer *lexer, struct open_braces *braces) {
    char c = lexer->data[lexer->at];
    bool found;
    if (is_digit(c)) return lex_number(lexer);
    if (c == '\'' || c == '"') return lex_string(lexer);
    if (!lex_operator(lexer, braces, &found)) return false;
    return found || lex_name(lexer);
}

static bool lex_tag(struct lexer *lexer, bool print) {
    struct open_braces braces = {.count = 0};
    while (lexer->at < lexer->count) {
        size_t end = braces.count ? 0 : tag_end(lexer, lexer->at, print ? "}}" : "%}", !print);
        if (end) {
            if (!push_kind(lexer, print ? LEXEME_PRINT_END : LEXEME_BLOCK_END)) return false;
            jinja_lexer_pass(lexer, end);
            return true;
        }
        size_t next = skip_space(lexer, lexer->at);
        if (next > lexer->at)
            jinja_lexer_pass(lexer, next);
        else if (!lex_one(lexer, &braces))
            return false;
    }
    return true;
}

/* ---- outside of tags ---- */

/* The position of the next tag, or the end if there is none. */
static size_t next_tag(const struct lexer *lexer) {
    size_t at = lexer->at;
    while (at < lexer->count) {
        const char *brace = memchr(lexer->data + at, '{', lexer->count - at);
        if (!brace) break;
        at = (size_t)(brace - lexer->data);
        char c = lexer->data[at + 1];
        if (c == '{' || c == '%' || c == '#') return at;
        at++;
    }
    return lexer->count;
}

static bool lex_data(struct lexer *lexer) {
    size_t start = lexer->at, at = next_tag(lexer);
    if (at == lexer->count) {
        if (!push_data(lexer, start, at)) return false;
        jinja_lexer_pass(lexer, at);
        return true;
    }
    char kind = lexer->data[at + 1], sign = sign_at(lexer, at + 2);
    if (!push_data(lexer, start, data_end(lexer, start, at, sign, kind == '{'))) return false;
    size_t raw = kind == '%' ? raw_begin(lexer, at) : 0;
    jinja_lexer_pass(lexer, raw ? raw : at + 2 + (sign != 0));
    if (raw) return lex_raw(lexer);
    if (kind == '#') return lex_comment(lexer);
    if (!push_kind(lexer, kind == '{' ? LEXEME_PRINT_BEGIN : LEXEME_BLOCK_BEGIN)) return false;
    return lex_tag(lexer, kind == '{');
}

/* Converts newlines to \n and removes one at the end of the template. */
static bool jinja_lexer_normalize(struct jinja_machine *machine, struct bytes source,
                                  struct lexer *lexer) {
    char *data = machine_take(machine, source.count + 4);
    size_t count = 0;
    if (!data) return false;
    for (size_t i = 0; i < source.count; i++) {
        char c = source.data[i];
        if (c == '\r') {
            if (i + 1 < source.count && source.data[i + 1] == '\n') i++;
            c = '\n';
        }
        data[count++] = c;
    }
    if (count && data[count - 1] == '\n') count--;
    memset(data + count, 0, 4);
    lexer->data = data;
    lexer->count = count;
    return true;
}

bool jinja_lexer_run(struct jinja_machine *machine, struct bytes source, struct lexeme **out,
                     size_t *count_out) {
    struct lexer lexer = {.machine = machine, .line_starts = true};
    machine->line = 1;
    if (utf8_valid_prefix(source) < source.count)
        return machine_fail(machine, "the template is not UTF-8");
    if (!jinja_lexer_normalize(machine, source, &lexer)) return false;
    while (lexer.at < lexer.count)
        if (!lex_data(&lexer)) return false;
    if (!push_kind(&lexer, LEXEME_END)) return false;
    *out = lexer.lexemes;
    *count_out = lexer.lexeme_count;
    return true;
}
