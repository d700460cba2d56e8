/* SPDX-License-Identifier: Apache-2.0
 * The judge of shares is as strict as it says: it lets pass the order of self-clocked fair
 * queueing, and sees who gets more than its share, which a planted bug would hide behind.
 */
#include "simulate/clients/fleet_shares.h"

#include "serving/gateway/gateway_state.h"
#include "test_case.h"

enum { EACH = 20 };

static struct fleet_shares shares;
static struct gateway *gateway;

/* Two accounts, of which each has requests that wait; the second one's share is three times as
 * much. */
static int open_gateway(void **state) {
    (void)state;
    gateway = calloc(1, sizeof *gateway);
    gateway->accounts.slots = calloc(1 + FLEET_TENANTS, sizeof *gateway->accounts.slots);
    gateway->accounts.named = calloc(1 + FLEET_TENANTS, sizeof *gateway->accounts.named);
    gateway->requests.slots = calloc(2 * EACH, sizeof *gateway->requests.slots);
    gateway->requests.slots_used = 2 * EACH;
    gateway->fleet.units = calloc(LIMIT_FLEET_UNITS, sizeof *gateway->fleet.units);
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++) {
        gateway->accounts.named[i] = i;
        gateway->accounts.slots[i].is.weight = i == 2 ? 300 : 100;
    }
    shares = (struct fleet_shares){.waiting_count = 0};
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        struct request *request = &gateway->requests.slots[i];
        request->leader = request;
        request->choices = calloc(1, sizeof *request->choices);
        request->choices[0] = request;
        request->choice_count = 1;
        request->life.numerics = FLEET_NONE;
        request->id.low = i;
        request->life.state = REQUEST_WAITING;
        request->life.work_tokens = 600;
        request->asked.account = 1 + i / EACH;
    }
    return 0;
}

static int close_gateway(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2 * EACH; i++)
        free(gateway->requests.slots[i].choices);
    free(gateway->requests.slots);
    free(gateway->accounts.slots);
    free(gateway->fleet.units);
    free(gateway->accounts.named);
    free(gateway);
    return 0;
}

/* The account's next one is given to a unit, or to two. */
static const char *give_as(uint32_t account, enum submit_task task) {
    struct request *slots = gateway->requests.slots;
    uint32_t i = (account - 1) * EACH;
    fleet_shares_look(&shares, gateway);
    while (slots[i].life.state != REQUEST_WAITING)
        i++;
    struct record_submit submit = {.request = slots[i].id, .task = task};
    const char *wrong = fleet_shares_give(&shares, gateway, &submit);
    slots[i].life.state = REQUEST_ANSWERING;
    fleet_shares_look(&shares, gateway);
    return wrong;
}

static const char *give(uint32_t account) {
    return give_as(account, SUBMIT_ANSWER);
}

TEST_AROUND(three_for_one_is_the_share, open_gateway, close_gateway) {
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < 3; k++)
            assert_null(give(2));
        assert_null(give(1));
    }
    assert_true(shares.compared > 10);
}

TEST_AROUND(one_for_one_is_not, open_gateway, close_gateway) {
    const char *wrong = NULL;
    for (uint32_t i = 0; i < 4 && !wrong; i++) {
        wrong = give(1);
        if (!wrong) wrong = give(2);
    }
    assert_non_null(wrong);
}

TEST_AROUND(whoever_took_something_back_may_get_less, open_gateway, close_gateway) {
    fleet_shares_look(&shares, gateway);
    gateway->requests.slots[EACH].life.state = REQUEST_FINISHING;
    for (uint32_t i = 0; i < 10; i++)
        assert_null(give(1));
    assert_int_equal(shares.compared, 0);
}

TEST_AROUND(whoever_took_something_back_gets_no_more, open_gateway, close_gateway) {
    const char *wrong = NULL;
    fleet_shares_look(&shares, gateway);
    gateway->requests.slots[0].life.state = REQUEST_FINISHING;
    for (uint32_t i = 0; i < 10 && !wrong; i++)
        wrong = give(1);
    assert_non_null(wrong);
}

/* Units 0 and 1 compute with numerics 0 and 1; the account's first request is bound to those of
 * 1. */
static void bind_first(uint32_t account) {
    for (uint32_t i = 0; i < 2; i++) {
        gateway->fleet.units[i].state = FLEET_SERVING;
        gateway->fleet.units[i].numerics = i;
    }
    gateway->requests.slots[(account - 1) * EACH].life.numerics = 1;
}

/* Others get what the units that it cannot use have room for. */
TEST_AROUND(an_account_that_is_bound_to_some_units_may_get_less, open_gateway, close_gateway) {
    bind_first(2);
    for (uint32_t i = 0; i < 10; i++)
        assert_null(give(1));
    assert_int_equal(shares.compared, 0);
}

TEST_AROUND(an_account_that_is_bound_to_some_units_gets_no_more, open_gateway, close_gateway) {
    const char *wrong = NULL;
    bind_first(1);
    for (uint32_t i = 0; i < 10 && !wrong; i++)
        wrong = give(1);
    assert_non_null(wrong);
}

/* All units are its own. */
TEST_AROUND(an_account_bound_where_all_compute_alike_gets_its_share, open_gateway, close_gateway) {
    const char *wrong = NULL;
    bind_first(2);
    gateway->fleet.units[0].numerics = 1;
    for (uint32_t i = 0; i < 10 && !wrong; i++)
        wrong = give(1);
    assert_non_null(wrong);
}

/* It may want what another one's do not. */
TEST_AROUND(nobody_is_compared_who_may_pass_others, open_gateway, close_gateway) {
    gateway->fleet.units[0].state = FLEET_SERVING;
    gateway->fleet.units[0].hello.role = UNIT_PREFILL;
    for (uint32_t i = 0; i < 10; i++)
        assert_null(give(1));
    gateway->fleet.units[0].hello.role = UNIT_BOTH;
    assert_null(give(1)); /* not until nothing of it waits */
    assert_int_equal(shares.compared, 1);
}

/* All that go to two units want the same. */
TEST_AROUND(whoever_goes_to_two_units_passes_nobody, open_gateway, close_gateway) {
    const char *wrong = NULL;
    gateway->fleet.units[0].state = FLEET_SERVING;
    gateway->fleet.units[0].hello.role = UNIT_PREFILL;
    for (uint32_t i = 0; i < 10 && !wrong; i++)
        wrong = give_as(1, SUBMIT_RESERVE);
    assert_non_null(wrong);
}

/* A second turn at a unit is no more work. */
TEST_AROUND(only_the_first_unit_counts, open_gateway, close_gateway) {
    for (uint32_t i = 0; i < EACH; i++)
        gateway->requests.slots[i].id.attempt = 1;
    for (uint32_t i = 0; i < 10; i++)
        assert_null(give(1));
}
