/* SPDX-License-Identifier: Apache-2.0
 * Sets of JSON numbers as automata over their texts. A number may be written in other ways that the
 * automaton leaves out (with an exponent where there are bounds); none that it accepts is outside
 * the set.
 */
#ifndef SERVING_GRAMMAR_NUMBER_SET_H
#define SERVING_GRAMMAR_NUMBER_SET_H

#include "serving/grammar/automaton.h"

/* A decimal: `digits` without a point, times 10^-scale. JSON numbers of schemas are exact in it. */
struct decimal {
    bool negative;
    uint8_t digit_count;
    uint16_t scale;
    uint8_t digits[40]; /* 0..9, the first is not 0 unless alone */
};

/* Of a number as spelt in JSON. STATUS_UNSUPPORTED: more digits than fit. */
enum status decimal_read(struct bytes text, struct decimal *out) MUST_USE;
int decimal_compare(const struct decimal *a, const struct decimal *b); /* <0, 0, >0 */

struct number_set {
    bool has_min, has_max;
    bool min_excluded, max_excluded;
    bool whole; /* integers alone: 1, and 1.0 too */
    bool has_multiple;
    struct decimal min, max, multiple;
};

/* Label 1. The empty set is an automaton whose start is 0. STATUS_UNSUPPORTED: a multiple that no
 * automaton of the work's size holds. */
enum status automaton_of_numbers(struct automaton_work *work, const struct number_set *set,
                                 const struct automaton **out) MUST_USE;
/* All ways to write one number that the sets above know. */
enum status automaton_of_number(struct automaton_work *work, const struct decimal *value,
                                const struct automaton **out) MUST_USE;

#endif
