/* SPDX-License-Identifier: Apache-2.0
 * Real numbers as text, both ways, exactly: the digits that Python's repr() writes, and reading
 * with correct rounding. The one door to strtod and to the digits of printf for the pure rooms.
 */
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include "base/bytes.h"

#define REAL_TEXT_BYTES 32

/* The shortest text that reads back as `value`, as Python's repr(): "1.0", "1e-07", "inf", "nan".
 * Returns its bytes, without the terminator. */
size_t real_write(double value, char out[REAL_TEXT_BYTES]);

/* Digits, a fraction, an exponent; a sign in front; no spaces, no "inf". False: `text` is not
 * wholly a number, or is longer than 1,000 bytes. Too large a number is infinite. */
bool real_read(struct bytes text, double *out);

#endif
