/* SPDX-License-Identifier: Apache-2.0
 * A prices file (twin/prices has one, and its form) as the ledger wants it: what a token costs at a
 * time, in whole picos.
 */
#pragma once

#include "host/ledger/usage_store.h"

struct priced_tokens;

/* `name`: a path, or the name of embedded prices. The caller frees the prices. */
enum status priced_tokens_read(const char *name, struct priced_tokens **priced_out,
                               struct error *error) MUST_USE;

/* The result is valid as long as `priced`. */
struct ledger_prices priced_tokens_reported(const struct priced_tokens *priced);
