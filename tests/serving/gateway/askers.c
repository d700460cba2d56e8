/* SPDX-License-Identifier: Apache-2.0 */
#include "askers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "contract/machine.h"

struct record_accounts *make_accounts(const struct asker *askers, uint32_t count) {
    static _Alignas(8) char memory[1 << 14];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_accounts *record =
        machine_outbox_put(&box, RECORD_ACCOUNTS,
                           &(struct record_accounts){.account_count = count, .key_count = count});
    struct account *accounts = accounts_named(record);
    struct account_key *keys = accounts_keys(record);
    for (uint32_t i = 0; i < count; i++) {
        const struct asker *asker = &askers[i];
        accounts[i] = (struct account){.limits = asker->limits,
                                       .weight = ACCOUNT_WEIGHT,
                                       .is_operator = asker->is_operator,
                                       .is_prepaid = asker->is_prepaid,
                                       .balance = asker->balance,
                                       .others_requests = asker->others_requests,
                                       .others_tokens = asker->others_tokens};
        strcpy(accounts[i].name, asker->name);
        accounts[i].tenant.bytes[0] = asker->salt;
        accounts[i].limits.requests_max = asker->requests_max;
        keys[i] = (struct account_key){.limits = asker->key_limits, .account = i};
        keys[i].budget = asker->budget ? asker->budget : ACCOUNT_BUDGET_ANY;
        sha256_digest(asker->key, strlen(asker->key), keys[i].sha256);
    }
    assert_true(record_valid(record, record->record.bytes));
    return record;
}
