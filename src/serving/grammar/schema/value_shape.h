/* SPDX-License-Identifier: Apache-2.0
 * Shapes are compiled JSON Schemas, which the matcher runs. A shape is a set of JSON values, given
 * as a union of alternatives. An alternative has a part for each kind of value (null, true, false,
 * number, string, array, object), and the first byte of a value determines its kind. Alternatives
 * may overlap: the matcher follows them in parallel.
 *
 * Every referenced shape contains at least one finite value, because unproductive parts are removed
 * by the compiler. Together with the DFAs' live states, this guarantees that any text accepted so
 * far can be completed.
 */
#pragma once

#include "serving/grammar/automata/automaton.h"

#define SHAPE_NONE UINT32_MAX      /* no shape: no value is allowed */
#define SHAPE_UNBOUNDED UINT32_MAX /* no maximum */
#define SHAPE_NO_BIT UINT32_MAX
#define SHAPE_WORDS_MAX 64 /* 64-bit words of a set of properties */

/* Kinds of JSON values, as bits of a set. */
enum shape_kind {
    SHAPE_NULL = 1,
    SHAPE_TRUE = 2,
    SHAPE_FALSE = 4,
    SHAPE_NUMBER = 8,
    SHAPE_STRING = 16,
    SHAPE_ARRAY = 32,
    SHAPE_OBJECT = 64
};

struct shape_alternative {
    uint32_t kinds;
    const struct automaton *number;  /* over the number's text */
    const struct automaton *string;  /* over the decoded text; NULL: all texts of these lengths */
    uint32_t length_min, length_max; /* characters; only if string is NULL */
    uint32_t array, object;          /* indices into the program's arrays and objects */
};

struct value_shape {
    uint32_t first, count; /* its range of the program's alternatives; count >= 1 */
};

/* The shapes of an item. SHAPE_NONE: no such item. */
struct shape_item {
    uint32_t plain;   /* shape of items that do not count for contains */
    uint32_t counted; /* shape of items that do; SHAPE_NONE without contains */
};

enum shape_unique {
    SHAPE_REPEATS,       /* items may be equal */
    SHAPE_UNIQUE_FREELY, /* unique; there are infinitely many or enough values */
    SHAPE_UNIQUE_LISTED  /* unique; items are strings in `listed`, with distinct labels */
};

struct shape_array {
    uint32_t prefix, prefix_count; /* the first items, in the program's items */
    struct shape_item rest;        /* all further items */
    uint32_t length_min, length_max;
    uint32_t counted_min, counted_max;
    enum shape_unique unique;
    const struct automaton *listed;
    /* `reaches`: first word of [listed->state_count][word_count], the labels that may still be
     * reached from each state */
    uint32_t reaches, word_count;
};

struct shape_entry {
    uint32_t shape; /* the value's shape; never SHAPE_NONE */
    uint32_t bit;   /* the listed property's bit; SHAPE_NO_BIT: other keys */
};

struct shape_dependency { /* the property `bit` requires the others */
    uint32_t bit;
    uint32_t needs; /* first word in the program's words */
};

struct shape_object {
    const struct automaton *keys;   /* over the decoded key; label - 1 is an entry of the object;
                                   * NULL: no key at all */
    uint32_t entry, entry_count;    /* in the program's entries */
    uint32_t bit_count, word_count; /* word_count: 64-bit words of a set of bits */
    uint32_t required;              /* first word in the program's words */
    uint32_t reaches; /* [keys->state_count][word_count] first word: the bits that a key may still
                       * reach from each state */
    uint32_t reaches_open; /* [(keys->state_count + 63) / 64] first word: states that reach an entry
                            * without a bit */
    uint32_t dependency, dependency_count;
    uint32_t count_min, count_max; /* keys */
    bool in_order;                 /* listed properties must come in the order of their bits */
};

struct shape_program {
    uint32_t root;  /* a shape */
    bool root_bare; /* always true for schemas */
    const struct value_shape *shapes;
    const struct shape_alternative *alternatives;
    const struct shape_array *arrays;
    const struct shape_item *items;
    const struct shape_object *objects;
    const struct shape_entry *entries;
    const struct shape_dependency *dependencies;
    const uint64_t *words;
    uint32_t shape_count, alternative_count, array_count, item_count, object_count, entry_count,
        dependency_count, word_count;
};
