/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/call_object.h"

#include "base/check.h"
#include "serving/text/tool_cursor.h"

static const struct {
    const char *key;
    enum call_member member;
} members[] = {
    {"name", CALL_MEMBER_NAME}, {"arguments", CALL_MEMBER_ARGUMENTS},
    {"id", CALL_MEMBER_ID},     {"parameters", CALL_MEMBER_ARGUMENTS},
    {"type", CALL_MEMBER_TYPE},
};

/* Adds a byte to a key. Returns false as soon as no known key starts with it. */
static bool take_key_byte(struct call_object *object, char byte) {
    if (object->key_count == CALL_KEY_BYTES_MAX) return false;
    object->key[object->key_count++] = byte;
    for (size_t i = 0; i < ARRAY_COUNT(members); i++)
        if (bytes_start_with(bytes_of(members[i].key),
                             (struct bytes){object->key, object->key_count}))
            return true;
    return false;
}

static bool end_key(struct call_object *object) {
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        if (!bytes_equal(bytes_of(members[i].key), (struct bytes){object->key, object->key_count}))
            continue;
        uint8_t bit = (uint8_t)(1u << members[i].member);
        bool first = !(object->seen & bit);
        object->seen |= bit;
        object->member = (uint8_t)members[i].member;
        return first;
    }
    return false;
}

/* Processes a byte at the level of the members: before a key, in a key, or before a value. */
static bool take_between(struct call_object *object, enum json_state before, char byte) {
    bool in_string = before == JSON_STRING || before == JSON_ESCAPE || before == JSON_HEX;
    if (!in_string) {
        object->key_count = 0;
        return true;
    }
    return object->scanner.state == JSON_COLON ? end_key(object) : take_key_byte(object, byte);
}

bool call_object_next(struct call_object *object, char byte, enum call_member *member_out) {
    struct json_scanner *scanner = &object->scanner;
    enum json_state before = (enum json_state)scanner->state;
    bool top = scanner->depth == 1, was_number = json_scanner_in_number(scanner);
    if (scanner->depth == 0 && byte != '{') return false;
    if (!json_scanner_next(scanner, byte)) return false;
    *member_out = object->is_arguments ? CALL_MEMBER_ARGUMENTS : CALL_MEMBER_NONE;
    if (object->is_arguments) return true;
    if (object->member == CALL_MEMBER_NONE) return !top || take_between(object, before, byte);
    bool opens = top && before == JSON_VALUE;
    if ((top && before == JSON_COLON) || (opens && tool_cursor_is_space(byte))) return true;
    if (opens && object->member == CALL_MEMBER_NAME && byte != '"') return false;
    if (top && was_number && !json_scanner_in_number(scanner)) {
        object->member = CALL_MEMBER_NONE;
        return true;
    }
    *member_out = (enum call_member)object->member;
    if (scanner->depth == 1 && scanner->state == JSON_AFTER) object->member = CALL_MEMBER_NONE;
    return true;
}

bool call_object_is_whole(const struct call_object *object) {
    return json_scanner_is_whole(&object->scanner);
}
