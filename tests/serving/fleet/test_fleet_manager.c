/* SPDX-License-Identifier: Apache-2.0
 * Protects what a fleet's manager does with units: it starts, calls back, converts, drains and ends
 * them in that order of preference, takes over what runs, leaves all as it is while nothing is
 * told, and obeys.
 */

#include "contract/record_unit.h"
#include "serving/fleet/fleet_manager.h"
#include "test_case.h"

#define S ((int64_t)1000000000)

static _Alignas(64) char memory[1 << 20];
static struct fleet_manager *manager;
static struct machine machine;
static struct record_fleet_load load;
static int64_t now_ns;
static struct record_fleet_action said[64];
static uint32_t said_count;

static void open_with(bool converts) {
    struct arena arena;
    struct scale_rule_side side = {
        .unit_rate = 1000, .unit_nodes = 1, .least = 1, .most = 8, .group = 1};
    const struct fleet_manager_options options = {.rule = {.sides = {side, side},
                                                           .reserve = 0.1,
                                                           .give_back = 0.1,
                                                           .rest_ns = 600 * S,
                                                           .start_ns = 30 * S},
                                                  .calendar = {.period_ns = 86400 * S, .price = 1},
                                                  .nodes = 12,
                                                  .ttft_limit_ns = 2 * S,
                                                  .tpot_limit_ns = S / 10,
                                                  .missed_share = 0.01,
                                                  .decide_ns = 5 * S,
                                                  .drain_ns_max = 120 * S,
                                                  .start_ns_max = 300 * S,
                                                  .converts = converts,
                                                  .starts_at_once = 8,
                                                  .first_number = 1};
    assert_true(fleet_manager_bytes() <= sizeof memory);
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(fleet_manager_create(&arena, &options, &manager), STATUS_OK);
    machine = fleet_manager_machine(manager);
    load = (struct record_fleet_load){0};
    record_set_head(&load, RECORD_FLEET_LOAD);
    now_ns = 20000 * 86400 * S;
    said_count = 0;
}

static int open_manager(void **state) {
    (void)state;
    open_with(false);
    return 0;
}

static void see_record(struct record_fleet_unit seen) {
    record_set_head(&seen, RECORD_FLEET_UNIT);
    assert_int_equal(machine.receive(machine.self, &seen.record, now_ns), STATUS_OK);
}

static void see(uint32_t number, uint32_t role, enum fleet_unit_state state, uint32_t requests) {
    see_record((struct record_fleet_unit){
        .number = number, .role = role, .observed_state = state, .requests = requests});
}

static void command(struct record_fleet_command what) {
    record_set_head(&what, RECORD_FLEET_COMMAND);
    assert_int_equal(machine.receive(machine.self, &what.record, now_ns), STATUS_OK);
}

/* So long, with so many tokens a second for either side. */
static void live(int seconds, uint64_t prefill, uint64_t decode) {
    for (int i = 0; i < seconds; i++) {
        now_ns += S;
        load.arrived_requests += decode;
        load.arrived_tokens += prefill;
        load.miss_tokens += prefill;
        load.completed += decode;
        load.output_tokens += decode; /* a token each */
        assert_int_equal(machine.receive(machine.self, &load.record, now_ns), STATUS_OK);
        machine.step(machine.self, now_ns);
        const struct record *record = NULL;
        while ((record = machine_outbox_next(machine.outbox, record)) && said_count < 64)
            said[said_count++] = *(const struct record_fleet_action *)record;
        machine_outbox_clear(machine.outbox);
    }
}

static uint32_t count_said(enum fleet_act act, uint32_t role) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < said_count; i++)
        count += said[i].act == act && said[i].role == role;
    return count;
}

static uint32_t count_of(enum fleet_act act, uint32_t number) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < said_count; i++)
        count += said[i].act == act && said[i].number == number;
    return count;
}

static void see_all(uint32_t from, uint32_t to, uint32_t role, enum fleet_unit_state state,
                    uint32_t requests) {
    for (uint32_t number = from; number <= to; number++)
        see(number, role, state, requests);
}

TEST_AROUND(it_starts_what_the_load_wants, open_manager, NULL) {
    live(20, 2500, 500);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_PREFILL), 3);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_DECODE), 1);
    assert_int_equal(said_count, 4); /* each is said once */
    live(60, 2500, 500);
    assert_int_equal(said_count, 4);
}

TEST_AROUND(it_takes_over_what_runs, open_manager, NULL) {
    see_all(3, 5, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(6, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(20, 2500, 500);
    assert_int_equal(said_count, 0);
    live(20, 3500, 500);
    assert_int_equal(said_count, 1);
    assert_int_equal(said[0].number, 7); /* a number that was never given */
}

TEST_AROUND(it_drains_before_it_ends_and_calls_back, open_manager, NULL) {
    see_all(1, 4, UNIT_PREFILL, FLEET_UNIT_SERVING, 5);
    see(3, UNIT_PREFILL, FLEET_UNIT_SERVING, 1); /* the idlest */
    see(5, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(590, 2000, 500);
    assert_int_equal(said_count, 0); /* a new manager rests first */
    for (int i = 0; i < 60 && !said_count; i++)
        live(1, 2000, 500);
    assert_int_equal(said_count, 1);
    assert_int_equal(said[0].act, FLEET_ACT_DRAIN);
    assert_int_equal(said[0].number, 3);
    see(3, UNIT_PREFILL, FLEET_UNIT_DRAINING, 1);
    live(60, 3500, 500);
    assert_true(said_count >= 2);
    assert_int_equal(said[1].act, FLEET_ACT_RESUME);
    see(3, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    said_count = 0;
    live(1100, 2000, 500); /* it was rash, and rests for twice as long */
    assert_int_equal(said_count, 0);
    for (int i = 0; i < 200 && !said_count; i++)
        live(1, 2000, 500);
    assert_int_equal(said[0].act, FLEET_ACT_DRAIN);
    see(3, UNIT_PREFILL, FLEET_UNIT_DRAINING, 0);
    live(2, 2000, 500);
    assert_int_equal(said[said_count - 1].act, FLEET_ACT_STOP);
    uint32_t before = said_count;
    see(3, UNIT_PREFILL, FLEET_UNIT_GONE, 0);
    live(60, 2000, 500);
    assert_int_equal(said_count, before);
    assert_int_equal(fleet_manager_outlook(manager).lost_total, 0);
}

/* It hangs, or it would be gone: its nodes are not to be held for ever. */
TEST_AROUND(a_drained_unit_that_no_gateway_knows_is_ended, open_manager, NULL) {
    see_all(1, 3, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(4, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(610, 500, 500);
    assert_true(count_said(FLEET_ACT_DRAIN, 0) >= 2);
    see_all(2, 3, UNIT_PREFILL, FLEET_UNIT_STARTING, 1);
    live(150, 500, 500);
    assert_true(count_said(FLEET_ACT_KILL, 0) >= 2);
}

/* Its answers could be ended by nobody else: they are waited for, whatever the drain's time. */
TEST_AROUND(one_that_computes_like_no_other_keeps_its_requests, open_manager, NULL) {
    see_all(1, 3, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(4, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(610, 500, 500);
    assert_true(count_said(FLEET_ACT_DRAIN, 0) >= 2);
    struct record_fleet_unit alone = {.number = 3,
                                      .role = UNIT_PREFILL,
                                      .observed_state = FLEET_UNIT_DRAINING,
                                      .requests = 1,
                                      .stranded = 1};
    see(2, UNIT_PREFILL, FLEET_UNIT_DRAINING, 1);
    see_record(alone);
    live(150, 500, 500);
    assert_true(count_of(FLEET_ACT_KILL, 2) > 0);
    assert_int_equal(count_of(FLEET_ACT_KILL, 3), 0);
    alone.requests = 0;
    see_record(alone);
    live(2, 500, 500);
    assert_int_equal(count_of(FLEET_ACT_STOP, 3), 1);
}

TEST_AROUND(it_converts_what_the_other_role_can_spare, open_manager, NULL) {
    open_with(true);
    see_all(1, 4, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(5, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(605, 500, 800);
    said_count = 0;
    live(60, 500, 1500);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_DECODE), 0);
    assert_true(count_said(FLEET_ACT_ROLE, UNIT_DECODE) + count_said(FLEET_ACT_RESUME, 0) >= 1);
}

/* A unit that starts is no capacity yet: it may never come. */
TEST_AROUND(a_role_keeps_what_serves_while_another_one_only_starts, open_manager, NULL) {
    open_with(true);
    see(1, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(2, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    see(3, UNIT_DECODE, FLEET_UNIT_STARTING, 0);
    command(
        (struct record_fleet_command){.kind = FLEET_COMMAND_PIN, .role = UNIT_DECODE, .count = 1});
    live(20, 1700, 100);
    assert_int_equal(count_said(FLEET_ACT_ROLE, UNIT_PREFILL), 0);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_PREFILL), 1);
    assert_true(count_said(FLEET_ACT_KILL, 0) >= 1); /* of the one that starts */
}

TEST_AROUND(while_nothing_is_reported_it_leaves_all_as_it_is, open_manager, NULL) {
    see_all(1, 4, UNIT_PREFILL, FLEET_UNIT_SERVING, 0);
    for (int i = 0; i < 5000; i++) {
        now_ns += S;
        machine.step(machine.self, now_ns);
    }
    assert_int_equal(machine.outbox->used, 0);
    assert_int_equal(fleet_manager_outlook(manager).units[SCALE_PREFILL], 4);
}

TEST_AROUND(starts_that_fail_are_tried_again_ever_later, open_manager, NULL) {
    live(10, 500, 500);
    for (uint32_t number = 1; number <= 12; number++) {
        see(number, UNIT_PREFILL, FLEET_UNIT_LAUNCH_FAILED, 0);
        live(5, 500, 500);
    }
    assert_true(said_count > 4 && said_count < 12);
    assert_true(fleet_manager_outlook(manager).failed_total >= 3);
}

TEST_AROUND(a_start_that_never_comes_is_given_up, open_manager, NULL) {
    live(10, 500, 500);
    uint32_t before = said_count;
    see(1, said[0].role, FLEET_UNIT_QUEUED, 0);
    live(310, 500, 500);
    assert_true(count_said(FLEET_ACT_KILL, 0) >= 1);
    assert_true(said_count > before + 1); /* and another one is tried */
}

/* One that runs, and of which no gateway tells, is not ended for that. */
TEST_AROUND(nothing_is_given_up_while_gateways_are_not_received, open_manager, NULL) {
    see(1, UNIT_PREFILL, FLEET_UNIT_STARTING, 0);
    for (int i = 0; i < 5000; i++) {
        now_ns += S;
        machine.step(machine.self, now_ns);
    }
    assert_int_equal(machine.outbox->used, 0);
    see(1, UNIT_PREFILL, FLEET_UNIT_SERVING, 0);
    live(10, 500, 0);
    assert_int_equal(count_said(FLEET_ACT_KILL, 0), 0);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_PREFILL), 0);
}

TEST_AROUND(one_that_served_and_is_not_received_is_ended_and_replaced, open_manager, NULL) {
    see_all(1, 2, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(3, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(10, 1500, 500);
    see(2, UNIT_PREFILL, FLEET_UNIT_STARTING, 0); /* its launcher has it, no gateway does */
    live(25, 1500, 500);
    assert_int_equal(said_count, 0); /* it may come back */
    see(2, UNIT_PREFILL, FLEET_UNIT_SERVING, 0);
    live(25, 1500, 500);
    see(2, UNIT_PREFILL, FLEET_UNIT_STARTING, 0);
    live(25, 1500, 500);
    assert_int_equal(said_count, 0);
    live(15, 1500, 500);
    assert_int_equal(said[0].act, FLEET_ACT_KILL);
    assert_int_equal(said[0].number, 2);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_PREFILL), 1);
    assert_int_equal(fleet_manager_outlook(manager).lost_total, 1);
    see(2, UNIT_PREFILL, FLEET_UNIT_GONE, 0);
    assert_int_equal(fleet_manager_outlook(manager).lost_total, 1);
}

TEST_AROUND(one_that_is_lost_in_mid_drain_is_ended, open_manager, NULL) {
    see_all(1, 2, UNIT_PREFILL, FLEET_UNIT_SERVING, 3);
    see(3, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    command((struct record_fleet_command){.kind = FLEET_COMMAND_DRAIN, .number = 2});
    live(2, 500, 500);
    assert_int_equal(said[0].act, FLEET_ACT_DRAIN);
    see(2, UNIT_PREFILL, FLEET_UNIT_DRAINING, 3);
    live(2, 500, 500);
    see(2, UNIT_PREFILL, FLEET_UNIT_STARTING, 3);
    live(34, 500, 500);
    assert_int_equal(count_said(FLEET_ACT_KILL, 0), 1);
    assert_int_equal(fleet_manager_outlook(manager).lost_total, 0);
}

/* Gateways that were away may take a moment until units have come back to them. */
TEST_AROUND(nobody_is_lost_while_gateways_are_not_received, open_manager, NULL) {
    see_all(1, 2, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(3, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(10, 1500, 500);
    see_all(1, 2, UNIT_PREFILL, FLEET_UNIT_STARTING, 1);
    see(3, UNIT_DECODE, FLEET_UNIT_STARTING, 1);
    for (int i = 0; i < 5000; i++) {
        now_ns += S;
        machine.step(machine.self, now_ns);
    }
    live(10, 1500, 500);
    assert_int_equal(count_said(FLEET_ACT_KILL, 0), 0);
}

TEST_AROUND(an_operator_is_obeyed, open_manager, NULL) {
    see_all(1, 2, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see_all(3, 4, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    command((struct record_fleet_command){.kind = FLEET_COMMAND_DRAIN, .number = 3});
    live(10, 1500, 500);
    assert_int_equal(said[0].act, FLEET_ACT_DRAIN);
    assert_int_equal(said[0].number, 3);
    see(3, UNIT_DECODE, FLEET_UNIT_DRAINING, 0);
    live(300, 1500, 500);
    assert_int_equal(count_said(FLEET_ACT_STOP, 0), 0); /* it stays there, drained */
    command((struct record_fleet_command){.kind = FLEET_COMMAND_RESUME, .number = 3});
    live(1, 1500, 500);
    assert_int_equal(count_said(FLEET_ACT_RESUME, 0), 1);
    see(3, UNIT_DECODE, FLEET_UNIT_SERVING, 0);
    command(
        (struct record_fleet_command){.kind = FLEET_COMMAND_PIN, .role = UNIT_DECODE, .count = 4});
    live(10, 1500, 500);
    assert_int_equal(count_said(FLEET_ACT_START, UNIT_DECODE), 2);
}

TEST_AROUND(it_says_what_comes_next, open_manager, NULL) {
    see(1, UNIT_PREFILL, FLEET_UNIT_SERVING, 1);
    see(2, UNIT_DECODE, FLEET_UNIT_SERVING, 1);
    live(100, 500, 500);
    assert_false(fleet_manager_next(manager, now_ns).is_known);
    for (int i = 0; i < 100; i++)
        live(5, 500 + 4 * (uint64_t)i, 500); /* the trend goes on */
    struct fleet_next next = fleet_manager_next(manager, now_ns);
    assert_true(next.is_known && next.side == SCALE_PREFILL && next.change > 0);
}
