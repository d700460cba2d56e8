/* SPDX-License-Identifier: Apache-2.0
 * Sets of JSON numbers as automata over their texts. An automaton accepts no number outside the
 * set. It leaves out some spellings of a number with an exponent. With a bound other than 0, the
 * exponent has at most two digits after a number from 1 to 9.99...; an integer has an exponent that
 * makes it obviously an integer; a multiple of something has none.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_NUMBER_SET_H
#define SERVING_GRAMMAR_AUTOMATA_NUMBER_SET_H

#include "serving/grammar/automata/automaton.h"

#define DECIMAL_DIGITS_MAX 40

/* `digits` without a point, times 10^-scale. The last digit is not 0, nor is the first, but for
 * zero, which is one digit with the scale 0 (and never negative): equal numbers are equal here. */
struct decimal {
    bool negative;
    uint8_t digit_count;
    int16_t scale;
    uint8_t digits[DECIMAL_DIGITS_MAX]; /* 0..9 */
};

/* Parses a number as spelt in JSON. STATUS_INVALID: it is none; STATUS_UNSUPPORTED: more digits
 * than fit, or an exponent beyond the range of a double. */
enum status number_set_decimal_read(struct bytes text, struct decimal *out) MUST_USE;
int number_set_decimal_compare(const struct decimal *a, const struct decimal *b); /* <0, 0, >0 */

struct number_set {
    bool has_min, has_max;
    bool min_excluded, max_excluded;
    bool whole; /* integers alone: 1, and 1.0 too */
    bool has_multiple;
    struct decimal min, max, multiple;
};

/* Makes the automaton with label 1. The empty set is an automaton with start 0. STATUS_UNSUPPORTED:
 * a multiple that needs a larger automaton than the work allows. */
enum status number_set_automaton_of_numbers(struct automaton_work *work,
                                            const struct number_set *set,
                                            const struct automaton **out) MUST_USE;
/* All ways to write one number that the sets above know. */
enum status number_set_automaton_of_number(struct automaton_work *work, const struct decimal *value,
                                           const struct automaton **out) MUST_USE;
/* Numbers as an answer may write them, so that every reader's double holds them: up to 308
 * digits before the point and an exponent that stays below 10^308. Whole ones are digits alone,
 * "-0" is none. */
enum status number_set_automaton_of_spellings(struct automaton_work *work, bool whole,
                                              const struct automaton **out) MUST_USE;

#endif
