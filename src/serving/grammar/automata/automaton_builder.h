/* SPDX-License-Identifier: Apache-2.0
 * Automata in the making. A dfa is a table that grows: states are added, their steps and labels
 * written, and automaton_builder_finish makes the smallest automaton of the same texts and labels of
 * it: states without use are cut away, equal ones made one, bytes that do the same everywhere share
 * a class. Temporary memory is taken from the work's scratch.
 *
 * Sequences give numbers to runs of words, the same number to equal ones: the identity of a
 * state of a product or of a subset construction.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_AUTOMATON_DRAFT_H
#define SERVING_GRAMMAR_AUTOMATA_AUTOMATON_DRAFT_H

#include "serving/grammar/automata/automaton.h"

/* Public functions of this directory may clear the scratch arena; the functions here never do. */
static inline bool automaton_spend(struct automaton_work *work, uint64_t steps) {
    bool enough = steps <= work->steps_left;
    work->steps_left = enough ? work->steps_left - steps : 0;
    return enough;
}

struct automaton_builder {
    struct automaton_work *work;
    uint32_t class_count;
    uint8_t classes[256];
    uint32_t start;
    uint32_t state_count; /* state 0 is dead */
    uint32_t *next;       /* [state_count][class_count] */
    uint32_t *labels;     /* [state_count] */
    uint32_t next_capacity, label_capacity;
};

/* `classes` [256] are copied; the state 0 is there at once. */
enum status automaton_builder_open(struct automaton_builder *dfa, struct automaton_work *work,
                                   const uint8_t *classes, uint32_t class_count) MUST_USE;
/* A new state, which leads nowhere and accepts nothing. May move `next` and `labels`. */
enum status automaton_builder_add(struct automaton_builder *dfa, uint32_t *state_out) MUST_USE;
enum status automaton_builder_finish(struct automaton_builder *dfa,
                                     const struct automaton **out) MUST_USE;

/* automaton_combine, but the scratch is kept. */
enum status automaton_product_combine(struct automaton_work *work,
                                      enum automaton_operation operation, const struct automaton *a,
                                      const struct automaton *b,
                                      const struct automaton **out) MUST_USE;

static inline uint32_t *automaton_builder_row(struct automaton_builder *dfa, uint32_t state) {
    return dfa->next + (size_t)state * dfa->class_count;
}

/* arena_reserve in the scratch, for one step. */
enum status automaton_builder_room(struct automaton_work *work, void *array, uint32_t count,
                                   uint32_t *capacity, size_t item_bytes) MUST_USE;
/* Puts `count` items of `width` words (1 or 2) in ascending order. Shell's sort: no worst case that
 * hurts, and no memory. */
void automaton_builder_sort(uint32_t *words, size_t count, size_t width);

struct tuple_table {
    struct automaton_work *work;
    uint32_t *words;
    uint32_t *starts; /* [count + 1] in words */
    uint32_t *table;  /* [table_mask + 1] number + 1; 0: free */
    uint32_t count, word_capacity, start_capacity, table_mask;
};

enum status automaton_builder_tuples_open(struct tuple_table *tuple_table,
                                          struct automaton_work *work) MUST_USE;
/* The number of the sequence; a new one is tuple_table->count - 1. */
enum status automaton_builder_tuples_intern(struct tuple_table *tuple_table, const uint32_t *words,
                                            size_t count, uint32_t *number_out) MUST_USE;

static inline const uint32_t *tuple_table_at(const struct tuple_table *tuple_table, uint32_t number,
                                             size_t *count_out) {
    *count_out = tuple_table->starts[number + 1] - tuple_table->starts[number];
    return tuple_table->words + tuple_table->starts[number];
}

#endif
