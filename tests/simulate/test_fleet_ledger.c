/* SPDX-License-Identifier: Apache-2.0
 * The simulated ledger is as strict as it says: a planted bug that it does not see would pass for a
 * gateway that keeps its word.
 */
#include "simulate/fleet_ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fleet_ledger ledger;
static struct arena arena;
static char memory[1 << 16];

static int open_ledger(void **state) {
    (void)state;
    assert_true(fleet_ledger_bytes() <= sizeof memory);
    arena_over(&arena, memory, sizeof memory);
    bool opened = fleet_ledger_open(&ledger, &arena, 7, false);
    ledger.kept = true;
    return !opened;
}

static void say(uint64_t client, uint64_t sequence) {
    struct record_entry entry = {.record = record_head(RECORD_ENTRY, sizeof entry),
                                 .request = {.low = 64 * client},
                                 .sequence = sequence,
                                 .is_charged = 1,
                                 .miss_tokens = 3,
                                 .output_tokens = 2,
                                 .made_tokens = 2,
                                 .computed_tokens = 3};
    fleet_ledger_hear(&ledger, &entry, 0);
}

/* Who has been told the end of its answer. */
static struct fleet_client client_at_its_end(uint64_t number) {
    struct fleet_client client = {.number = number, .choice_count = 1, .ended = true};
    client.choices[0].finished = true;
    return client;
}

static uint64_t write_down(void) {
    struct record_settled settled = {.sequence = 0};
    assert_false(fleet_ledger_run(&ledger, 0, &settled));
    assert_true(fleet_ledger_run(&ledger, ledger.done_ns, &settled));
    return settled.sequence;
}

static void an_end_is_seen_behind_its_entry(void **state) {
    (void)state;
    struct fleet_client client = client_at_its_end(5);
    say(4, 1);
    say(5, 2);
    assert_int_equal(write_down(), 1); /* the other one came when this was in work */
    assert_int_equal(write_down(), 2);
    fleet_ledger_check(&ledger, &client);
    assert_string_equal(ledger.breach, "");
    assert_int_equal(fleet_ledger_books(&ledger).made_tokens, 4);
}

static void an_end_that_is_not_written_down_is_a_breach(void **state) {
    (void)state;
    struct fleet_client client = client_at_its_end(5);
    say(5, 1);
    fleet_ledger_check(&ledger, &client);
    assert_non_null(strstr(ledger.breach, "not written down"));
}

static void two_entries_are_a_breach(void **state) {
    (void)state;
    say(5, 1);
    say(5, 2);
    assert_non_null(strstr(ledger.breach, "two entries"));
}

static void a_number_left_out_is_a_breach(void **state) {
    (void)state;
    say(5, 2);
    assert_non_null(strstr(ledger.breach, "not the next"));
}

static void another_usage_is_a_breach(void **state) {
    (void)state;
    struct fleet_client client = client_at_its_end(5);
    client.told_usage = true;
    client.told_prompt = 3;
    client.told_output = 3;
    say(5, 1);
    write_down();
    fleet_ledger_check(&ledger, &client);
    assert_non_null(strstr(ledger.breach, "differs from its usage"));
}

static void the_next_gateway_begins_anew(void **state) {
    (void)state;
    say(5, 1);
    fleet_ledger_forget(&ledger);
    say(6, 1);
    assert_int_equal(write_down(), 1);
    assert_string_equal(ledger.breach, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_end_is_seen_behind_its_entry, open_ledger),
        cmocka_unit_test_setup(an_end_that_is_not_written_down_is_a_breach, open_ledger),
        cmocka_unit_test_setup(two_entries_are_a_breach, open_ledger),
        cmocka_unit_test_setup(a_number_left_out_is_a_breach, open_ledger),
        cmocka_unit_test_setup(another_usage_is_a_breach, open_ledger),
        cmocka_unit_test_setup(the_next_gateway_begins_anew, open_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
