/* SPDX-License-Identifier: Apache-2.0
 * Verifies that ledgers agree with the work of units and the balances of accounts. In each file,
 * the amount of a record is its tokens at its price; the sources of a prompt's rows, if reported,
 * add up to the prompt's tokens; sums by hour, balances and the spending of keys follow from the
 * records. Over all files, the work that gateways have recorded for a unit is what the unit has
 * counted, once it is idle and all its gateways have reported that.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ledger_verdict {
    int64_t files, entries, accounts, hours;
    /* units_judged: idle units, with or without violations; units_open: units that are not idle */
    int64_t units_judged, units_open;
    int64_t breaches;
};

/* Calls `breach` with a line for each violation. The status is an error if a ledger could not be
 * read. */
enum status ledger_verify(const char *const *paths, size_t count,
                          void (*breach)(void *context, const char *line), void *context,
                          struct ledger_verdict *verdict_out, struct error *error) MUST_USE;
