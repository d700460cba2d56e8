/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/json_scanner.h"

#include <string.h>

static bool json_scanner_break_off(struct json_scanner *scanner) {
    scanner->state = JSON_BROKEN;
    return false;
}

static bool json_scanner_go_to(struct json_scanner *scanner, enum json_state state) {
    scanner->state = (uint8_t)state;
    return true;
}

static bool end_value(struct json_scanner *scanner) {
    return json_scanner_go_to(scanner, scanner->depth > 0 ? JSON_AFTER : JSON_WHOLE);
}

static bool in_object(const struct json_scanner *scanner) {
    unsigned level = scanner->depth - 1u;
    return scanner->objects[level / 8] >> level % 8 & 1;
}

static bool open_container(struct json_scanner *scanner, bool is_object) {
    unsigned level = scanner->depth;
    if (level == JSON_SCANNER_DEPTH_MAX) return json_scanner_break_off(scanner);
    uint8_t bit = (uint8_t)(1u << level % 8);
    uint8_t others = (uint8_t)(scanner->objects[level / 8] & ~bit);
    scanner->objects[level / 8] = (uint8_t)(others | (is_object ? bit : 0));
    scanner->depth++;
    return json_scanner_go_to(scanner, is_object ? JSON_FIRST_KEY : JSON_FIRST_ITEM);
}

static bool close_container(struct json_scanner *scanner) {
    scanner->depth--;
    return end_value(scanner);
}

static bool open_string(struct json_scanner *scanner, bool is_key) {
    scanner->in_key = is_key;
    return json_scanner_go_to(scanner, JSON_STRING);
}

static bool open_value(struct json_scanner *scanner, char byte) {
    switch (byte) {
    case '{':
    case '[':
        return open_container(scanner, byte == '{');
    case '"':
        return open_string(scanner, false);
    case '-':
        return json_scanner_go_to(scanner, JSON_MINUS);
    case '0':
        return json_scanner_go_to(scanner, JSON_ZERO);
    case 't':
    case 'f':
    case 'n':
        scanner->literal = byte;
        scanner->left = 1;
        return json_scanner_go_to(scanner, JSON_LITERAL);
    default:
        return byte >= '1' && byte <= '9' ? json_scanner_go_to(scanner, JSON_DIGITS)
                                          : json_scanner_break_off(scanner);
    }
}

static bool json_scanner_is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static bool json_scanner_is_hex(char byte) {
    return json_scanner_is_digit(byte) || (byte >= 'a' && byte <= 'f') ||
           (byte >= 'A' && byte <= 'F');
}

static bool next_of_string(struct json_scanner *scanner, char byte) {
    switch (scanner->state) {
    case JSON_ESCAPE:
        scanner->left = 4;
        if (byte == 'u') return json_scanner_go_to(scanner, JSON_HEX);
        return byte && strchr("\"\\/bfnrt", byte) ? json_scanner_go_to(scanner, JSON_STRING)
                                                  : json_scanner_break_off(scanner);
    case JSON_HEX:
        if (!json_scanner_is_hex(byte)) return json_scanner_break_off(scanner);
        return --scanner->left > 0 || json_scanner_go_to(scanner, JSON_STRING);
    default:
        if (byte == '\\') return json_scanner_go_to(scanner, JSON_ESCAPE);
        if (byte == '"')
            return scanner->in_key ? json_scanner_go_to(scanner, JSON_COLON) : end_value(scanner);
        return scanner->tolerant || (unsigned char)byte >= 0x20 || json_scanner_break_off(scanner);
    }
}

static bool next_of_literal(struct json_scanner *scanner, char byte) {
    const char *word = scanner->literal == 't'   ? "true"
                       : scanner->literal == 'f' ? "false"
                                                 : "null";
    if (byte != word[scanner->left]) return json_scanner_break_off(scanner);
    return word[++scanner->left] != '\0' || end_value(scanner);
}

/* A byte that cannot continue a number ends it, and belongs to the container. */
static bool next_of_number(struct json_scanner *scanner, char byte) {
    bool digit = json_scanner_is_digit(byte), e = byte == 'e' || byte == 'E';
    switch (scanner->state) {
    case JSON_MINUS:
        if (digit) return json_scanner_go_to(scanner, byte == '0' ? JSON_ZERO : JSON_DIGITS);
        return json_scanner_break_off(scanner);
    case JSON_DIGITS:
        if (digit) return true;
        /* fall through */
    case JSON_ZERO:
        if (byte == '.') return json_scanner_go_to(scanner, JSON_POINT);
        break;
    case JSON_POINT:
        return digit ? json_scanner_go_to(scanner, JSON_FRACTION) : json_scanner_break_off(scanner);
    case JSON_FRACTION:
        if (digit) return true;
        break;
    case JSON_E:
        if (byte == '+' || byte == '-') return json_scanner_go_to(scanner, JSON_E_SIGN);
        /* fall through */
    case JSON_E_SIGN:
        return digit ? json_scanner_go_to(scanner, JSON_EXPONENT) : json_scanner_break_off(scanner);
    default:
        if (digit) return true;
        e = false;
    }
    if (e) return json_scanner_go_to(scanner, JSON_E);
    end_value(scanner);
    return json_scanner_next(scanner, byte);
}

static bool next_of_container(struct json_scanner *scanner, char byte) {
    switch (scanner->state) {
    case JSON_FIRST_ITEM:
        return byte == ']' ? close_container(scanner) : open_value(scanner, byte);
    case JSON_FIRST_KEY:
        if (byte == '}') return close_container(scanner);
        /* fall through */
    case JSON_KEY:
        return byte == '"' ? open_string(scanner, true) : json_scanner_break_off(scanner);
    case JSON_COLON:
        return byte == ':' ? json_scanner_go_to(scanner, JSON_VALUE)
                           : json_scanner_break_off(scanner);
    default:
        if (byte == ',')
            return json_scanner_go_to(scanner, in_object(scanner) ? JSON_KEY : JSON_VALUE);
        if (byte == (in_object(scanner) ? '}' : ']')) return close_container(scanner);
        return json_scanner_break_off(scanner);
    }
}

bool json_scanner_in_number(const struct json_scanner *scanner) {
    return scanner->state >= JSON_MINUS && scanner->state <= JSON_EXPONENT;
}

bool json_scanner_next(struct json_scanner *scanner, char byte) {
    bool space = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
    if (json_scanner_in_number(scanner)) return next_of_number(scanner, byte);
    switch (scanner->state) {
    case JSON_STRING:
    case JSON_ESCAPE:
    case JSON_HEX:
        return next_of_string(scanner, byte);
    case JSON_LITERAL:
        return next_of_literal(scanner, byte);
    case JSON_BROKEN:
        return false;
    default:
        break;
    }
    if (space) return true;
    if (scanner->state == JSON_VALUE) return open_value(scanner, byte);
    return scanner->state == JSON_WHOLE ? json_scanner_break_off(scanner)
                                        : next_of_container(scanner, byte);
}

bool json_scanner_is_whole(const struct json_scanner *scanner) {
    if (scanner->depth > 0) return false;
    return scanner->state == JSON_WHOLE || scanner->state == JSON_ZERO ||
           scanner->state == JSON_DIGITS || scanner->state == JSON_FRACTION ||
           scanner->state == JSON_EXPONENT;
}
