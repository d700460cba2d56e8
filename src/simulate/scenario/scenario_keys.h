/* SPDX-License-Identifier: Apache-2.0
 * Reads an object of a scenario by a table. Each row has a key, the type of its value, and its
 * destination. A key without a row is an error that names the key's whole path and the nearest
 * known key. A value of another type, or out of its range, is an error, too. A value may also be an
 * object {value: …, source: "…"}, which documents the source of the number.
 */
#ifndef SIMULATE_SCENARIO_SCENARIO_KEYS_H
#define SIMULATE_SCENARIO_SCENARIO_KEYS_H

#include "base/status.h"
#include "base/tree.h"

#define SCENARIO_PATH_BYTES 160
#define SCENARIO_TEXT_BYTES 64

enum scenario_kind {
    SCENARIO_COUNT,  /* uint32_t */
    SCENARIO_LARGE,  /* uint64_t */
    SCENARIO_NUMBER, /* double */
    SCENARIO_TIME,   /* seconds, as int64_t of nanoseconds */
    SCENARIO_FLAG,   /* bool */
    SCENARIO_TEXT,   /* char[SCENARIO_TEXT_BYTES] */
    SCENARIO_CHOICE, /* uint32_t: the index of a word in `choices` ("a|b|c") */
    SCENARIO_OTHER,  /* read by another function */
};

struct scenario_key {
    const char *name;
    enum scenario_kind kind;
    size_t offset;
    double minimum, maximum; /* of numbers; both 0: 0 .. 1e18 (a uint32_t's limit, for counts) */
    const char *choices;
    bool needed;
};

/* The location of an object for messages: the file and the path of keys. */
struct scenario_place {
    const char *file;
    char path[SCENARIO_PATH_BYTES];
    struct error *error;
};

/* The location of a member or an element. */
struct scenario_place scenario_keys_below(const struct scenario_place *place, const char *key);
struct scenario_place scenario_keys_element(const struct scenario_place *place, size_t index);

/* Reads the object's members into `out`. Missing members stay unchanged. `object` may be NULL.
 * Returns STATUS_OK or STATUS_INVALID. */
enum status scenario_keys_read(const struct scenario_place *place, const struct tree *object,
                               const struct scenario_key *keys, size_t key_count,
                               void *out) MUST_USE;

/* Reports "file: path: message" as STATUS_INVALID. */
enum status scenario_keys_refuse(const struct scenario_place *place, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

/* The value itself, if it may be {value: …, source: …}. */
const struct tree *scenario_keys_plain(const struct tree *value);

#endif
