/* SPDX-License-Identifier: Apache-2.0
 * Sets of JSON numbers (minimum, maximum, multipleOf, integer) as DFAs over the numbers' texts. A
 * DFA accepts only texts of numbers in the set, but not every spelling with an exponent. If a bound
 * is not 0, an exponent has at most two digits and needs a mantissa from 1 to 9.99... In an
 * integer, the exponent must visibly shift all digits before the point. Multiples accept no
 * exponent.
 */
#pragma once

#include "serving/grammar/automata/automaton.h"

#define DECIMAL_DIGITS_MAX 40

/* The integer `digits` times 10^-scale, in normal form: neither the first nor the last digit is 0.
 * Zero is a single digit 0 with scale 0, not negative. Equal numbers have equal decimals. */
struct decimal {
    bool negative;
    uint8_t digit_count;
    int16_t scale;
    uint8_t digits[DECIMAL_DIGITS_MAX]; /* 0..9 */
};

/* Parses a JSON number. Returns STATUS_INVALID if it is not one, and STATUS_UNSUPPORTED if it has
 * too many digits or an exponent out of a double's range. */
enum status number_set_decimal_read(struct bytes text, struct decimal *out) MUST_USE;
int number_set_decimal_compare(const struct decimal *a, const struct decimal *b); /* <0, 0, >0 */

struct number_set {
    bool has_min, has_max;
    bool min_excluded, max_excluded;
    bool whole; /* integers only, 1.0 included */
    bool has_multiple;
    struct decimal min, max, multiple;
};

/* The DFA of a set, with label 1. Returns STATUS_UNSUPPORTED if multipleOf needs more states than
 * the work allows. */
enum status number_set_automaton_of_numbers(struct automaton_work *work,
                                            const struct number_set *set,
                                            const struct automaton **out) MUST_USE;
/* The DFA of all spellings of one number, with the same exceptions. */
enum status number_set_automaton_of_number(struct automaton_work *work, const struct decimal *value,
                                           const struct automaton **out) MUST_USE;
/* The DFA of the numbers that answers may contain: magnitudes that a double can represent, with at
 * most 308 digits before the point and a value below 10^308. `whole`: integers without fraction and
 * exponent, except "-0". */
enum status number_set_automaton_of_spellings(struct automaton_work *work, bool whole,
                                              const struct automaton **out) MUST_USE;
