/* SPDX-License-Identifier: Apache-2.0
 * A JSON parser and writer that preserves numbers, which other C libraries round or reject: a
 * number keeps its text if 64 bits cannot restore it. Everything is allocated in the caller's arena
 * and freed with it.
 *
 * An object keeps its members in the order of the text. One with more than a few members has an
 * index: a hash table seeded with the object's address, so that a client cannot choose keys that
 * collide.
 */
#include "base/tree.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/json_writer.h"
#include "base/real.h"

#define DEPTH_MAX 2048
#define ROOM_FIRST 4    /* initial capacity of a list, doubled when it is full */
#define UNINDEXED_MAX 8 /* members that are searched linearly */

struct tree_entry {
    struct bytes key;
    const struct tree *value;
};

struct tree {
    uint8_t kind;  /* enum tree_kind */
    bool is_spelt; /* a number stored as its text */
    uint8_t room;  /* capacity of a list: 0, or ROOM_FIRST << (room - 1) */
    uint32_t count;
    union {
        struct bytes text; /* text of a string, or of a number that is_spelt */
        int64_t integer;
        double real;
        const struct tree **items; /* [count] */
        struct {
            struct tree_entry *members; /* [count] */
            uint32_t *slots;            /* [2 * room] 1 + index of a member, 0: empty; or NULL */
        };
    };
};

/* ---- growing lists ---- */

static size_t room_of(const struct tree *list) {
    return list->room ? (size_t)ROOM_FIRST << (list->room - 1) : 0;
}

/* Makes room for one more item; *items is the list's array. */
static bool tree_make_room(struct arena *arena, struct tree *list, size_t item_bytes, void *items) {
    void *old, *larger;
    if (list->count < room_of(list)) return true;
    if (list->room == 27) return false;
    memcpy(&old, items, sizeof old);
    larger = arena_take(arena, ((size_t)ROOM_FIRST << list->room) * item_bytes);
    if (!larger) return false;
    if (list->count) memcpy(larger, old, list->count * item_bytes);
    memcpy(items, &larger, sizeof larger);
    list->room++;
    return true;
}

static bool tree_add_item(struct arena *arena, struct tree *array, const struct tree *value) {
    if (!tree_make_room(arena, array, sizeof(struct tree *), &array->items)) return false;
    array->items[array->count++] = value;
    return true;
}

/* ---- index of members ---- */

/* The slot of the key, or the empty slot where it would be inserted. Clients choose the keys; the
 * object's address is a seed that they cannot know. */
static uint32_t *tree_slot_of(const struct tree *object, struct bytes key) {
    size_t mask = 2 * room_of(object) - 1;
    for (size_t at = hash_bytes((uintptr_t)object, key.data, key.count);; at++) {
        uint32_t *slot = &object->slots[at & mask];
        if (!*slot || bytes_equal(object->members[*slot - 1].key, key)) return slot;
    }
}

static struct tree_entry *find_member(const struct tree *object, struct bytes key) {
    if (object->slots) {
        uint32_t place = *tree_slot_of(object, key);
        return place ? &object->members[place - 1] : NULL;
    }
    for (uint32_t i = object->count; i-- > 0;)
        if (bytes_equal(object->members[i].key, key)) return &object->members[i];
    return NULL;
}

/* Adds a member. If keys repeat, the last member is found. */
static bool tree_add_member(struct arena *arena, struct tree *object, struct bytes key,
                            const struct tree *value) {
    uint8_t room = object->room;
    if (!tree_make_room(arena, object, sizeof *object->members, &object->members)) return false;
    object->members[object->count++] = (struct tree_entry){key, value};
    if (room_of(object) <= UNINDEXED_MAX) return true;
    if (object->room == room) {
        *tree_slot_of(object, key) = object->count;
        return true;
    }
    object->slots = arena_take_zeroed(arena, 2 * room_of(object) * sizeof *object->slots);
    for (uint32_t i = 0; object->slots && i < object->count; i++)
        *tree_slot_of(object, object->members[i].key) = i + 1;
    return object->slots != NULL;
}

/* ---- parsing ---- */

struct reading {
    struct arena *arena;
    const char *start, *at, *end;
    bool may_repeat; /* a key may repeat in its object */
    unsigned depth;
    enum status status; /* result of the parser */
    const char *why;
    struct bytes key; /* repeated key */
};

static bool refuse(struct reading *reading, const char *why) {
    reading->status = STATUS_INVALID;
    reading->why = why;
    return false;
}

static bool tree_lack_memory(struct reading *reading) {
    reading->status = STATUS_NO_MEMORY;
    return false;
}

static struct tree *tree_make(struct arena *arena, enum tree_kind kind) {
    struct tree *value = arena_take(arena, sizeof *value);
    if (value) *value = (struct tree){.kind = (uint8_t)kind};
    return value;
}

/* The next byte; 0 after the end, which is not valid outside of strings. */
static char next_byte(const struct reading *reading) {
    return reading->at < reading->end ? *reading->at : '\0';
}

static char skip_blanks(struct reading *reading) {
    while (reading->at < reading->end && (*reading->at == ' ' || *reading->at == '\n' ||
                                          *reading->at == '\r' || *reading->at == '\t'))
        reading->at++;
    return next_byte(reading);
}

/* ---- numbers ---- */

static size_t tree_skip_digits(struct reading *reading) {
    const char *first = reading->at;
    while (reading->at < reading->end && *reading->at >= '0' && *reading->at <= '9')
        reading->at++;
    return (size_t)(reading->at - first);
}

static bool skip_number(struct reading *reading, bool *is_whole_out) {
    *is_whole_out = true;
    if (next_byte(reading) == '-') reading->at++;
    const char *first = reading->at;
    size_t digits = tree_skip_digits(reading);
    if (!digits || (digits > 1 && *first == '0'))
        return refuse(reading, digits ? "a number that begins with 0" : "a number has no digits");
    if (next_byte(reading) == '.') {
        *is_whole_out = false;
        reading->at++;
        if (!tree_skip_digits(reading)) return refuse(reading, "no digits follow a number's point");
    }
    if (next_byte(reading) != 'e' && next_byte(reading) != 'E') return true;
    *is_whole_out = false;
    reading->at++;
    if (next_byte(reading) == '+' || next_byte(reading) == '-') reading->at++;
    return tree_skip_digits(reading) || refuse(reading, "a number's exponent has no digits");
}

/* Parses digits after an optional minus, up to `most`. */
static bool magnitude_of(struct bytes text, uint64_t most, uint64_t *out) {
    uint64_t value = 0;
    for (size_t i = text.data[0] == '-'; i < text.count; i++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');
        if (value > (most - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static bool tree_read_number(struct reading *reading, const struct tree **out) {
    bool is_whole;
    const char *first = reading->at;
    if (!skip_number(reading, &is_whole)) return false;
    struct bytes text = {first, (size_t)(reading->at - first)};
    struct tree *value = tree_make(reading->arena, is_whole ? TREE_INTEGER : TREE_REAL);
    if (!value) return tree_lack_memory(reading);
    uint64_t magnitude;
    bool negative = *first == '-';
    value->is_spelt = !is_whole || bytes_equal(text, BYTES_LITERAL("-0")) ||
                      !magnitude_of(text, (uint64_t)INT64_MAX + negative, &magnitude);
    if (value->is_spelt)
        value->text = arena_copy(reading->arena, text);
    else
        value->integer = (int64_t)(negative ? 0 - magnitude : magnitude);
    if (value->is_spelt && !value->text.data) return tree_lack_memory(reading);
    *out = value;
    return true;
}

/* ---- strings ---- */

/* The length of the UTF-8 character at `at` in bytes; 0 if it is invalid. */
static size_t character_bytes(const char *at, size_t left) {
    const unsigned char *byte = (const unsigned char *)at;
    size_t count = byte[0] < 0x80   ? 1
                   : byte[0] < 0xC2 ? 0
                   : byte[0] < 0xE0 ? 2
                   : byte[0] < 0xF0 ? 3
                   : byte[0] < 0xF5 ? 4
                                    : 0;
    if (count > left) return 0;
    for (size_t i = 1; i < count; i++)
        if ((byte[i] & 0xC0) != 0x80) return 0;
    if ((byte[0] == 0xE0 && byte[1] < 0xA0) || (byte[0] == 0xED && byte[1] > 0x9F) ||
        (byte[0] == 0xF0 && byte[1] < 0x90) || (byte[0] == 0xF4 && byte[1] > 0x8F))
        return 0;
    return count;
}

/* Parses four hexadecimal digits. */
static bool tree_read_unit(struct reading *reading, uint32_t *out) {
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = next_byte(reading);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return refuse(reading, "\\u needs four hexadecimal digits");
        unit = unit << 4 | (uint32_t)digit;
        reading->at++;
    }
    *out = unit;
    return true;
}

/* Parses a character after "\u", from one escape or two. */
static bool tree_read_character(struct reading *reading, char **to) {
    uint32_t unit, low;
    if (!tree_read_unit(reading, &unit)) return false;
    bool is_high = unit >= 0xD800 && unit < 0xDC00;
    if (unit >= 0xDC00 && unit < 0xE000) return refuse(reading, "half of a pair of surrogates");
    if (is_high) {
        if (reading->end - reading->at < 2 || memcmp(reading->at, "\\u", 2) != 0)
            return refuse(reading, "half of a pair of surrogates");
        reading->at += 2;
        if (!tree_read_unit(reading, &low)) return false;
        if (low < 0xDC00 || low >= 0xE000) return refuse(reading, "half of a pair of surrogates");
        unit = 0x10000 + ((unit - 0xD800) << 10 | (low - 0xDC00));
    }
    char *out = *to;
    if (unit < 0x80) {
        *out++ = (char)unit;
    } else {
        if (unit < 0x800) {
            *out++ = (char)(0xC0 | unit >> 6);
        } else {
            if (unit >= 0x10000) *out++ = (char)(0xF0 | unit >> 18);
            *out++ = (char)(unit >= 0x10000 ? 0x80 | (unit >> 12 & 0x3F) : 0xE0 | unit >> 12);
            *out++ = (char)(0x80 | (unit >> 6 & 0x3F));
        }
        *out++ = (char)(0x80 | (unit & 0x3F));
    }
    *to = out;
    return true;
}

static bool tree_read_escape(struct reading *reading, char **to) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char name = next_byte(reading);
    const char *found = name ? strchr(names, name) : NULL;
    if (!found && name != 'u') return refuse(reading, "an escape that JSON does not have");
    reading->at++;
    if (!found) return tree_read_character(reading, to);
    *(*to)++ = meanings[found - names];
    return true;
}

/* The end of the bytes that need no decoding. */
static const char *plain_end(const char *at, const char *end) {
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
           (unsigned char)*at < 0x80)
        at++;
    return at;
}

/* The position after the closing quote of a string; NULL if there is none. */
static const char *tree_string_end(const char *at, const char *end) {
    for (; at < end; at++) {
        if (*at == '"') return at + 1;
        if (*at == '\\') at++;
    }
    return NULL;
}

/* Parses a string from its quote. The text is terminated. */
static bool read_string(struct reading *reading, struct bytes *out) {
    const char *end = tree_string_end(++reading->at, reading->end);
    if (!end) {
        reading->at = reading->end;
        return refuse(reading, "a string does not end");
    }
    char *text = arena_take(reading->arena, (size_t)(end - reading->at)), *to = text;
    if (!text) return tree_lack_memory(reading);
    while (*reading->at != '"') {
        const char *plain = plain_end(reading->at, end);
        size_t count = (size_t)(plain - reading->at);
        if (count == 0 && *reading->at == '\\') {
            reading->at++;
            if (!tree_read_escape(reading, &to)) return false;
            continue;
        }
        if (count == 0 && (unsigned char)*reading->at < 0x20)
            return refuse(reading, "a control character in a string");
        if (count == 0) count = character_bytes(reading->at, (size_t)(end - reading->at));
        if (count == 0) return refuse(reading, "a string is not valid UTF-8");
        memcpy(to, reading->at, count);
        to += count;
        reading->at += count;
    }
    reading->at++;
    *to = '\0';
    *out = (struct bytes){text, (size_t)(to - text)};
    return true;
}

/* ---- values ---- */

static const struct tree tree_true = {.kind = TREE_TRUE}, tree_false = {.kind = TREE_FALSE},
                         tree_null = {.kind = TREE_NULL};

static bool tree_read_value(struct reading *reading, const struct tree **out);

static bool read_word(struct reading *reading, const char *word, const struct tree *value,
                      const struct tree **out) {
    size_t count = strlen(word);
    if ((size_t)(reading->end - reading->at) < count || memcmp(reading->at, word, count) != 0)
        return refuse(reading, "expected a value");
    reading->at += count;
    *out = value;
    return true;
}

static bool read_array(struct reading *reading, struct tree *array) {
    const struct tree *item;
    reading->at++;
    if (skip_blanks(reading) == ']') {
        reading->at++;
        return true;
    }
    for (;;) {
        if (!tree_read_value(reading, &item)) return false;
        if (!tree_add_item(reading->arena, array, item)) return tree_lack_memory(reading);
        char c = skip_blanks(reading);
        if (c != ',' && c != ']') return refuse(reading, "expected ',' or ']' in an array");
        reading->at++;
        if (c == ']') return true;
    }
}

static bool tree_read_member(struct reading *reading, struct tree *object) {
    struct bytes key;
    const struct tree *value;
    if (skip_blanks(reading) != '"') return refuse(reading, "expected a key in quotes");
    const char *first = reading->at;
    if (!read_string(reading, &key)) return false;
    bool has_zero = memchr(key.data, 0, key.count); /* lookups use C strings */
    if (has_zero || (!reading->may_repeat && find_member(object, key))) {
        reading->at = first;
        reading->key = key;
        return refuse(reading, has_zero ? "a zero byte in the key" : "a duplicate key");
    }
    if (skip_blanks(reading) != ':') return refuse(reading, "expected ':' behind a key");
    reading->at++;
    if (!tree_read_value(reading, &value)) return false;
    return tree_add_member(reading->arena, object, key, value) || tree_lack_memory(reading);
}

static bool tree_read_object(struct reading *reading, struct tree *object) {
    reading->at++;
    if (skip_blanks(reading) == '}') {
        reading->at++;
        return true;
    }
    for (;;) {
        if (!tree_read_member(reading, object)) return false;
        char c = skip_blanks(reading);
        if (c != ',' && c != '}') return refuse(reading, "expected ',' or '}' in an object");
        reading->at++;
        if (c == '}') return true;
    }
}

static bool tree_read_value(struct reading *reading, const struct tree **out) {
    char c = skip_blanks(reading);
    if (c == 't') return read_word(reading, "true", &tree_true, out);
    if (c == 'f') return read_word(reading, "false", &tree_false, out);
    if (c == 'n') return read_word(reading, "null", &tree_null, out);
    if (c == '-' || (c >= '0' && c <= '9')) return tree_read_number(reading, out);
    if (c != '{' && c != '[' && c != '"') return refuse(reading, "expected a value");
    struct tree *value = tree_make(reading->arena, c == '{'   ? TREE_OBJECT
                                                   : c == '[' ? TREE_ARRAY
                                                              : TREE_STRING);
    if (!value) return tree_lack_memory(reading);
    *out = value;
    if (c == '"') return read_string(reading, &value->text);
    if (++reading->depth > DEPTH_MAX) return refuse(reading, "too many levels");
    bool done = c == '{' ? tree_read_object(reading, value) : read_array(reading, value);
    reading->depth--;
    return done;
}

/* Reports an error. Line and column count characters from 1. */
static enum status tree_report(const struct reading *reading, const char *name,
                               struct error *error) {
    unsigned line = 1, column = 1;
    char text[64];
    if (reading->status == STATUS_NO_MEMORY)
        return error_set(error, STATUS_NO_MEMORY,
                         "%s: not enough memory to parse %zu bytes of JSON", name,
                         (size_t)(reading->end - reading->start));
    for (const char *at = reading->start; at < reading->at; at++) {
        bool is_end = *at == '\n';
        line += is_end;
        column = is_end ? 1 : column + ((*at & 0xC0) != 0x80);
    }
    struct json_writer key = {.out = text, .room = sizeof text};
    if (reading->key.data) json_writer_string(&key, reading->key);
    return error_set(error, STATUS_INVALID, "%s: not valid JSON: line %u, column %u: %s%s%.*s",
                     name, line, column, reading->why, key.count ? " " : "",
                     (int)(json_writer_fits(&key) ? key.count : 0), text);
}

static enum status tree_parse_each(struct arena *arena, struct bytes text, bool may_repeat,
                                   const char *name, const struct tree **root_out,
                                   struct error *error) {
    const char *start = text.data ? text.data : "";
    const struct tree *root;
    struct reading reading = {.arena = arena,
                              .start = start,
                              .at = start,
                              .end = start + text.count,
                              .may_repeat = may_repeat};
    bool done = tree_read_value(&reading, &root);
    if (done) (void)skip_blanks(&reading);
    if (done && reading.at < reading.end)
        done = refuse(&reading, "something stands behind the value");
    if (!done) return tree_report(&reading, name, error);
    *root_out = root;
    return STATUS_OK;
}

enum status tree_parse(struct arena *arena, struct bytes text, const char *name,
                       const struct tree **root_out, struct error *error) {
    return tree_parse_each(arena, text, false, name, root_out, error);
}

enum status tree_parse_repeated(struct arena *arena, struct bytes text, const char *name,
                                const struct tree **root_out, struct error *error) {
    return tree_parse_each(arena, text, true, name, root_out, error);
}

/* ---- access ---- */

static bool is_kind(const struct tree *value, enum tree_kind kind) {
    return value && value->kind == kind;
}

enum tree_kind tree_kind(const struct tree *value) {
    return (enum tree_kind)value->kind;
}

const char *tree_kind_name(enum tree_kind kind) {
    static const char *const names[] = {
        [TREE_OBJECT] = "an object",   [TREE_ARRAY] = "an array",     [TREE_STRING] = "a string",
        [TREE_INTEGER] = "an integer", [TREE_REAL] = "a real number", [TREE_TRUE] = "true",
        [TREE_FALSE] = "false",        [TREE_NULL] = "null",
    };
    return names[kind];
}

const char *tree_name(const struct tree *value) {
    if (!tree_is_beyond(value)) return tree_kind_name(tree_kind(value));
    return value->kind == TREE_INTEGER ? "an integer beyond 64 bits" : "a number beyond 64 bits";
}

const struct tree *tree_member(const struct tree *object, const char *key) {
    const struct tree_entry *member =
        is_kind(object, TREE_OBJECT) ? find_member(object, bytes_of(key)) : NULL;
    return member ? member->value : NULL;
}

bool tree_next_member(const struct tree *object, struct tree_cursor *cursor, struct bytes *key_out,
                      const struct tree **value_out) {
    if (!is_kind(object, TREE_OBJECT)) return false;
    const struct tree_entry *member =
        cursor->place ? (const struct tree_entry *)cursor->place + 1 : object->members;
    if (object->count == 0 || member == object->members + object->count) return false;
    cursor->place = member;
    *key_out = member->key;
    *value_out = member->value;
    return true;
}

size_t tree_count(const struct tree *array) {
    return is_kind(array, TREE_ARRAY) ? array->count : 0;
}

const struct tree *tree_at(const struct tree *array, size_t index) {
    return index < tree_count(array) ? array->items[index] : NULL;
}

bool tree_get_string(const struct tree *value, struct bytes *out) {
    if (!is_kind(value, TREE_STRING)) return false;
    *out = value->text;
    return true;
}

bool tree_get_spelling(const struct tree *value, struct bytes *out) {
    if (!value || !value->is_spelt) return false;
    *out = value->text;
    return true;
}

bool tree_get_integer(const struct tree *value, int64_t *out) {
    if (!is_kind(value, TREE_INTEGER)) return false;
    if (value->is_spelt && value->text.count != 2) return false; /* "-0" */
    *out = value->is_spelt ? 0 : value->integer;
    return true;
}

bool tree_get_word(const struct tree *value, uint64_t *out) {
    int64_t integer;
    if (!is_kind(value, TREE_INTEGER)) return false;
    if (!tree_get_integer(value, &integer))
        return value->text.data[0] != '-' && magnitude_of(value->text, UINT64_MAX, out);
    *out = (uint64_t)integer;
    return true;
}

bool tree_get_number(const struct tree *value, double *out) {
    double number;
    if (!is_kind(value, TREE_INTEGER) && !is_kind(value, TREE_REAL)) return false;
    if (!value->is_spelt)
        number = value->kind == TREE_INTEGER ? (double)value->integer : value->real;
    else if (!real_read(value->text, &number) || !isfinite(number))
        return false;
    *out = number;
    return true;
}

bool tree_is_beyond(const struct tree *value) {
    int64_t integer;
    double number;
    return (is_kind(value, TREE_INTEGER) && !tree_get_integer(value, &integer)) ||
           (is_kind(value, TREE_REAL) && !tree_get_number(value, &number));
}

bool tree_get_bool(const struct tree *value, bool *out) {
    if (!is_kind(value, TREE_TRUE) && !is_kind(value, TREE_FALSE)) return false;
    *out = value->kind == TREE_TRUE;
    return true;
}

bool tree_is_null(const struct tree *value) {
    return is_kind(value, TREE_NULL);
}

/* ---- building ---- */

struct tree *tree_make_object(struct arena *arena) {
    return tree_make(arena, TREE_OBJECT);
}

struct tree *tree_make_array(struct arena *arena) {
    return tree_make(arena, TREE_ARRAY);
}

struct tree *tree_make_string(struct arena *arena, struct bytes text) {
    for (size_t at = 0, count; at < text.count; at += count)
        if (!(count = character_bytes(text.data + at, text.count - at))) return NULL;
    struct tree *value = tree_make(arena, TREE_STRING);
    if (value) value->text = arena_copy(arena, text);
    return value && value->text.data ? value : NULL;
}

struct tree *tree_make_integer(struct arena *arena, int64_t integer) {
    struct tree *value = tree_make(arena, TREE_INTEGER);
    if (value) value->integer = integer;
    return value;
}

struct tree *tree_make_real(struct arena *arena, double real) {
    check(isfinite(real));
    struct tree *value = tree_make(arena, TREE_REAL);
    if (value) value->real = real;
    return value;
}

const struct tree *tree_make_number(struct arena *arena, struct bytes text) {
    const struct tree *value = NULL;
    struct reading reading = {
        .arena = arena, .start = text.data, .at = text.data, .end = text.data + text.count};
    return text.count && tree_read_number(&reading, &value) && reading.at == reading.end ? value
                                                                                         : NULL;
}

const struct tree *tree_make_bool(bool value) {
    return value ? &tree_true : &tree_false;
}

const struct tree *tree_make_null(void) {
    return &tree_null;
}

bool tree_set(struct arena *arena, struct tree *object, const char *key, const struct tree *value) {
    if (!object || !value) return false;
    struct tree_entry *member = find_member(object, bytes_of(key));
    if (member) {
        member->value = value;
        return true;
    }
    struct bytes copy = arena_copy(arena, bytes_of(key));
    return copy.data && tree_add_member(arena, object, copy, value);
}

bool tree_append(struct arena *arena, struct tree *array, const struct tree *value) {
    return array && value && tree_add_item(arena, array, value);
}

/* ---- as text ---- */

static void write_object(struct json_writer *writer, const struct tree *object) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    const char *before = "{";
    while (tree_next_member(object, &cursor, &key, &value)) {
        json_writer_text(writer, before);
        json_writer_string(writer, key);
        json_writer_text(writer, ":");
        tree_write(writer, value);
        before = ",";
    }
    json_writer_text(writer, *before == '{' ? "{}" : "}");
}

static void write_array(struct json_writer *writer, const struct tree *array) {
    json_writer_text(writer, "[");
    for (size_t i = 0; i < tree_count(array); i++) {
        if (i) json_writer_text(writer, ",");
        tree_write(writer, tree_at(array, i));
    }
    json_writer_text(writer, "]");
}

void tree_write(struct json_writer *writer, const struct tree *value) {
    char digits[REAL_TEXT_BYTES];
    struct bytes text;
    double number;
    int64_t integer;
    if (tree_kind(value) == TREE_OBJECT) {
        write_object(writer, value);
    } else if (tree_kind(value) == TREE_ARRAY) {
        write_array(writer, value);
    } else if (tree_get_string(value, &text)) {
        json_writer_string(writer, text);
    } else if (tree_get_spelling(value, &text)) {
        json_writer_bytes(writer, text);
    } else if (tree_get_integer(value, &integer)) {
        json_writer_integer(writer, integer);
    } else if (tree_get_number(value, &number)) {
        json_writer_bytes(writer, (struct bytes){digits, real_write(number, digits)});
    } else {
        json_writer_text(writer, tree_is_null(value) ? "null" : tree_kind_name(tree_kind(value)));
    }
}

const char *tree_brief(const struct tree *value, char out[TREE_BRIEF_BYTES]) {
    struct json_writer writer = {.out = out, .room = TREE_BRIEF_BYTES - 8};
    if (value->kind != TREE_INTEGER && value->kind != TREE_REAL)
        return tree_kind_name(tree_kind(value));
    tree_write(&writer, value);
    if (json_writer_fits(&writer))
        out[writer.count] = '\0';
    else
        memcpy(out + writer.room - 3, "...", 4);
    return out;
}

struct bytes tree_text(struct arena *arena, const struct tree *value) {
    struct json_writer counter = {0};
    tree_write(&counter, value);
    struct json_writer writer = {.out = arena_take(arena, counter.count + 1),
                                 .room = counter.count};
    if (!writer.out) return (struct bytes){NULL, 0};
    tree_write(&writer, value);
    return (struct bytes){writer.out, writer.count};
}
