/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_ledger.h"

#include <string.h>

#include "contract/record_unit.h"

#define NS_PER_S 1000000000

__extension__ typedef unsigned __int128 wide; /* picos of 2^64 tokens at the highest price */

_Static_assert(LEDGER_PRICE_MAX / PICOS_PER_NANO * 2 * LIMIT_CONTEXT * LIMIT_ANSWERS <
                   LEDGER_AMOUNT_MAX,
               "prompts and answers at the highest price come to less than the largest amount");

int64_t record_ledger_token_price_amount(const struct token_price *price, uint64_t hit_tokens,
                                         uint64_t miss_tokens, uint64_t output_tokens) {
    wide picos = (wide)price->hit * hit_tokens + (wide)price->miss * miss_tokens +
                 (wide)price->output * output_tokens;
    wide nanos = (picos + PICOS_PER_NANO / 2) / PICOS_PER_NANO;
    return nanos < (wide)LEDGER_AMOUNT_MAX ? (int64_t)nanos : LEDGER_AMOUNT_MAX;
}

const struct token_price *record_ledger_model_prices_find(const struct model_prices *prices,
                                                          struct bytes model) {
    for (uint32_t i = 0; i < prices->named_count; i++) {
        const struct model_price *named = &prices->named[i];
        if (bytes_equal((struct bytes){named->model, strlen(named->model)}, model))
            return &named->price;
    }
    return &prices->others;
}

int64_t record_ledger_usage_ended(const struct record_usage *usage) {
    return usage->unix_time + usage->total_ns / NS_PER_S;
}

const char *record_ledger_usage_limit_name(enum usage_limit limit) {
    static const char *const names[USAGE_LIMIT_COUNT] = {
        [USAGE_LIMIT_NONE] = "",
        [USAGE_LIMIT_REQUESTS] = "requests",
        [USAGE_LIMIT_REQUESTS_PER_MINUTE] = "requests_per_minute",
        [USAGE_LIMIT_TOKENS_PER_MINUTE] = "tokens_per_minute",
        [USAGE_LIMIT_BALANCE] = "balance",
        [USAGE_LIMIT_BUDGET] = "budget",
        [USAGE_LIMIT_SHARE] = "share",
        [USAGE_LIMIT_QUEUE] = "queue",
    };
    return names[limit];
}

/* `may_be_empty`: an empty name means no account. */
static bool name_valid(const char name[LIMIT_ACCOUNT_NAME + 1], bool may_be_empty) {
    size_t room = LIMIT_ACCOUNT_NAME + 1, count = strnlen(name, room);
    for (size_t i = 0; i < count; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') return false;
    return (count > 0 || may_be_empty) && count < room && record_zeros(name + count, room - count);
}

bool record_ledger_account_valid(const struct account *account) {
    return name_valid(account->name, false) && account->priority < ACCOUNT_PRIORITY_COUNT &&
           account->weight > 0 && account->weight <= ACCOUNT_WEIGHT_MAX &&
           account->is_operator <= 1 && account->is_prepaid <= 1;
}

bool record_ledger_currency_valid(const char code[LEDGER_CURRENCY_BYTES]) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._$-";
    size_t count = strnlen(code, LEDGER_CURRENCY_BYTES);
    return count < LEDGER_CURRENCY_BYTES && strspn(code, letters) == count && code[0] != '-';
}

static bool price_valid(const struct token_price *price) {
    return price->hit <= LEDGER_PRICE_MAX && price->miss <= LEDGER_PRICE_MAX &&
           price->output <= LEDGER_PRICE_MAX;
}

static bool prices_valid(const struct model_prices *prices) {
    if (prices->named_count > LEDGER_MODELS_MAX || prices->reserved) return false;
    if (!price_valid(&prices->others)) return false;
    for (uint32_t i = 0; i < prices->named_count; i++) {
        const char *model = prices->named[i].model;
        size_t count = strnlen(model, LEDGER_MODEL_BYTES);
        if (!price_valid(&prices->named[i].price)) return false;
        if (!count || count == LEDGER_MODEL_BYTES ||
            !record_zeros(model + count, LEDGER_MODEL_BYTES - count))
            return false;
    }
    return record_zeros(prices->named + prices->named_count,
                        (LEDGER_MODELS_MAX - prices->named_count) * sizeof *prices->named);
}

bool record_ledger_accounts_valid(const void *record) {
    const struct record_accounts *all = record;
    if (all->account_count > LIMIT_ACCOUNTS || all->key_count > LIMIT_ACCOUNT_KEYS) return false;
    for (uint32_t i = 0; i < all->account_count; i++)
        if (!record_ledger_account_valid(&accounts_named(all)[i])) return false;
    for (uint32_t i = 0; i < all->key_count; i++)
        if (accounts_keys(all)[i].account >= all->account_count || accounts_keys(all)[i].reserved)
            return false;
    return prices_valid(&all->prices) && record_ledger_currency_valid(all->currency);
}

bool record_ledger_usage_valid(const void *record) {
    const struct record_usage *usage = record;
    for (uint32_t i = 0; i < usage->stay_count && i < USAGE_STAYS_MAX; i++)
        if (usage_stays(usage)[i].role >= UNIT_ROLE_COUNT || usage_stays(usage)[i].reserved)
            return false;
    return record_request_valid(usage) && name_valid(usage->account, true) &&
           usage->is_charged <= 1 && usage->http_status >= 200 && usage->http_status <= 599 &&
           usage->sequence > 0 && usage->stay_count <= USAGE_STAYS_MAX &&
           usage->limit < USAGE_LIMIT_COUNT;
}

bool record_ledger_committed_valid(const void *record) {
    return ((const struct record_committed *)record)->sequence > 0;
}

bool record_ledger_unit_totals_valid(const void *record) {
    const struct record_unit_totals *totals = record;
    return totals->role < UNIT_ROLE_COUNT && totals->is_lost <= 1 && totals->rank_count > 0 &&
           totals->rank_count <= LIMIT_RANKS;
}
