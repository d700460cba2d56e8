/* SPDX-License-Identifier: Apache-2.0
 * Reads decimal numbers out of texts as Python's int() and float() do, and rounds as round() does.
 */
#ifndef SERVING_JINJA_VALUES_NUMERALS_H
#define SERVING_JINJA_VALUES_NUMERALS_H

#include "base/bytes.h"

enum numerals_result {
    NUMERALS_READ,
    NUMERALS_NONE,     /* the text is no number of this kind */
    NUMERALS_TOO_LARGE /* it is one, but beyond 64 bits, or longer than 1,000 bytes */
};

/* White space around a number is allowed. "inf", "nan" and digits of other scripts are no numbers. */
enum numerals_result numerals_read_integer(struct bytes text, int64_t *out);
enum numerals_result numerals_read_real(struct bytes text, double *out);

/* round(value, digits), digits >= 0, of a finite number: the nearest, by its decimal digits. */
double numerals_round(double value, int64_t digits);

#endif
