/* SPDX-License-Identifier: Apache-2.0
 * Shapes: what a JSON schema means, in the form that the matcher runs. A shape is a set of JSON
 * values, written as a union of alternatives. An alternative says for each kind of value (null,
 * true, false, number, string, array, object) which of that kind it holds; kinds never overlap, so
 * the first byte of a value chooses among them. Alternatives of a shape may overlap: the matcher
 * follows them side by side.
 *
 * Every shape that is referred to holds at least one finite value: what cannot be completed is cut
 * off when the schema is compiled. That, and the automata's live states, let the matcher promise
 * that a text it has let through so far can be finished.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_VALUE_SHAPE_H
#define SERVING_GRAMMAR_SCHEMA_VALUE_SHAPE_H

#include "serving/grammar/automata/automaton.h"

#define SHAPE_NONE UINT32_MAX      /* no shape: nothing may stand there */
#define SHAPE_UNBOUNDED UINT32_MAX /* of a maximum */
#define SHAPE_NO_BIT UINT32_MAX
#define SHAPE_WORDS_MAX 64 /* of a set of an object's properties */

enum shape_kind { /* bits */
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
    const struct automaton *string;  /* over the decoded text; NULL: all of the lengths below */
    uint32_t length_min, length_max; /* characters; only without an automaton */
    uint32_t array, object;          /* indices into the program's */
};

struct value_shape {
    uint32_t first, count; /* of its alternatives; count >= 1 */
};

/* An item of an array may count for `contains`. SHAPE_NONE: no such item. */
struct shape_item {
    uint32_t plain;   /* a shape of items that are not counted */
    uint32_t counted; /* a shape of items that are; SHAPE_NONE without contains */
};

enum shape_unique {
    SHAPE_REPEATS,       /* items may be equal */
    SHAPE_UNIQUE_FREELY, /* they may not, and there is never an end of new ones */
    SHAPE_UNIQUE_LISTED  /* they may not; all are strings of `listed`, with distinct labels */
};

struct shape_array {
    uint32_t prefix, prefix_count; /* the first items, in the program's items */
    struct shape_item rest;        /* all behind them */
    uint32_t length_min, length_max;
    uint32_t counted_min, counted_max;
    enum shape_unique unique;
    const struct automaton *listed;
    uint32_t reaches,
        word_count; /* first word: [listed->state_count][word_count] the labels that may
                                   * still be reached from each state */
};

struct shape_entry {
    uint32_t shape; /* of the value; never SHAPE_NONE */
    uint32_t bit;   /* of a property that may stand once; SHAPE_NO_BIT: any other key */
};

struct shape_dependency { /* the property `bit` requires the others */
    uint32_t bit;
    uint32_t needs; /* first word in the program's words */
};

struct shape_object {
    const struct automaton *keys;   /* over the decoded key; label - 1 is an entry of the object;
                                   * NULL: no key at all */
    uint32_t entry, entry_count;    /* in the program's entries */
    uint32_t bit_count, word_count; /* words of 64 bits for a set of bits */
    uint32_t required;              /* first word in the program's words */
    uint32_t reaches; /* [keys->state_count][word_count] first word: the bits that a key may still
                       * reach from each state */
    uint32_t reaches_open; /* [(keys->state_count + 63) / 64] first word: states that reach an entry
                            * without a bit */
    uint32_t dependency, dependency_count;
    uint32_t count_min, count_max; /* keys */
    bool in_order;                 /* properties come in the order of their bits */
};

struct shape_program {
    uint32_t root;  /* a shape */
    bool root_bare; /* of root's values nothing else than JSON; true always for schemas */
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

#endif
