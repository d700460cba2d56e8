/* SPDX-License-Identifier: Apache-2.0
 * Protects the judge of accounts' rates in simulated fleets: it sees one request too many in any
 * window, and lets pass what a rate allows.
 */
#include "simulate/clients/fleet_accounts.h"

#include "contract/machine.h"
#include "test_case.h"

static struct fleet_accounts accounts;
static struct fleet_clients clients;
static struct fleet_ledger ledger;

/* A life with accounts, whose limits are those. */
static void open_accounts(uint32_t requests_per_minute, uint64_t tokens_per_minute) {
    for (uint64_t seed = 0; seed == 0 || !accounts.present; seed++)
        fleet_accounts_open(&accounts, seed, 2);
    for (uint32_t i = 1; i <= FLEET_TENANTS; i++)
        accounts_named(accounts.reported[0].record)[i].limits = (struct account_limits){
            .requests_per_minute = requests_per_minute, .tokens_per_minute = tokens_per_minute};
    free(clients.clients);
    clients = (struct fleet_clients){.clients = calloc(FLEET_CLIENTS_MAX, sizeof *clients.clients)};
    assert_non_null(clients.clients);
}

static struct fleet_client *answered(uint64_t tenant, int64_t seconds, uint32_t tokens) {
    struct fleet_client *client = &clients.clients[clients.count];
    client->number = clients.count++;
    client->tenant = tenant;
    client->asked_ns = seconds * FLEET_SECOND;
    client->ended = true;
    client->prompt_count = 1;
    client->prompts[0].count = tokens;
    return client;
}

static void assert_breach(bool expected) {
    fleet_accounts_verify(&accounts, &clients);
    assert_int_equal(clients.breach[0] != 0, expected);
}

TEST(what_a_rate_allows_passes) {
    open_accounts(2, 0);
    answered(1, 0, 1), answered(1, 0, 1), answered(1, 30, 1);
    answered(2, 30, 1), answered(2, 30, 1); /* another's */
    answered(1, 31, 1)->refused = true;
    answered(1, 31, 1)->gateway_life = 1; /* another gateway's */
    answered(1, 60, 1);
    assert_breach(false);
}

TEST(one_request_too_many_is_seen) {
    open_accounts(2, 0);
    answered(1, 0, 1), answered(1, 0, 1), answered(1, 29, 1);
    assert_breach(true);
}

TEST(one_token_too_many_is_seen) {
    open_accounts(0, 60);
    answered(1, 10, 30), answered(1, 15, 35);
    assert_breach(false);
    answered(1, 15, 1);
    assert_breach(true);
}

/* What others began never becomes less, and the time comes again. */
TEST(accounts_are_reported_again) {
    open_accounts(2, 0);
    uint64_t before = 0;
    for (int64_t now_ns = 0; now_ns < 100 * FLEET_SECOND; now_ns = accounts.reported[1].report_ns) {
        const struct record *record =
            fleet_accounts_report(&accounts, &ledger, &clients, 1, now_ns);
        assert_true(record_valid(record, record->bytes));
        assert_true(accounts.reported[1].report_ns > now_ns);
        assert_true(accounts_named(accounts.reported[1].record)[1].others_tokens >= before);
        before = accounts_named(accounts.reported[1].record)[1].others_tokens;
    }
    assert_true(before > 0);
}

/* Each is told what the other has written, and nothing of its own. */
TEST(gateways_are_reported_of_one_another) {
    open_accounts(2, 0);
    ledger.accounts[1] = (struct fleet_sum){.requests = 5, .tokens = 70};
    ledger.own[0][1] = (struct fleet_sum){.requests = 2, .tokens = 30};
    ledger.own[1][1] = (struct fleet_sum){.requests = 3, .tokens = 40};
    for (uint32_t gateway = 0; gateway < 2; gateway++) {
        const struct record_accounts *reported =
            fleet_accounts_read(&accounts, &ledger, &clients, gateway, 0);
        assert_int_equal(accounts_named(reported)[1].others_requests, gateway ? 2 : 3);
        assert_int_equal(accounts_named(reported)[1].others_tokens, gateway ? 30 : 40);
    }
    ledger = (struct fleet_ledger){.kept = false};
}

static int close_group(void **state) {
    (void)state;
    free(clients.clients);
    return 0;
}

TEST_GROUP(NULL, close_group)
