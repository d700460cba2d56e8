/* SPDX-License-Identifier: Apache-2.0
 * Reads and writes amounts of money: an integer of nanos (1e-9) as an exact decimal number.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MONEY_BYTES 32

/* Parses text such as "-12.5". Returns false if it is not a number, has more than nine decimals, or
 * is beyond 9e9. */
bool money_read(const char *text, int64_t *nanos_out);

/* Writes the exact value with as few decimals as possible. The text is a valid JSON number. */
void money_write(int64_t nanos, char out[MONEY_BYTES]);
