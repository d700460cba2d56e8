/* SPDX-License-Identifier: Apache-2.0
 * The simulated ledger is as strict as it says: a planted bug that it does not see would pass for a
 * gateway that keeps its word.
 */
#include "simulate/clients/fleet_ledger.h"

#include "test_case.h"

static struct fleet_ledger ledger;
static struct fleet_clients clients;
static struct arena arena;
static char memory[1 << 19];
static const struct token_price no_price;

static int open_ledger(void **state) {
    (void)state;
    arena_over(&arena, memory, sizeof memory);
    if (!clients.clients) clients.clients = calloc(FLEET_CLIENTS_MAX, sizeof *clients.clients);
    memset(clients.clients, 0, FLEET_CLIENTS_MAX * sizeof *clients.clients);
    clients.count = 0;
    bool opened = fleet_ledger_open(&ledger, &arena, 7, false);
    ledger.kept = true;
    fleet_ledger_begin(&ledger, 0, 0);
    fleet_ledger_begin(&ledger, 1, 1);
    return !opened;
}

/* What a gateway says of a client who came at `came_ns` and was done at `done_ns`. */
static void say_at(uint32_t gateway, uint64_t client, uint64_t sequence, int64_t came_ns,
                   int64_t done_ns) {
    struct record_usage entry = {.record = record_head(RECORD_USAGE, sizeof entry),
                                 .request = {.low = 64 * client},
                                 .sequence = sequence,
                                 .unix_time = fleet_ledger_unix_time(came_ns),
                                 .total_ns = done_ns - came_ns,
                                 .is_charged = 1,
                                 .miss_tokens = 3,
                                 .output_tokens = 2,
                                 .made_tokens = 2,
                                 .computed_tokens = 3};
    fleet_ledger_receive(&ledger, gateway, &no_price, &entry, done_ns);
}

static void say(uint64_t client, uint64_t sequence) {
    say_at(0, client, sequence, 0, 0);
}

/* Who has been told the end of its answer. */
static struct fleet_client client_at_its_end(uint64_t number) {
    struct fleet_client client = {.number = number, .choice_count = 1, .ended = true};
    client.choices[0].finished = true;
    return client;
}

static uint64_t write_of(uint32_t gateway) {
    int64_t done_ns = ledger.writers[gateway].done_ns;
    struct record_committed settled = {.sequence = 0};
    assert_false(fleet_ledger_run(&ledger, gateway, done_ns - 1, &clients, &settled));
    assert_true(fleet_ledger_run(&ledger, gateway, done_ns, &clients, &settled));
    return settled.sequence;
}

static uint64_t write_down(void) {
    return write_of(0);
}

TEST_AROUND(an_end_is_seen_behind_its_entry, open_ledger, NULL) {
    struct fleet_client client = client_at_its_end(5);
    say(4, 1);
    say(5, 2);
    assert_int_equal(write_down(), 1); /* the other one came when this was in work */
    assert_int_equal(write_down(), 2);
    fleet_ledger_check(&ledger, &client);
    assert_string_equal(ledger.breach, "");
    assert_int_equal(fleet_ledger_books(&ledger).made_tokens, 4);
}

TEST_AROUND(an_end_that_is_not_written_down_is_a_breach, open_ledger, NULL) {
    struct fleet_client client = client_at_its_end(5);
    say(5, 1);
    fleet_ledger_check(&ledger, &client);
    assert_non_null(strstr(ledger.breach, "not written down"));
}

TEST_AROUND(two_entries_are_a_breach, open_ledger, NULL) {
    say(5, 1);
    say(5, 2);
    assert_non_null(strstr(ledger.breach, "two entries"));
}

TEST_AROUND(a_number_left_out_is_a_breach, open_ledger, NULL) {
    say(5, 2);
    assert_non_null(strstr(ledger.breach, "not the next"));
}

TEST_AROUND(another_usage_is_a_breach, open_ledger, NULL) {
    struct fleet_client client = client_at_its_end(5);
    client.reported_usage = true;
    client.reported_prompt = 3;
    client.reported_output = 3;
    say(5, 1);
    write_down();
    fleet_ledger_check(&ledger, &client);
    assert_non_null(strstr(ledger.breach, "differs from its usage"));
}

TEST_AROUND(the_next_gateway_begins_anew, open_ledger, NULL) {
    say(5, 1);
    fleet_ledger_forget(&ledger, 0, &clients);
    fleet_ledger_begin(&ledger, 0, 2);
    say(6, 1);
    assert_int_equal(write_down(), 1);
    assert_string_equal(ledger.breach, "");
}

/* One that dies takes along what it has not written, and nothing of the other's. */
TEST_AROUND(gateways_write_apart, open_ledger, NULL) {
    say_at(0, 5, 1, 0, 0);
    say_at(1, 6, 1, 0, 0);
    fleet_ledger_forget(&ledger, 0, &clients);
    assert_true(ledger.writers[0].done_ns == MACHINE_NEVER);
    assert_int_equal(write_of(1), 1);
    assert_true(ledger.lines[6].written);
    assert_int_equal(ledger.own[1][0].requests, 1);
    assert_int_equal(ledger.accounts[0].requests, ledger.lines[5].written ? 2 : 1);
}

/* A seed whose price is another one when the answer ends than when it was asked for. */
static int64_t find_change(void) {
    int64_t change_ns = fleet_ledger_next_price_ns(&ledger, 0);
    for (uint64_t seed = 0; change_ns == MACHINE_NEVER || change_ns < 2 * FLEET_SECOND; seed++) {
        arena_over(&arena, memory, sizeof memory);
        assert_true(fleet_ledger_open(&ledger, &arena, seed, false));
        change_ns = fleet_ledger_next_price_ns(&ledger, 0);
    }
    fleet_ledger_begin(&ledger, 0, 0);
    return change_ns;
}

static struct fleet_client *come(uint64_t hits) {
    struct fleet_client *client = &clients.clients[clients.count];
    client->number = clients.count++;
    client->ended = client->reported_usage = true;
    client->reported_prompt = 3;
    client->reported_hits = (int64_t)hits;
    client->reported_output = 2;
    return client;
}

TEST_AROUND(an_answer_costs_what_holds_at_its_end, open_ledger, NULL) {
    int64_t change_ns = find_change();
    struct token_price price = fleet_ledger_price(&ledger, fleet_ledger_unix_time(change_ns));
    come(0);
    say_at(0, 0, 1, change_ns - FLEET_SECOND, change_ns);
    write_down();
    assert_int_equal(ledger.lines[0].amount, record_ledger_token_price_amount(&price, 0, 3, 2));
    fleet_ledger_verify(&ledger, &clients);
    assert_string_equal(ledger.breach, "");
}

TEST_AROUND(an_entry_of_another_time_is_a_breach, open_ledger, NULL) {
    come(0);
    say_at(0, 0, 1, 0, 5 * FLEET_SECOND);
    ledger.lines[0].ended_s -= 3;
    write_down();
    fleet_ledger_verify(&ledger, &clients);
    assert_non_null(strstr(ledger.breach, "another time"));
}

TEST_AROUND(sums_that_are_not_those_of_receipts_are_a_breach, open_ledger, NULL) {
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
        open_ledger(NULL);
        come(wrong == 1); /* it was told of a hit, and is charged for a miss */
        say(0, 1);
        write_down();
        if (wrong == 2) ledger.hours[0][0].amount++;
        fleet_ledger_verify(&ledger, &clients);
        assert_int_equal(strstr(ledger.breach, "sums") != NULL, wrong > 0);
    }
}

static void totals(uint32_t gateway, uint64_t counted, uint64_t entered, uint32_t is_lost) {
    struct record_unit_totals reported = {.instance = 9, .is_lost = is_lost};
    reported.counted.output_tokens = counted;
    reported.entered.made_tokens = entered;
    fleet_ledger_totals(&ledger, gateway, &reported);
}

TEST_AROUND(a_unit_has_counted_what_its_gateways_entered, open_ledger, NULL) {
    struct unit_books counted = {.made_tokens = 10};
    totals(0, 10, 4, 0);
    assert_false(fleet_ledger_verify_unit(&ledger, 9, &counted, 2)); /* the other has not told */
    totals(1, 9, 5, 0);
    assert_false(fleet_ledger_verify_unit(&ledger, 9, &counted, 2)); /* not of all */
    assert_string_equal(ledger.breach, "");
    totals(1, 10, 6, 0);
    assert_true(fleet_ledger_verify_unit(&ledger, 9, &counted, 2));
    totals(1, 10, 5, 0);
    assert_false(fleet_ledger_verify_unit(&ledger, 9, &counted, 2));
    assert_non_null(strstr(ledger.breach, "counted more"));
}

TEST_AROUND(of_a_unit_that_was_lost_only_too_much_is_a_breach, open_ledger, NULL) {
    struct unit_books counted = {.made_tokens = 10};
    totals(0, 7, 7, 1);
    totals(0, 10, 3, 0);
    assert_false(fleet_ledger_verify_unit(&ledger, 9, &counted, 1));
    assert_string_equal(ledger.breach, "");
    totals(0, 10, 11, 0);
    assert_false(fleet_ledger_verify_unit(&ledger, 9, &counted, 1));
    assert_non_null(strstr(ledger.breach, "entered more"));
}

static int close_group(void **state) {
    (void)state;
    free(clients.clients);
    return 0;
}

TEST_GROUP(NULL, close_group)
