/* SPDX-License-Identifier: Apache-2.0
 * Matches the content between the quotes of a JSON string byte by byte. UTF-8 and escapes are
 * decoded, and the decoded text is fed to the leaf's DFA. A byte is allowed only if the string can
 * still be completed. An incomplete escape is therefore allowed only if one of its possible
 * characters is. A lone surrogate is never allowed.
 */
#pragma once

#include "serving/grammar/schema/value_shape.h"

struct text_leaf {
    const struct automaton *automaton; /* over the decoded text; NULL: all texts of these lengths */
    uint32_t length_min, length_max;   /* characters */
};

/* Restricts a DFA shared by all keys of an object to those still allowed. */
struct key_filter {
    const uint64_t *reaches; /* [state_count][word_count] properties reachable from a state */
    const uint64_t *allowed; /* [word_count] properties allowed now */
    const uint64_t *open;    /* [states] bit: unlisted keys are reachable; NULL: not allowed */
    uint32_t word_count;
};

struct string_position {
    uint32_t state;  /* DFA state; without a DFA the number of characters read */
    uint32_t escape; /* 0: not in an escape (see escape_kind) */
};

struct string_position string_content_begin(const struct text_leaf *leaf);
/* Reads a byte other than the closing quote. Returns false if it is not allowed. `filter` and
 * `hash` (of the decoded text) may be NULL. */
bool string_content_step(const struct text_leaf *leaf, const struct key_filter *filter,
                         struct string_position *position, uint8_t byte, uint64_t *hash);
bool string_content_may_end(const struct text_leaf *leaf, struct string_position position);
bool string_content_is_live(const struct key_filter *filter, uint32_t state);

/* Adds a byte to the hash of a decoded text. `hash` may be NULL. */
void string_content_hash(uint64_t *hash, uint8_t byte);

#define CONTENT_HASH_START UINT64_C(1)
