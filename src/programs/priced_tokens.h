/* SPDX-License-Identifier: Apache-2.0
 * Reads a prices file (twin/prices documents the format) for the ledger: the price of a token at a
 * given time, as an integer of picos (1e-12).
 */
#pragma once

#include "host/ledger/usage_store.h"

struct priced_tokens;

/* `name`: a path, or the name of built-in prices. The caller frees the prices. */
enum status priced_tokens_read(const char *name, struct priced_tokens **priced_out,
                               struct error *error) MUST_USE;

/* The result points into `priced`. */
struct ledger_prices priced_tokens_reported(const struct priced_tokens *priced);
