/* SPDX-License-Identifier: Apache-2.0
 * The content between the quotes of a JSON string, byte by byte: raw UTF-8 and escapes are decoded
 * on the fly and fed to the automaton of the decoded text. A byte is allowed only if the string can
 * still be completed. So an incomplete escape is allowed only if one of its possible characters is.
 * A lone surrogate never is.
 */
#ifndef SERVING_GRAMMAR_MATCHER_STRING_CONTENT_H
#define SERVING_GRAMMAR_MATCHER_STRING_CONTENT_H

#include "serving/grammar/schema/value_shape.h"

struct text_leaf {
    const struct automaton *automaton; /* over the decoded text; NULL: all of these lengths */
    uint32_t length_min, length_max;   /* characters */
};

/* For a key: the states that lead to keys allowed here. */
struct key_filter {
    const uint64_t *reaches; /* [state_count][word_count] */
    const uint64_t *allowed; /* [word_count] bits of properties that may stand */
    const uint64_t *open;    /* [states] reach other keys; NULL: those may not stand */
    uint32_t word_count;
};

struct string_position {
    uint32_t state;  /* the automaton's; without one the characters before */
    uint32_t escape; /* 0: between characters, or inside one that the automaton knows of */
};

struct string_position string_content_begin(const struct text_leaf *leaf);
/* False: `byte` may not come. The quote that ends the content is not for this function. `filter`
 * and `hash` (of the decoded text) may be NULL. */
bool string_content_step(const struct text_leaf *leaf, const struct key_filter *filter,
                         struct string_position *place, uint8_t byte, uint64_t *hash);
bool string_content_may_end(const struct text_leaf *leaf, struct string_position place);
bool string_content_is_live(const struct key_filter *filter, uint32_t state);

/* Updates the hash of a decoded text; NULL: not needed. */
void string_content_hash(uint64_t *hash, uint8_t byte);

#define CONTENT_HASH_START UINT64_C(1)

#endif
