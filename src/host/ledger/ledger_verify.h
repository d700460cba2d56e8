/* SPDX-License-Identifier: Apache-2.0
 * Whether ledgers conserve what units did and accounts paid. Of each file: what an entry charges is
 * its tokens at its price; where units said whence a prompt's rows came, these are the prompt's
 * tokens; the sums by hour, the balances and what keys have spent follow from the entries. Over all
 * files: what gateways have put into entries of a unit is what that unit has counted, once it is at
 * rest and all its gateways have said so.
 */
#ifndef HOST_LEDGER_LEDGER_VERIFY_H
#define HOST_LEDGER_LEDGER_VERIFY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ledger_verdict {
    int64_t files, entries, accounts, hours;
    int64_t units_judged, units_open; /* at rest, and conserved or not; not at rest */
    int64_t breaches;
};

/* `breach` is called for each one, with a line. The status says whether it could be looked at. */
enum status ledger_verify(const char *const *paths, size_t count,
                          void (*breach)(void *context, const char *line), void *context,
                          struct ledger_verdict *verdict_out, struct error *error) MUST_USE;

#endif
