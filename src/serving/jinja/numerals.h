/* SPDX-License-Identifier: Apache-2.0
 * Numbers out of texts as Python's int() and float() read them, and round().
 */
#ifndef SERVING_JINJA_NUMERALS_H
#define SERVING_JINJA_NUMERALS_H

#include "base/bytes.h"

enum numerals_result {
    NUMERALS_READ,
    NUMERALS_NONE,     /* the text is no number of this kind */
    NUMERALS_TOO_LARGE /* it is one, but beyond 64 bits, or longer than 1,000 bytes */
};

/* White space around it, underscores and digits of other scripts are allowed. `base` is 0, which
 * asks for a prefix such as "0x" unless it is decimal, or 2 to 36. */
enum numerals_result numerals_read_integer(struct bytes text, int64_t base, int64_t *out);
enum numerals_result numerals_read_real(struct bytes text, double *out);

/* round(value, digits) of a finite number: the nearest, by its decimal digits, and the even one of
 * two. `digits` may be negative. */
double numerals_round(double value, int64_t digits);

/* The same for a whole number and digits < 0; false: beyond 64 bits. */
bool numerals_round_integer(int64_t value, int64_t digits, int64_t *out);

#endif
