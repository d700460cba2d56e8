/* SPDX-License-Identifier: Apache-2.0
 * Requests go on elsewhere when their unit is lost, silent or failing, and wait again when there is
 * none, but not for ever; each ends once and says each token once.
 */
#include "serving/gateway/resume.h"

#include "hands.h"
#include "test_case.h"

TEST(a_lost_unit_s_requests_go_on_elsewhere) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"seed\":7,\"logit_bias\":{\"9\":1},\"stop_token_ids\":[77]");
    struct request_id old = world->last_submit->request;
    report_tokens(world, 1, old, 0, ids, 2);
    report_tokens(world, 1, old, 2, ids + 2, 1);
    join(world, 2);
    lose(world, 1);
    const struct record_submit *again = world->last_submit;
    struct request_id new = again->request;
    assert_int_equal(world->last_unit.value, 2);
    assert_int_equal(new.attempt, 1);
    assert_true(new.high == old.high &&new.low == old.low);
    assert_int_equal(again->prompt_count, 3);
    assert_int_equal(again->resumed_count, 3);
    assert_int_equal(again->new_tokens_max, 6);
    assert_int_equal(again->sampling.seed, 7);
    const uint32_t expected[] = {5, 6, 7, 11, 12, 13};
    assert_memory_equal(submit_tokens(again), expected, sizeof expected);
    const uint32_t *stops = submit_stop_tokens(again);
    assert_int_equal(stops[1], 77);
    report_tokens(world, 2, old, 3, ids + 4, 1); /* of the first attempt, whoever says it */
    report_tokens(world, 1, new, 3, ids + 4, 1); /* of a unit that is gone */
    report_tokens(world, 2, new, 3, ids + 3, 3);
    report_finished(world, 2, old, FINISH_FAILED, 0);
    assert_false(world->clients[client].ended);
    report_finished(world, 2, new, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* All its tokens had come, only FINISHED had not. */
TEST(a_whole_answer_is_not_asked_for_again) {
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t full = ask(world, ",\"stop_token_ids\":[13]");
    uint32_t unit = world->last_unit.value;
    report_tokens(world, unit, world->last_submit->request, 0, ids, 3);
    lose(world, unit);
    assert_ids(world, full, ids, 3);
    join(world, 3);
    uint32_t submits = world->submits, longest = ask(world, "");
    unit = world->last_unit.value;
    report_tokens(world, unit, world->last_submit->request, 0, ids, 6);
    lose(world, unit);
    assert_ids(world, longest, ids, 6);
    assert_int_equal(world->submits, submits + 1);
    close_empty(world);
}

TEST(a_silent_unit_is_given_up_until_it_speaks) {
    struct world *world = open_with(2, (struct gateway_options){.unit_silence_ns = 2 * SECOND});
    const struct machine *machine = &world->gateway_machine;
    uint32_t client = ask(world, "");
    struct request_id old = world->last_submit->request;
    assert_int_equal(world->last_unit.value, 1);
    report_tokens(world, 1, old, 0, ids, 2);
    world->now_ns = SECOND;
    report_load(world, 2, 0, 0);
    assert_true(machine->next_wake_ns(machine->self) == 2 * SECOND);
    world->now_ns = 2 * SECOND;
    world_settle(world);
    assert_int_equal(world->cancels, 1); /* should it get the record */
    assert_int_equal(world->last_unit.value, 2);
    assert_int_equal(world->last_submit->resumed_count, 2);
    report_tokens(world, 1, old, 2, ids + 4, 1); /* late */
    report_finished(world, 1, old, FINISH_CANCELLED, 3);
    report_tokens(world, 2, world->last_submit->request, 2, ids + 2, 4);
    report_finished(world, 2, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    world->now_ns = 3 * SECOND + 1; /* now the second is silent, and the first serves again */
    world_settle(world);
    ask(world, "");
    assert_int_equal(world->last_unit.value, 1);
    lose(world, 1);
    report_load(world, 2, 0, 0);
    assert_int_equal(world->last_unit.value, 2);
    report_finished(world, 2, world->last_submit->request, FINISH_LENGTH, 0);
    close_empty(world);
}

TEST(a_failed_step_is_tried_elsewhere) {
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    uint32_t failing = world->last_unit.value;
    report_tokens(world, failing, world->last_submit->request, 0, ids, 1);
    report_finished(world, failing, world->last_submit->request, FINISH_FAILED, 1);
    assert_int_equal(world->last_unit.value, 3 - failing);
    assert_int_equal(world->last_submit->resumed_count, 1);
    lose(world, failing);
    const struct machine *machine = &world->gateway_machine;
    for (uint32_t turn = 0; turn < 3; turn++) { /* the same unit is tried again, a little later */
        assert_false(world->clients[client].ended);
        uint32_t submits = world->submits;
        report_finished(world, 3 - failing, world->last_submit->request, FINISH_FAILED, 1);
        assert_int_equal(world->submits, submits);
        world->now_ns = turn < 2 ? machine->next_wake_ns(machine->self) : world->now_ns;
        world_settle(world);
    }
    assert_true(world->now_ns == 3 * SECOND); /* 1 s, 2 s */
    assert_int_equal(world->submits, 4);
    assert_ids(world, client, ids, 1); /* cut, with a reason */
    close_empty(world);
}

/* A refusal is no failure: it takes none of the tries that failures have. */
TEST(failures_and_refusals_are_counted_apart) {
    static const enum finish_reason turns[] = {FINISH_FAILED, FINISH_REFUSED_QUEUE, FINISH_FAILED,
                                               FINISH_FAILED, FINISH_REFUSED_QUEUE};
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    for (size_t turn = 0; turn < sizeof turns / sizeof *turns; turn++) {
        uint32_t unit = world->last_unit.value;
        report_finished(world, unit, world->last_submit->request, turns[turn], 0);
        assert_false(world->clients[client].ended);
        assert_int_equal(world->submits, turn + 2);
        assert_int_equal(world->last_unit.value, 3 - unit);
    }
    report_finished(world, world->last_unit.value, world->last_submit->request, FINISH_FAILED, 0);
    assert_int_equal(world->submits, 6); /* the fourth failure */
    assert_refused(world, client, 503, "engine_failed");
    close_empty(world);
}

/* Whose answer has begun waits for room at any unit, however often it is refused. */
TEST(a_begun_answer_outlasts_full_queues) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 1);
    join(world, 2);
    lose(world, 1);
    for (uint32_t turn = 0; turn < 10; turn++) {
        uint32_t submits = world->submits;
        assert_int_equal(world->last_unit.value, 2);
        report_finished(world, 2, world->last_submit->request, FINISH_REFUSED_QUEUE, 0);
        assert_false(world->clients[client].ended);
        assert_int_equal(world->submits, submits); /* not before the unit has moved */
        report_load(world, 2, 0, 1);
        assert_int_equal(world->submits, submits + 1);
    }
    report_tokens(world, 2, world->last_submit->request, 1, ids + 1, 5);
    report_finished(world, 2, world->last_submit->request, FINISH_LENGTH, 5);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* A request that takes every unit along does not take them all. */
TEST(no_request_loses_units_for_ever) {
    struct world *world = open_empty((struct gateway_options){0});
    uint32_t client = ask(world, ""), unit = 1;
    for (; unit < 30 && !world->clients[client].ended; unit++) {
        join(world, unit);
        lose(world, unit);
    }
    assert_true(unit < 12);
    assert_refused(world, client, 503, "engine_failed");
    close_empty(world);
}
