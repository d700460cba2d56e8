/* SPDX-License-Identifier: Apache-2.0
 * Languages: the sets of texts that a schema's compilation handles, each with a number. Equal
 * automata share one, and what was once computed of two of them is not computed again. Strings that
 * only their length binds stay without an automaton as long as nothing else is asked of them.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_LANGUAGE_H
#define SERVING_GRAMMAR_AUTOMATA_LANGUAGE_H

#include "base/map.h"
#include "serving/grammar/automata/automaton.h"

enum language_fixed {
    LANGUAGE_NONE, /* no text at all */
    LANGUAGE_TEXT  /* every string */
};

struct language {
    const struct automaton *automaton; /* NULL: not made yet */
    bool of_lengths;                   /* all texts of the lengths below */
    uint32_t length_min, length_max;   /* characters; UINT32_MAX: no bound */
};

struct language_table {
    struct automaton_work *work;
    struct language *languages;
    uint32_t count, capacity;
    struct map known; /* contents, and results of what is done with two of them */
};

/* All memory is taken from the work's arena. STATUS_NO_MEMORY. */
enum status language_open(struct language_table *table, struct automaton_work *work) MUST_USE;

/* All of the following: STATUS_TOO_LARGE and STATUS_NO_MEMORY as of automata. */
enum status language_of_automaton(struct language_table *table, const struct automaton *automaton,
                                  uint32_t *out) MUST_USE;
enum status language_of_lengths(struct language_table *table, uint32_t min, uint32_t max,
                                uint32_t *out) MUST_USE;
enum status language_of_texts(struct language_table *table, const struct bytes *texts, size_t count,
                              uint32_t *out) MUST_USE; /* no two are equal */

enum status language_combine(struct language_table *table, enum automaton_operation operation,
                             uint32_t a, uint32_t b, uint32_t *out) MUST_USE;

/* Also of what has none yet. */
enum status language_automaton(struct language_table *table, uint32_t language,
                               const struct automaton **out) MUST_USE;

#endif
