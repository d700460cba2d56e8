/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/fault_costs.h"

#include "test_case.h"

#define SECOND ((int64_t)1000000000)
#define REQUESTS 4

static const struct fault_limits limits = {SECOND, SECOND / 10};

/* Ten tokens behind a TTFT, so many ns apart. */
static struct simulator_ended ended(uint64_t number, int64_t arrival_ns, int64_t ttft_ns,
                                    int64_t tpot_ns) {
    int64_t first_ns = arrival_ns + ttft_ns, last_ns = first_ns + 9 * tpot_ns;
    return (struct simulator_ended){.number = number,
                                    .arrival_ns = arrival_ns,
                                    .first_ns = first_ns,
                                    .last_ns = last_ns,
                                    .end_ns = last_ns,
                                    .prompt_tokens = 1,
                                    .answer_tokens = 10};
}

struct two_runs {
    struct simulator_ended with[REQUESTS], without[REQUESTS];
    struct fault_cost costs[SIMULATOR_FAULT_KIND_COUNT];
};

static void compare(struct two_runs *runs, const struct simulator_fault *faults, uint32_t count) {
    struct fault_ends with = {.ends = runs->with, .max = REQUESTS};
    struct fault_ends without = {.ends = runs->without, .max = REQUESTS};
    memset(runs->costs, 0, sizeof runs->costs);
    fault_costs_add(&limits, faults, count, &with, &without, runs->costs);
}

/* Three are there: one waits too long, one has a pause, one would have waited anyway. */
TEST(a_kind_is_charged_with_those_that_were_there) {
    struct two_runs runs = {
        .with = {ended(1, 10 * SECOND, 2 * SECOND, 1), ended(2, 10 * SECOND, 1, SECOND / 5),
                 ended(3, 11 * SECOND, 2 * SECOND, 1), ended(4, 90 * SECOND, 2 * SECOND, 1)},
        .without = {ended(1, 10 * SECOND, 1, 1), ended(2, 10 * SECOND, 1, 1),
                    ended(3, 11 * SECOND, 2 * SECOND, 1), ended(4, 90 * SECOND, 1, 1)}};
    struct simulator_fault fault = {
        .at_ns = 9 * SECOND, .lasts_ns = SECOND, .kind = SIMULATOR_FAULT_NODE_DIES};
    compare(&runs, &fault, 1);
    const struct fault_cost *cost = &runs.costs[SIMULATOR_FAULT_NODE_DIES];
    assert_int_equal(cost->times, 1);
    assert_int_equal(cost->requests, 3);
    assert_int_equal(cost->ttft_missed, 2);
    assert_int_equal(cost->ttft_without, 1);
    assert_int_equal(cost->tpot_missed, 1);
    assert_int_equal(cost->tpot_without, 0);
    assert_int_equal(runs.costs[SIMULATOR_FAULT_UNIT_DIES].requests, 0);
}

TEST(who_was_refused_misses_both) {
    struct two_runs runs = {.with = {{.number = 1, .end_ns = 1, .failed = true}},
                            .without = {ended(1, 0, 1, 1)}};
    struct simulator_fault faults[2] = {{.kind = SIMULATOR_FAULT_CROWD, .lasts_ns = 1},
                                        {.kind = SIMULATOR_FAULT_CROWD, .lasts_ns = 1}};
    compare(&runs, faults, 2);
    const struct fault_cost *cost = &runs.costs[SIMULATOR_FAULT_CROWD];
    assert_int_equal(cost->times, 2);
    assert_int_equal(cost->requests, 1);
    assert_int_equal(cost->failed, 1);
    assert_int_equal(cost->ttft_missed, 1);
    assert_int_equal(cost->tpot_missed, 1);
}

/* A run that is cut off at its end knows nothing of those that it had not ended. */
TEST(who_ended_in_one_run_alone_is_not_compared) {
    struct two_runs runs = {.with = {ended(1, 0, 1, 1)}};
    struct simulator_fault fault = {.kind = SIMULATOR_FAULT_DISKS_SLOW, .lasts_ns = SECOND};
    compare(&runs, &fault, 1);
    assert_int_equal(runs.costs[SIMULATOR_FAULT_DISKS_SLOW].requests, 0);
}

TEST(ends_are_kept_by_number_as_far_as_there_is_room) {
    struct simulator_ended kept[2] = {{0}};
    struct fault_ends ends = {.ends = kept, .max = 2};
    for (uint64_t number = 3; number > 0; number--) {
        struct simulator_ended one = ended(number, (int64_t)number, 1, 1);
        fault_costs_note(&ends, &one);
    }
    assert_int_equal(ends.count, 3);
    assert_int_equal(kept[0].arrival_ns, 1);
    assert_int_equal(kept[1].arrival_ns, 2);
}
