/* SPDX-License-Identifier: Apache-2.0
 * Sets of code points, which are the character classes of patterns. A set is a list of ranges.
 * Unicode's general categories (\p{...}) are added by name.
 */
#pragma once

#include "base/unicode.h"
#include "serving/grammar/automata/automaton.h"

#define CODE_POINT_MAX UNICODE_LAST

struct code_range {
    uint32_t first, last;
};

/* Ranges in the scratch arena. They may overlap and are unordered until code_points_order. */
struct code_points {
    struct automaton_work *work;
    struct code_range *ranges;
    uint32_t count, capacity;
};

enum status code_points_add(struct code_points *set, uint32_t first, uint32_t last) MUST_USE;
enum status code_points_add_all(struct code_points *set, const struct code_range *ranges,
                                size_t count) MUST_USE;
/* Sorts the ranges and merges those that overlap or touch. */
void code_points_order(struct code_points *set);
/* Replaces the ranges from index `from` on, which must be ordered, by their complement. */
enum status code_points_complement(struct code_points *set, uint32_t from) MUST_USE;

/* Adds a general category or group of categories by name (L, Lu, Letter, Uppercase_Letter), or Any,
 * ASCII, Assigned. Returns STATUS_NOT_FOUND for an unknown name. */
enum status code_points_add_property(struct code_points *set, struct bytes name) MUST_USE;
