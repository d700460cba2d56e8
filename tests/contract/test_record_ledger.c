/* SPDX-License-Identifier: Apache-2.0
 * Protects: what a gateway and its ledger tell each other is whole, and amounts are exact.
 */
#include "records.h"
#include "test_case.h"

TEST(accounts_are_whole) {
    for (uint32_t i = 0; i < 19; i++) {
        struct record_accounts *accounts = good_accounts();
        struct account *account = accounts_named(accounts);
        struct account_key *keys = accounts_keys(accounts);
        if (i == 0) account->is_operator = 2;
        if (i == 1) account->name[0] = '"'; /* it becomes a label of metrics */
        if (i == 2) account->name[0] = 0;
        if (i == 3) memset(account->name, 'x', sizeof account->name);
        if (i == 4) keys[1].account = 1;
        if (i == 5) keys[0].reserved = 1;
        if (i == 6) account->weight = 0;
        if (i == 7) account->weight = ACCOUNT_WEIGHT_MAX + 1;
        if (i == 8) account->priority = ACCOUNT_PRIORITY_COUNT;
        if (i == 9) account->is_prepaid = 2;
        if (i == 10) memset(accounts->currency, 'x', sizeof accounts->currency);
        struct model_prices *prices = &accounts->prices;
        if (i == 11) prices->named_count = LEDGER_MODELS_MAX + 1;
        if (i == 12) prices->named_count = 1;         /* of no name */
        if (i == 13) prices->named[0].model[0] = 'x'; /* beyond its end */
        if (i == 14) prices->reserved = 1;
        if (i == 15) {
            prices->named_count = 1;
            memset(prices->named[0].model, 'x', LEDGER_MODEL_BYTES);
        }
        if (i == 16) prices->others.hit = LEDGER_PRICE_MAX + 1;
        if (i == 17) {
            prices->named_count = 1;
            prices->named[0] =
                (struct model_price){.model = "chat", .price = {.output = LEDGER_PRICE_MAX + 1}};
        }
        if (i == 18) accounts->currency[0] = '"';
        assert_invalid(accounts);
    }
}

/* Its price is that of its end, not of its coming. */
TEST(an_entry_ends_when_its_answer_did) {
    struct record_usage *entry = good_entry();
    entry->unix_time = 1000;
    entry->total_ns = 2999999999;
    assert_int_equal(record_ledger_usage_ended(entry), 1002);
}

TEST(an_entry_is_whole) {
    for (uint32_t i = 0; i < 8; i++) {
        struct record_usage *entry = good_entry();
        if (i == 0) entry->sequence = 0;
        if (i == 1) entry->http_status = 99;
        if (i == 2) entry->is_charged = 2;
        if (i == 3) memset(entry->account, 'x', sizeof entry->account);
        if (i == 4) entry->limit = USAGE_LIMIT_COUNT;
        if (i == 5) usage_stays(entry)->role = UNIT_ROLE_COUNT;
        if (i == 6) entry->stay_count = 2; /* beyond its end */
        if (i == 7) entry->account[63] = 'x';
        assert_invalid(entry);
    }
    struct record_usage *nobody = good_entry();
    memset(nobody->account, 0, sizeof nobody->account);
    assert_true(record_valid(nobody, nobody->record.bytes));
}

TEST(amounts_are_exact) {
    /* DeepSeek's list of 2025-02: $0.14, $0.55 and $2.19 a million */
    struct token_price price = {.hit = 140000, .miss = 550000, .output = 2190000};
    assert_int_equal(record_ledger_token_price_amount(&price, 1, 0, 0), 140);
    assert_int_equal(
        record_ledger_token_price_amount(&price, 342000000000, 266000000000, 168000000000),
        562100000000000);
    price = (struct token_price){.hit = 499};
    assert_int_equal(record_ledger_token_price_amount(&price, 1, 0, 0), 0);
    price.hit = 500;
    assert_int_equal(record_ledger_token_price_amount(&price, 1, 0, 0), 1);
}

/* 64 bits of picos end at 18.4 million tokens of the highest price. */
TEST(amounts_do_not_wrap) {
    struct token_price price = {LEDGER_PRICE_MAX, LEDGER_PRICE_MAX, LEDGER_PRICE_MAX};
    assert_true(record_ledger_token_price_amount(&price, 18446745, 0, 0) ==
                INT64_C(18446745000000000));
    assert_true(record_ledger_token_price_amount(&price, 1000000000, 1000000000, 1000000000) ==
                INT64_C(3000000000000000000));
    assert_true(record_ledger_token_price_amount(&price, 0, 4000000000, 4000000000) ==
                LEDGER_AMOUNT_MAX);
    assert_true(record_ledger_token_price_amount(&price, UINT64_MAX, UINT64_MAX, UINT64_MAX) ==
                LEDGER_AMOUNT_MAX);
    price = (struct token_price){.miss = 1};
    assert_true(record_ledger_token_price_amount(&price, 0, UINT64_MAX, 0) ==
                INT64_C(18446744073709552));
}

TEST(a_name_has_its_price) {
    struct record_accounts *accounts = good_accounts();
    struct model_prices *prices = &accounts->prices;
    prices->others.output = 1;
    prices->named_count = 2;
    prices->named[0] = (struct model_price){.model = "chat", .price = {.output = 2}};
    prices->named[1] = (struct model_price){.model = "chat-2", .price = {.output = 3}};
    assert_true(record_valid(accounts, accounts->record.bytes));
    static const char *const names[] = {"chat", "chat-2", "chat-", "cha", "", "other"};
    static const uint64_t outputs[] = {2, 3, 1, 1, 1, 1};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(record_ledger_model_prices_find(prices, bytes_of(names[i]))->output,
                         outputs[i]);
}
