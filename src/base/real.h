/* SPDX-License-Identifier: Apache-2.0
 * Exact conversion of real numbers to and from text: the digits that Python's repr() writes, and
 * parsing with correct rounding. Pure modules use it instead of strtod and printf.
 */
#pragma once

#include "base/bytes.h"

#define REAL_TEXT_BYTES 32

/* Writes the shortest text that parses to `value`, as Python's repr(): "1.0", "1e-07", "inf",
 * "nan". Returns its bytes, without the terminator. */
size_t real_write(double value, char out[REAL_TEXT_BYTES]);

/* Parses an optional sign, digits, a fraction and an exponent; no spaces, no "inf". Returns false
 * if `text` is not a number as a whole, or is longer than 1,000 bytes. A number too large becomes
 * infinite. */
bool real_read(struct bytes text, double *out);
