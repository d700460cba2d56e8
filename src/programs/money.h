/* SPDX-License-Identifier: Apache-2.0
 * Amounts of money as people write them: whole nanos as a decimal number, exactly.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MONEY_BYTES 32

/* "-12.5" as nanos; false: it is no number, has more than nine decimals, or is beyond 9e9. */
bool money_read(const char *text, int64_t *nanos_out);

/* Writes as few decimals as are exact, down to none; valid as a JSON number. */
void money_write(int64_t nanos, char out[MONEY_BYTES]);
