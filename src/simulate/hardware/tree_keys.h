/* SPDX-License-Identifier: Apache-2.0
 * Reads an object of a hardware file or scenario by a table. Each row of the table has a key, the
 * type of its value, and its destination. A key without a row is an error that names its whole path
 * and the nearest known key. A value of the wrong type or out of range is an error, too. A value
 * may also be an object {value: …, source: "…"}, which documents the source of the number. Any
 * object may have the keys about, note and source, which are ignored.
 */
#pragma once

#include "base/status.h"
#include "base/tree.h"

#define TREE_PATH_BYTES 160
#define TREE_TEXT_BYTES 64

enum tree_key_kind {
    KEY_COUNT,  /* uint32_t */
    KEY_LARGE,  /* uint64_t */
    KEY_NUMBER, /* double */
    KEY_TIME,   /* seconds, as int64_t of nanoseconds */
    KEY_FLAG,   /* bool */
    KEY_TEXT,   /* char[TREE_TEXT_BYTES] */
    KEY_CHOICE, /* uint32_t: the index of a word in `choices` ("a|b|c") */
    KEY_OTHER,  /* read by another function */
};

struct tree_key {
    const char *name;
    enum tree_key_kind kind;
    size_t offset;
    double minimum, maximum; /* of numbers; both 0: from 0 to 1e18, or to the limit of the type */
    const char *choices;
    bool needed;
};

/* The location of an object for messages: the file, and the path of keys. */
struct tree_place {
    const char *file;
    char path[TREE_PATH_BYTES];
    struct error *error;
};

/* The location of a member or element of an object. */
struct tree_place tree_keys_below(const struct tree_place *place, const char *key);
struct tree_place tree_keys_element(const struct tree_place *place, size_t index);

/* Reads the members of the object into `out`. Destinations of missing members keep their values.
 * `object` may be NULL. Returns STATUS_OK or STATUS_INVALID. */
enum status tree_keys_read(const struct tree_place *place, const struct tree *object,
                           const struct tree_key *keys, size_t key_count, void *out) MUST_USE;

/* Reads the member `key` of the object in the same way. It must be an object itself. */
enum status tree_keys_read_member(const struct tree_place *place, const struct tree *object,
                                  const char *key, const struct tree_key *keys, size_t key_count,
                                  void *out) MUST_USE;

/* Sets the error "file: path: message" and returns STATUS_INVALID. */
enum status tree_keys_refuse(const struct tree_place *place, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

/* The plain value of {value: …, source: …}; any other value is returned as it is. */
const struct tree *tree_keys_plain(const struct tree *value);
