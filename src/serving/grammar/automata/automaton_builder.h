/* SPDX-License-Identifier: Apache-2.0
 * Builds DFAs. The caller adds states and fills in their transitions and labels.
 * automaton_builder_finish minimizes the DFA: it removes states that are unreachable or cannot
 * accept, merges equivalent states, and merges byte classes with equal transitions. Builders take
 * temporary memory from the scratch arena. The functions of automaton.h clear it when they return.
 * Those of this file do not.
 *
 * A tuple table maps each distinct sequence of words to a number. The product and the subset
 * construction use it to find the state of a tuple or set of states.
 */
#pragma once

#include "serving/grammar/automata/automaton.h"

/* Uses up steps. Returns false if too few are left. */
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

/* Starts with the dead state 0 only. `classes` [256] is copied. */
enum status automaton_builder_open(struct automaton_builder *dfa, struct automaton_work *work,
                                   const uint8_t *classes, uint32_t class_count) MUST_USE;
/* Adds a state without transitions that does not accept. May move `next` and `labels`. */
enum status automaton_builder_add(struct automaton_builder *dfa, uint32_t *state_out) MUST_USE;
/* Creates the minimal DFA in the work's arena. */
enum status automaton_builder_finish(struct automaton_builder *dfa,
                                     const struct automaton **out) MUST_USE;

/* Like automaton_combine, but does not clear the scratch arena. */
enum status automaton_product_combine(struct automaton_work *work,
                                      enum automaton_operation operation, const struct automaton *a,
                                      const struct automaton *b,
                                      const struct automaton **out) MUST_USE;

static inline uint32_t *automaton_builder_row(struct automaton_builder *dfa, uint32_t state) {
    return dfa->next + (size_t)state * dfa->class_count;
}

/* Grows an array so that one more item fits (arena_reserve), at the cost of one step. */
enum status automaton_builder_room(struct automaton_work *work, struct arena *arena, void *array,
                                   uint32_t count, uint32_t *capacity, size_t item_bytes) MUST_USE;
/* Sorts `count` items of `width` words (1 or 2) in ascending order. Shell sort needs no memory and
 * has no quadratic worst case. */
void automaton_builder_sort(uint32_t *words, size_t count, size_t width);

struct tuple_table {
    struct automaton_work *work;
    uint32_t *words;
    uint32_t *starts; /* [count + 1] indices into words */
    uint32_t *table;  /* [table_mask + 1] number + 1; 0: free */
    uint32_t count, word_capacity, start_capacity, table_mask;
};

enum status automaton_builder_tuples_open(struct tuple_table *tuple_table,
                                          struct automaton_work *work) MUST_USE;
/* Finds the number of a sequence. A new sequence gets the next number. */
enum status automaton_builder_tuples_intern(struct tuple_table *tuple_table, const uint32_t *words,
                                            size_t count, uint32_t *number_out) MUST_USE;

static inline const uint32_t *tuple_table_at(const struct tuple_table *tuple_table, uint32_t number,
                                             size_t *count_out) {
    *count_out = tuple_table->starts[number + 1] - tuple_table->starts[number];
    return tuple_table->words + tuple_table->starts[number];
}
