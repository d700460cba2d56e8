/* SPDX-License-Identifier: Apache-2.0
 * A table of languages (sets of texts), each identified by a number. Equal DFAs get the same
 * number, and results of set operations are cached by the numbers of their operands. A language
 * that is defined by a range of lengths gets a DFA only when an operation needs it.
 */
#pragma once

#include "base/map.h"
#include "serving/grammar/automata/automaton.h"

/* The numbers of two languages that every table has. */
enum language_fixed {
    LANGUAGE_NONE, /* the empty language */
    LANGUAGE_TEXT  /* every text */
};

struct language {
    const struct automaton *automaton; /* NULL: not built yet */
    bool of_lengths;                   /* defined by the lengths below */
    uint32_t length_min, length_max;   /* characters; UINT32_MAX: unbounded */
};

struct language_table {
    struct automaton_work *work;
    struct language *languages;
    uint32_t count, capacity;
    struct map known; /* languages by content, and results of operations by operands */
};

/* Opens a table in the work's arena. Returns STATUS_NO_MEMORY if it is full. */
enum status language_open(struct language_table *table, struct automaton_work *work) MUST_USE;

/* The functions below return STATUS_TOO_LARGE and STATUS_NO_MEMORY like those of automaton.h. */
enum status language_of_automaton(struct language_table *table, const struct automaton *automaton,
                                  uint32_t *out) MUST_USE;
enum status language_of_lengths(struct language_table *table, uint32_t min, uint32_t max,
                                uint32_t *out) MUST_USE;
enum status language_of_texts(struct language_table *table, const struct bytes *texts, size_t count,
                              uint32_t *out) MUST_USE; /* the texts must be distinct */

enum status language_combine(struct language_table *table, enum automaton_operation operation,
                             uint32_t a, uint32_t b, uint32_t *out) MUST_USE;

/* The DFA of a language, built if necessary. */
enum status language_automaton(struct language_table *table, uint32_t language,
                               const struct automaton **out) MUST_USE;
