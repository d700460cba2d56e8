/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of a unit: the emptiest by share, among units that only compute prompts the
 * one where a prompt waits least, never a full, draining or too small one, and those that wait are
 * told why.
 */
#include "serving/policy/balance/balance_units.h"

#include "contract/record_unit.h"
#include "test_case.h"

static struct balance_unit unit(uint32_t requests, uint64_t pages_taken) {
    return (struct balance_unit){.accepts = true,
                                 .rank_count = 1,
                                 .context_tokens_max = 1000,
                                 .rank_pages = 100,
                                 .requests = requests,
                                 .requests_max = 10,
                                 .pages_total = 100,
                                 .pages_taken = pages_taken};
}

static const struct balance_units_need need = {.tokens = 640,
                                               .page_count = 10,
                                               .start_pages = 2,
                                               .partner = BALANCE_NO_RANK,
                                               .avoided_unit = BALANCE_NO_RANK};

static void assert_choice(struct units_choice choice, uint32_t expected, enum units_reason reason) {
    assert_int_equal(choice.unit, expected);
    assert_int_equal(choice.reason, reason);
}

/* Requests and pages count as shares, so the larger of two units gets more. */
TEST(the_smallest_share_takes) {
    struct balance_unit units[3] = {unit(5, 10), unit(2, 60), unit(5, 10)};
    assert_choice(balance_units(&need, units, 3), 0, UNITS_BOUND); /* the lowest of equals */
    units[2].requests_max = 40;
    assert_choice(balance_units(&need, units, 3), 2, UNITS_BOUND);
    units[2].pages_taken = 90;
    assert_choice(balance_units(&need, units, 3), 0, UNITS_BOUND);
}

TEST(who_waits_is_reported_why) {
    struct balance_unit units[2] = {unit(0, 0), unit(0, 0)};
    units[0].waiting = BALANCE_UNITS_WAITING;
    assert_choice(balance_units(&need, units, 2), 1, UNITS_BOUND);
    units[1].requests = units[1].requests_max;
    assert_choice(balance_units(&need, units, 2), BALANCE_NO_RANK, UNITS_WAITS_ROOM);
    units[0].rank_count = 2; /* twice as many may wait */
    assert_choice(balance_units(&need, units, 2), 0, UNITS_BOUND);
    units[0].rank_pages = 9;
    units[1].context_tokens_max = 639;
    assert_choice(balance_units(&need, units, 2), BALANCE_NO_RANK, UNITS_WAITS_SIZE);
    units[0].accepts = units[1].accepts = false;
    assert_choice(balance_units(&need, units, 2), BALANCE_NO_RANK, UNITS_WAITS_UNIT);
    assert_choice(balance_units(&need, units, 0), BALANCE_NO_RANK, UNITS_WAITS_UNIT);
    for (int reason = 0; reason < UNITS_REASON_COUNT; reason++)
        assert_true(balance_units_reason_name((enum units_reason)reason)[0] != 0);
}

/* A request that began at units of one kind of arithmetic sees no others. */
TEST(who_computes_otherwise_is_not_there) {
    struct balance_unit units[3] = {unit(0, 0), unit(2, 10), unit(1, 10)};
    struct balance_units_need one = need, two = need;
    units[1].numerics = 1;
    units[2].numerics = 63;
    one.numerics = 2;
    two.numerics = (uint64_t)1 << 63 | 2;
    assert_choice(balance_units(&need, units, 3), 0, UNITS_BOUND);
    assert_choice(balance_units(&one, units, 3), 1, UNITS_BOUND);
    assert_choice(balance_units(&two, units, 3), 2, UNITS_BOUND);
    one.avoided_unit = 1; /* nobody else is large enough */
    assert_choice(balance_units(&one, units, 3), 1, UNITS_BOUND);
    units[1].requests = units[1].requests_max;
    assert_choice(balance_units(&one, units, 3), BALANCE_NO_RANK, UNITS_WAITS_ROOM);
    one.roles = BALANCE_ROLE(UNIT_DECODE); /* of another role, but of these numerics */
    units[1].requests = 0;
    units[2].role = UNIT_DECODE;
    assert_choice(balance_units(&one, units, 3), 1, UNITS_BOUND);
    units[1].accepts = false;
    assert_choice(balance_units(&one, units, 3), BALANCE_NO_RANK, UNITS_WAITS_UNIT);
}

/* Answers to one prompt share its computation; a failure is retried elsewhere where it can. */
TEST(partners_meet_and_failures_part) {
    struct balance_unit units[2] = {unit(0, 0), unit(5, 50)};
    struct balance_units_need own = need;
    own.partner = 1;
    assert_choice(balance_units(&own, units, 2), 1, UNITS_BOUND_PARTNER);
    units[1].accepts = false;
    assert_choice(balance_units(&own, units, 2), 0, UNITS_BOUND);
    units[1].accepts = true;
    own = need;
    own.avoided_unit = 0;
    assert_choice(balance_units(&own, units, 2), 1, UNITS_BOUND);
    units[1].waiting = BALANCE_UNITS_WAITING; /* it will have room again */
    assert_choice(balance_units(&own, units, 2), BALANCE_NO_RANK, UNITS_WAITS_ROOM);
    units[1].accepts = false; /* nobody else is there */
    assert_choice(balance_units(&own, units, 2), 0, UNITS_BOUND);
}

/* A prefix is worth some load, the more of it the more, and never more than a bound. */
TEST(a_prefix_is_worth_a_bounded_load) {
    struct balance_unit units[3] = {unit(10, 0), unit(10, 0), unit(10, 0)};
    uint32_t hits[3] = {0, 320, 64};
    struct balance_units_need hit = need;
    hit.prompt_tokens = 600;
    hit.hit_tokens = hits;
    for (uint32_t i = 0; i < 3; i++)
        units[i].requests_max = 100;
    assert_choice(balance_units(&hit, units, 3), 1, UNITS_BOUND_PREFIX); /* of equals */
    units[1].requests = 13;
    assert_choice(balance_units(&hit, units, 3), 1, UNITS_BOUND_PREFIX);
    units[1].requests = 14; /* half of the prompt is worth half of 4 + 11 / 4 requests */
    assert_choice(balance_units(&hit, units, 3), 2, UNITS_BOUND_PREFIX);
    units[2].requests = 11;
    assert_choice(balance_units(&hit, units, 3), 0, UNITS_BOUND);
    hits[1] = 599; /* nearly all of it */
    for (units[1].requests = 10; units[1].requests < 60; units[1].requests++) {
        bool hot = units[1].requests > 17;
        assert_int_equal(balance_units(&hit, units, 3).unit, hot ? 0 : 1);
    }
}

static struct balance_unit computes(uint32_t requests, double step_left_ns, double prompts_ns) {
    struct balance_unit made = unit(requests, 0);
    made.role = UNIT_PREFILL;
    made.step_left_ns = step_left_ns;
    made.prompts_ns = prompts_ns;
    made.token_ns = 1e5;
    return made;
}

/* A unit is emptiest when its step has just ended, and then a prompt would wait for all of its next
 * one. So the end of the step that runs counts beside the prompts that are there, and whatever of
 * the prompt need not be computed. An idle unit wins, and if all are equal, the emptiest. */
TEST(a_prompt_goes_where_it_waits_least) {
    struct balance_unit units[3] = {computes(1, 9e8, 1e9), computes(5, 2e8, 1e9),
                                    computes(4, 5e8, 1e9)};
    uint32_t hits[3] = {0, 0, 0};
    struct balance_units_need own = need;
    own.roles = BALANCE_ROLE(UNIT_PREFILL);
    assert_choice(balance_units(&own, units, 3), 1, UNITS_BOUND_SOONEST);
    units[1].prompts_ns = 1.7e9; /* work is there that outweighs the early start */
    assert_choice(balance_units(&own, units, 3), 2, UNITS_BOUND_SOONEST);
    own.prompt_tokens = 6000;
    own.hit_tokens = hits;
    hits[0] = 4500;
    assert_choice(balance_units(&own, units, 3), 0, UNITS_BOUND_SOONEST);
    hits[0] = 3500;
    assert_choice(balance_units(&own, units, 3), 2, UNITS_BOUND_SOONEST);
    units[2].waiting = BALANCE_UNITS_WAITING;
    units[1].accepts = false;
    assert_choice(balance_units(&own, units, 3), 0, UNITS_BOUND_SOONEST);
    units[1] = computes(0, 0, 0);
    own.hit_tokens = NULL;
    assert_choice(balance_units(&own, units, 3), 1, UNITS_BOUND_SOONEST);
    for (uint32_t i = 0; i < 3; i++)
        units[i] = computes(5 - i, 0, 0);
    assert_choice(balance_units(&own, units, 3), 2, UNITS_BOUND_SOONEST);
}

/* Where a unit that also answers may be chosen, or none that only computes serves, memory
 * counts. */
TEST(where_answers_stay_the_share_counts) {
    struct balance_unit units[2] = {computes(1, 9e8, 1e9), computes(5, 0, 0)};
    struct balance_units_need own = need;
    own.roles = BALANCE_ROLE(UNIT_PREFILL) | BALANCE_ROLE(UNIT_BOTH);
    assert_choice(balance_units(&own, units, 2), 0, UNITS_BOUND);
    own.roles = BALANCE_ROLE(UNIT_DECODE);
    assert_choice(balance_units(&own, units, 2), 0, UNITS_BOUND);
}

/* Units that step in turn, one always busier than the others: as many prompts come to each as its
 * speed lets through, and nobody waits longer than where units are taken in turns. */
TEST(prompts_find_the_step_that_begins_next) {
    enum { UNITS = 4, PROMPTS = 4000, STEP = 1000, EACH = 20 };
    struct balance_units_need own = need;
    double waited = 0, in_turns = 0, queue[UNITS] = {0};
    uint32_t bound[UNITS] = {0};
    own.roles = BALANCE_ROLE(UNIT_PREFILL);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        struct balance_unit units[UNITS];
        for (uint32_t u = 0; u < UNITS; u++) {
            uint32_t phase = (i * 10 + u * 170) % STEP; /* no even distances */
            if (phase < 10) queue[u] = queue[u] > EACH ? queue[u] - EACH : 0;
            units[u] = computes(1, STEP - phase, queue[u] * STEP / EACH);
            units[u].requests_max = 1000;
        }
        uint32_t chosen = balance_units(&own, units, UNITS).unit;
        waited += units[chosen].step_left_ns;
        in_turns += units[i % UNITS].step_left_ns;
        queue[chosen]++;
        bound[chosen]++;
    }
    assert_true(waited < 0.8 * in_turns);
    for (uint32_t u = 0; u < UNITS; u++)
        assert_true(bound[u] > 0.6 * PROMPTS / UNITS && bound[u] < 1.4 * PROMPTS / UNITS);
}
