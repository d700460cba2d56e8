/* SPDX-License-Identifier: Apache-2.0
 * Sets of code points as ranges, for the classes of patterns, and Unicode's general categories.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_CODE_POINTS_H
#define SERVING_GRAMMAR_AUTOMATA_CODE_POINTS_H

#include "base/unicode.h"
#include "serving/grammar/automata/automaton.h"

#define CODE_POINT_MAX UNICODE_LAST

struct code_range {
    uint32_t first, last;
};

/* Ranges in memory of a scratch, in any order until code_points_order. */
struct code_points {
    struct automaton_work *work;
    struct code_range *ranges;
    uint32_t count, capacity;
};

enum status code_points_add(struct code_points *set, uint32_t first, uint32_t last) MUST_USE;
enum status code_points_add_all(struct code_points *set, const struct code_range *ranges,
                                size_t count) MUST_USE;
/* Ascending, no two touch. */
void code_points_order(struct code_points *set);
/* All others from `from` on; `set` is ordered there and stays so. */
enum status code_points_complement(struct code_points *set, uint32_t from) MUST_USE;

/* Unicode's general categories and their groups (L, Lu, Letter, Uppercase_Letter), and Any, ASCII,
 * Assigned. STATUS_NOT_FOUND: none of them. */
enum status code_points_add_property(struct code_points *set, struct bytes name) MUST_USE;

#endif
