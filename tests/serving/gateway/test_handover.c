/* SPDX-License-Identifier: Apache-2.0
 * Prefill and decode apart, as the gateway sees it: pages are reserved before a prompt is computed,
 * the first token goes to the client and on to the second unit, whose tokens follow; each request
 * ends once, whichever unit is lost, refuses, fails or says FINISHED late, and nobody is
 * left with a request that has ended. Unit 1 computes prompts, units 2 and 3 make answers, by hand.
 */

#include "base/tree.h"
#include "hands.h"
#include "test_case.h"

enum { FIRST = 1, SECOND_UNIT = 2, THIRD = 3 };

static struct world *open_apart(uint32_t second_units) {
    struct world *world = open_empty((struct gateway_options){0});
    join_as(world, FIRST, UNIT_PREFILL);
    for (uint32_t i = 0; i < second_units; i++)
        join_as(world, SECOND_UNIT + i, UNIT_DECODE);
    return world;
}

static void report_handed_over(struct world *world, struct request_id id, uint32_t hits) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = id;
    record->reason = FINISH_HANDED_OVER;
    record->output_tokens = 1;
    record->work.prompt_hit_tokens = hits;
    record->work.prompt_miss_tokens = 3 - hits;
    report(world, FIRST, record);
}

static void assert_asked(const struct world *world, uint32_t unit, enum submit_task task) {
    assert_int_equal(world->last_unit.value, unit);
    assert_int_equal(world->last_submit->task, task);
}

/* Up to the first token. */
static uint32_t ask_and_begin(struct world *world, const char *more, struct request_id *id_out) {
    uint32_t client = ask(world, more);
    assert_int_equal(world->last_submit->task, SUBMIT_RESERVE);
    *id_out = world->last_submit->request;
    report_reserved(world, world->last_unit.value, *id_out);
    assert_asked(world, FIRST, SUBMIT_PREFILL);
    return client;
}

static void assert_hits(struct world *world, uint32_t client, int64_t hits) {
    int64_t reported = -1;
    const struct tree *usage = tree_member(read_body(world, client), "usage");
    assert_true(tree_get_integer(tree_member(usage, "prompt_cache_hit_tokens"), &reported));
    assert_int_equal(reported, hits);
}

TEST(a_prompt_goes_to_one_and_its_answer_to_another) {
    for (uint32_t late = 0; late < 2; late++) { /* whose FINISHED comes first */
        struct world *world = open_apart(1);
        struct request_id id;
        uint32_t client = ask(world, ",\"seed\":7");
        assert_asked(world, SECOND_UNIT, SUBMIT_RESERVE);
        id = world->last_submit->request;
        uint64_t grant = world->last_submit->route.grant[0];
        report_reserved(world, SECOND_UNIT, id);
        assert_asked(world, FIRST, SUBMIT_PREFILL);
        assert_true(request_id_equal(world->last_submit->request, id));
        assert_string_equal(world->last_submit->route.address, "unit:2");
        assert_true(world->last_submit->route.grant[0] == grant);
        report_tokens(world, SECOND_UNIT, id, 0, ids + 3, 1); /* not its turn */
        report_tokens(world, FIRST, id, 0, ids, 1);
        assert_int_equal(world->continues, 1);
        assert_int_equal(world->last_unit.value, SECOND_UNIT);
        assert_int_equal(world->last_continued, ids[0]);
        if (!late) report_handed_over(world, id, 2);
        report_tokens(world, SECOND_UNIT, id, 1, ids + 1, 5);
        report_finished(world, SECOND_UNIT, id, FINISH_LENGTH, 6);
        assert_int_equal(world->clients[client].ended, !late);
        if (late) report_handed_over(world, id, 2);
        assert_ids(world, client, ids, 6);
        assert_hits(world, client, 2);
        assert_int_equal(world->cancels, 0);
        close_empty(world);
    }
}

TEST(an_answer_that_ends_with_its_first_token_is_not_continued) {
    struct world *world = open_apart(1);
    struct request_id id;
    uint32_t client = ask_and_begin(world, ",\"stop_token_ids\":[11]", &id);
    report_tokens(world, FIRST, id, 0, ids, 1);
    assert_int_equal(world->continues, 0);
    report_finished(world, FIRST, id, FINISH_STOP_TOKEN, 1);
    assert_true(world->clients[client].ended);
    assert_true(world->cancelled_at & 1u << SECOND_UNIT); /* its pages are wanted back */
    report_finished(world, SECOND_UNIT, id, FINISH_CANCELLED, 0);
    close_empty(world);
}

/* Before the first token whoever is lost takes the request with it; behind it only the second unit
 * matters. */
TEST(a_request_survives_the_loss_of_either_unit) {
    for (uint32_t stage = 0; stage < 3; stage++)
        for (uint32_t lost = FIRST; lost <= SECOND_UNIT; lost++) {
            struct world *world = open_apart(2);
            uint32_t client = ask(world, ""), done = 0;
            struct request_id id = world->last_submit->request;
            if (stage > 0) report_reserved(world, SECOND_UNIT, id);
            if (stage > 1) report_tokens(world, FIRST, id, 0, ids, done = 1);
            world->cancelled_at = 0;
            lose(world, lost);
            if (stage == 2 && lost == FIRST) {
                assert_int_equal(world->cancels, 0);
                report_tokens(world, SECOND_UNIT, id, 1, ids + 1, 5);
                report_finished(world, SECOND_UNIT, id, FINISH_LENGTH, 6);
            } else {
                assert_int_equal(world->last_submit->request.attempt, 1);
                assert_int_equal(world->last_submit->task, SUBMIT_ANSWER);
                assert_int_equal(world->last_submit->resumed_count, done);
                if (stage > 0 || lost == FIRST)
                    assert_true(world->cancelled_at & 1u << (lost == FIRST ? SECOND_UNIT : FIRST));
                uint32_t unit = world->last_unit.value;
                assert_true(unit != lost && unit != FIRST);
                report_tokens(world, FIRST, id, done, ids + 4, 1); /* of the old attempt */
                report_tokens(world, unit, world->last_submit->request, done, ids + done, 6 - done);
                report_finished(world, unit, world->last_submit->request, FINISH_LENGTH, 6);
            }
            assert_ids(world, client, ids, 6);
            close_empty(world);
        }
}

/* The answer's unit has said FINISHED; nobody waits for a unit that is gone. */
TEST(the_first_unit_may_be_lost_before_it_says_finished) {
    struct world *world = open_apart(1);
    struct request_id id;
    uint32_t client = ask_and_begin(world, "", &id);
    report_tokens(world, FIRST, id, 0, ids, 1);
    report_tokens(world, SECOND_UNIT, id, 1, ids + 1, 5);
    report_finished(world, SECOND_UNIT, id, FINISH_LENGTH, 6);
    assert_false(world->clients[client].ended);
    lose(world, FIRST);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

TEST(who_has_no_room_is_asked_again_when_it_has_moved) {
    struct world *world = open_apart(1);
    uint32_t client = ask(world, "");
    for (uint32_t turn = 0; turn < 10; turn++) {
        assert_int_equal(world->submits, turn + 1);
        assert_asked(world, SECOND_UNIT, SUBMIT_RESERVE);
        report_finished(world, SECOND_UNIT, world->last_submit->request, FINISH_REFUSED_QUEUE, 0);
        assert_int_equal(world->submits, turn + 1);
        report_load(world, SECOND_UNIT, 0, 3);
    }
    assert_false(world->clients[client].ended);
    struct request_id id = world->last_submit->request;
    report_reserved(world, SECOND_UNIT, id);
    report_tokens(world, FIRST, id, 0, ids, 1);
    report_handed_over(world, id, 0);
    report_tokens(world, SECOND_UNIT, id, 1, ids + 1, 5);
    report_finished(world, SECOND_UNIT, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* Else each of its load reports would have all that wait ask again, with their prompts. */
TEST(who_had_no_room_is_asked_for_one_at_a_time) {
    struct world *world = open_apart(1);
    struct request_id asked[4];
    for (uint32_t i = 0; i < 4; i++) {
        ask(world, "");
        asked[i] = world->last_submit->request;
    }
    assert_int_equal(world->submits, 4);
    for (uint32_t i = 0; i < 4; i++)
        report_finished(world, SECOND_UNIT, asked[i], FINISH_REFUSED_QUEUE, 0);
    for (uint32_t turn = 1; turn < 5; turn++) {
        report_load(world, SECOND_UNIT, 0, 3);
        assert_int_equal(world->submits, 4 + turn);
        assert_asked(world, SECOND_UNIT, SUBMIT_RESERVE);
        if (turn == 4) break;
        report_finished(world, SECOND_UNIT, world->last_submit->request, FINISH_REFUSED_QUEUE, 0);
        assert_int_equal(world->submits, 4 + turn);
    }
    report_reserved(world, SECOND_UNIT, world->last_submit->request);
    assert_int_equal(world->submits, 4 + 4 + 1 + 3); /* its prompt, and the other three */
    world_close(world);
}

/* It never will have pages for it, and the prompt's unit has not heard of the request. */
TEST(who_refuses_to_reserve_for_good_ends_the_request) {
    for (uint32_t stage = 0; stage < 2; stage++) {
        struct world *world = open_apart(1);
        uint32_t client = ask(world, "");
        struct request_id id = world->last_submit->request;
        if (stage > 0) report_reserved(world, SECOND_UNIT, id);
        world->cancelled_at = 0;
        report_finished(world, SECOND_UNIT, id, FINISH_REFUSED_TOO_LARGE, 0);
        assert_refused(world, client, 400, "context_length_exceeded");
        assert_int_equal(world->cancelled_at >> FIRST & 1, stage > 0); /* nobody waits for it */
        close_empty(world);
    }
}

TEST(a_failed_prompt_is_computed_by_the_other) {
    struct world *world = open_apart(1);
    struct request_id id;
    uint32_t client = ask_and_begin(world, "", &id);
    report_finished(world, FIRST, id, FINISH_FAILED, 0);
    assert_true(world->cancelled_at & 1u << SECOND_UNIT);
    assert_asked(world, SECOND_UNIT, SUBMIT_ANSWER);
    id = world->last_submit->request;
    report_tokens(world, SECOND_UNIT, id, 0, ids, 6);
    report_finished(world, SECOND_UNIT, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

TEST(a_client_that_leaves_frees_both) {
    for (uint32_t stage = 0; stage < 3; stage++)
        for (uint32_t order = 0; order < 2; order++) {
            struct world *world = open_apart(1);
            uint32_t client = ask(world, ",\"stream\":true");
            struct request_id id = world->last_submit->request;
            if (stage > 0) report_reserved(world, SECOND_UNIT, id);
            if (stage > 1) report_tokens(world, FIRST, id, 0, ids, 1);
            world->clients[client].gone = true;
            world_hang_up(world, client);
            world_settle(world);
            assert_true(world->cancelled_at & 1u << SECOND_UNIT);
            assert_true(stage == 0 || world->cancelled_at & 1u << FIRST);
            if (order) report_finished(world, FIRST, id, FINISH_CANCELLED, 0);
            report_finished(world, SECOND_UNIT, id, FINISH_CANCELLED, 0);
            if (!order) report_finished(world, FIRST, id, FINISH_CANCELLED, 0);
            close_empty(world);
        }
}

/* Units for one task only: each can do all of it when the other kind is not there. */
TEST(one_kind_alone_serves) {
    for (uint32_t role = UNIT_PREFILL; role <= UNIT_DECODE; role++) {
        struct world *world = open_empty((struct gateway_options){0});
        join_as(world, FIRST, role);
        uint32_t client = ask(world, "");
        assert_asked(world, FIRST, SUBMIT_ANSWER);
        report_tokens(world, FIRST, world->last_submit->request, 0, ids, 6);
        report_finished(world, FIRST, world->last_submit->request, FINISH_LENGTH, 6);
        assert_ids(world, client, ids, 6);
        close_empty(world);
    }
}

TEST(a_unit_that_reserves_nonsense_is_expelled) {
    struct world *world = open_apart(2);
    ask(world, "");
    struct record_reserved *record = make(RECORD_RESERVED, NULL);
    record->request = world->last_submit->request;
    record->rank = 1; /* it has one */
    report(world, SECOND_UNIT, record);
    assert_asked(world, THIRD, SUBMIT_ANSWER);
    report_finished(world, THIRD, world->last_submit->request, FINISH_LENGTH, 0);
    close_empty(world);
}

static void assign(struct world *world, const char *wish, uint32_t http_status) {
    uint32_t client = world_post(world, "/debug/fleet/role", wish);
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, http_status);
}

/* Units that change places finish what they have as it was asked for; the next one is asked the
 * new way. */
TEST(units_may_change_places) {
    struct world *world = open_apart(1);
    struct request_id old, new;
    uint32_t first = ask_and_begin(world, "", &old);
    assign(world, "{\"unit\":1,\"role\":\"decode\"}", 200);
    assign(world, "{\"unit\":2,\"role\":\"prefill\"}", 200);
    assert_int_equal(world->roles, 2);
    assert_int_equal(world->last_role, UNIT_PREFILL);
    uint32_t report = world_get(world, "/debug/fleet"), second = ask(world, "");
    assert_non_null(strstr(world->clients[report].data,
                           "\"id\":1,\"instance\":\"0000000000000001\",\"role\":\"decode\""));
    assert_asked(world, FIRST, SUBMIT_RESERVE);
    new = world->last_submit->request;
    report_reserved(world, FIRST, new);
    assert_asked(world, SECOND_UNIT, SUBMIT_PREFILL);
    report_tokens(world, FIRST, old, 0, ids, 1);
    report_handed_over(world, old, 0);
    report_tokens(world, SECOND_UNIT, old, 1, ids + 1, 5);
    report_finished(world, SECOND_UNIT, old, FINISH_LENGTH, 6);
    assert_ids(world, first, ids, 6);
    assign(world, "{\"unit\":1,\"role\":\"both\"}", 200); /* in the middle of it */
    report_tokens(world, SECOND_UNIT, new, 0, ids, 6);
    report_finished(world, SECOND_UNIT, new, FINISH_LENGTH, 6);
    assert_ids(world, second, ids, 6);
    uint32_t third = ask(world, "");
    assert_asked(world, FIRST, SUBMIT_ANSWER);
    report_tokens(world, FIRST, world->last_submit->request, 0, ids, 6);
    report_finished(world, FIRST, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, third, ids, 6);
    close_empty(world);
}

TEST(a_role_that_cannot_be_is_refused) {
    struct world *world = open_apart(1);
    join(world, THIRD); /* takes no blocks */
    assign(world, "{\"unit\":3,\"role\":\"decode\"}", 409);
    assign(world, "{\"unit\":3,\"role\":\"both\"}", 200);
    assign(world, "{\"unit\":1,\"role\":\"all\"}", 400);
    assign(world, "{\"unit\":1}", 400);
    assign(world, "{\"role\":\"both\"}", 400);
    assign(world, "{\"unit\":9,\"role\":\"both\"}", 404);
    assert_int_equal(world->roles, 1);
    close_empty(world);
}

/* Prompts pile up: a decode unit changes, is told, and the queue is served sooner; then it stays.
 */
TEST(roles_follow_the_load) {
    struct world *world = open_empty((struct gateway_options){.role_hold_ns = SECOND});
    join_as(world, FIRST, UNIT_PREFILL);
    join_as(world, SECOND_UNIT, UNIT_DECODE);
    join_as(world, THIRD, UNIT_DECODE);
    uint32_t clients[30];
    for (uint32_t i = 0; i < 30; i++)
        clients[i] = ask(world, "");
    assert_int_equal(world->roles, 0);
    for (uint32_t i = 0; i < 4; i++) {
        world->now_ns += SECOND / 2;
        report_load(world, SECOND_UNIT, 0, 1);
    }
    assert_int_equal(world->roles, 1);
    assert_int_equal(world->last_role, UNIT_PREFILL);
    for (uint32_t i = 0; i < 30; i++) {
        world->now_ns += SECOND;
        report_load(world, SECOND_UNIT, 0, 1);
    }
    assert_int_equal(world->roles, 1); /* the last one of the kind */
    for (uint32_t i = 0; i < 30; i++)
        world_hang_up(world, clients[i]);
    world_settle(world);
    for (uint32_t unit = FIRST; unit <= THIRD; unit++)
        lose(world, unit);
    close_empty(world);
}

/* A step of a second has ended, and the next one has begun. */
static void report_step(struct world *world, uint32_t unit, uint64_t steps) {
    struct record_unit_load *load =
        make(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = 1});
    load->rank_count = 1;
    load->requests_running = load_ranks(load)->requests_running = 1;
    load->pages_held = load_ranks(load)->pages_held = 3;
    load->pages_free = load_ranks(load)->pages_free = 97;
    load->totals.steps = steps;
    load->last_step_ns = SECOND;
    report(world, unit, load);
}

/* Its pages say that a unit is empty when its step has just ended; whoever comes then would wait
 * for all of the next step. A report that is repeated as a sign of life begins no step, and a step
 * that is late is not believed to end at any moment for as long as it lasts. */
TEST(a_prompt_goes_where_a_step_ends_soon) {
    struct world *world = open_apart(1);
    join_as(world, THIRD, UNIT_PREFILL);
    uint32_t clients[4];
    const uint32_t expected[4] = {FIRST, THIRD, THIRD, FIRST};
    world->now_ns = 10 * SECOND;
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 0) report_step(world, FIRST, 1);
        if (i == 0) world->now_ns += SECOND * 7 / 10;
        if (i == 0) report_step(world, THIRD, 1);
        world->now_ns += i < 3 ? SECOND / 5 : SECOND * 7 / 10; /* the third's is 0.3 s late then */
        if (i == 1) report_step(world, FIRST, 2);
        report_step(world, THIRD, 1);
        clients[i] = ask(world, "");
        report_reserved(world, SECOND_UNIT, world->last_submit->request);
        assert_asked(world, expected[i], SUBMIT_PREFILL);
    }
    for (uint32_t i = 0; i < 4; i++)
        world_hang_up(world, clients[i]);
    world_settle(world);
    for (uint32_t unit = FIRST; unit <= THIRD; unit++)
        lose(world, unit);
    close_empty(world);
}

static void assert_health(struct world *world, uint32_t http_status, const char *said) {
    uint32_t client = world_get(world, "/health");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, http_status);
    assert_string_equal(world->clients[client].data, said);
}

/* A balancer sends nobody to a gateway that lacks one half of the work. */
TEST(health_says_which_half_is_missing) {
    struct world *world = open_empty((struct gateway_options){0});
    assert_health(world, 503, "{\"status\":\"starting\"}");
    join_as(world, FIRST, UNIT_PREFILL);
    assert_health(world, 503, "{\"status\":\"degraded\",\"missing\":\"decode\"}");
    join_as(world, SECOND_UNIT, UNIT_DECODE);
    assert_health(world, 200, "{\"status\":\"ok\"}");
    lose(world, FIRST);
    assert_health(world, 503, "{\"status\":\"degraded\",\"missing\":\"prefill\"}");
    join_as(world, THIRD, UNIT_BOTH);
    assert_health(world, 200, "{\"status\":\"ok\"}");
    lose(world, SECOND_UNIT);
    assert_health(world, 200, "{\"status\":\"ok\"}");
    lose(world, THIRD);
    assert_health(world, 503, "{\"status\":\"starting\"}");
    close_empty(world);
}
