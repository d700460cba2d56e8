/* SPDX-License-Identifier: Apache-2.0
 * Follows a tool call that is a JSON object, byte by byte: which member's value a byte belongs to.
 * It has a "name", and "arguments" (or "parameters"), each at most once, and it may have an "id"
 * and a "type"; another key breaks it. So does a name that is no string. It keeps nothing of the
 * values.
 */
#ifndef SERVING_TEXT_CALL_OBJECT_H
#define SERVING_TEXT_CALL_OBJECT_H

#include "serving/text/json_scanner.h"

enum call_member {
    CALL_MEMBER_NONE, /* between the members' values */
    CALL_MEMBER_NAME,
    CALL_MEMBER_ARGUMENTS,
    CALL_MEMBER_ID,
    CALL_MEMBER_TYPE,
    CALL_MEMBER_COUNT
};

#define CALL_KEY_BYTES_MAX 10 /* "parameters" */

/* Zero it to start, then set what the caller sets. */
struct call_object {
    struct json_scanner scanner; /* its `tolerant` is the caller's */
    bool is_arguments;           /* set by the caller: all of it is the arguments */
    uint8_t member;              /* enum call_member: the member of the next or begun value */
    uint8_t seen;                /* members that have come, a bit each */
    uint8_t key_count;
    char key[CALL_KEY_BYTES_MAX];
};

/* Takes one more byte; the first one is '{'. *member_out is the member that it belongs to. False:
 * it breaks the object. */
bool call_object_next(struct call_object *object, char byte, enum call_member *member_out);

bool call_object_is_whole(const struct call_object *object);

#endif
