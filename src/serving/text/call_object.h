/* SPDX-License-Identifier: Apache-2.0
 * Follows a tool call that is a JSON object, byte by byte, and reports the member that contains
 * each byte. The object must have a "name" and "arguments" (or "parameters"), each at most once,
 * and may have an "id" and a "type". Another key, or a name that is not a string, makes it invalid.
 * No values are stored.
 */
#pragma once

#include "serving/text/json_scanner.h"

enum call_member {
    CALL_MEMBER_NONE, /* between the values of members */
    CALL_MEMBER_NAME,
    CALL_MEMBER_ARGUMENTS,
    CALL_MEMBER_ID,
    CALL_MEMBER_TYPE,
    CALL_MEMBER_COUNT
};

#define CALL_KEY_BYTES_MAX 10 /* "parameters" */

/* Initialize with zeros, then set the fields that the caller sets. */
struct call_object {
    struct json_scanner scanner; /* the caller sets `tolerant` */
    bool is_arguments;           /* set by the caller: the whole object is the arguments */
    uint8_t member;              /* enum call_member: the member of the next or current value */
    uint8_t seen;                /* members seen so far, one bit each */
    uint8_t key_count;
    char key[CALL_KEY_BYTES_MAX];
};

/* Processes one more byte. The first one is '{'. *member_out is the member that contains it.
 * Returns false if the byte makes the object invalid. */
bool call_object_next(struct call_object *object, char byte, enum call_member *member_out);

bool call_object_is_whole(const struct call_object *object);
