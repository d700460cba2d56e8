/* SPDX-License-Identifier: Apache-2.0
 * Accounts for tests of the gateway: those that it may be told, each with one key.
 */
#pragma once

#include "contract/record_ledger.h"

struct asker {
    const char *name, *key;
    uint8_t salt;
    uint32_t requests_max;
    bool is_operator;
    struct account_limits limits; /* but for requests_max */
    struct account_limits key_limits;
    bool is_prepaid;
    int64_t balance, budget; /* nanos; budget 0: any */
    uint64_t others_requests, others_tokens;
};

/* In a memory that the next one takes over. */
struct record_accounts *make_accounts(const struct asker *askers, uint32_t count);
