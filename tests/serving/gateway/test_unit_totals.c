/* SPDX-License-Identifier: Apache-2.0
 * What a unit says that it did for requests is in its books once, wherever they went on, whether
 * their clients were told of it or not: the ledger is checked against that.
 */
#include "serving/gateway/unit_totals.h"

#include "hands.h"
#include "test_case.h"

#define MINUTE (60 * SECOND)

static void assert_books(struct world *world, uint64_t entered_made, uint64_t entered_computed,
                         uint64_t open_made, uint64_t open_computed) {
    uint32_t before = world->totals;
    world->now_ns += MINUTE;
    world_settle(world);
    assert_true(world->totals > before);
    assert_int_equal(world->last_totals.entered.made_tokens, entered_made);
    assert_int_equal(world->last_totals.entered.computed_tokens, entered_computed);
    assert_int_equal(world->last_totals.open.made_tokens, open_made);
    assert_int_equal(world->last_totals.open.computed_tokens, open_computed);
}

static struct world *open_tallied(uint32_t units) {
    struct gateway_options options = {.totals_ns = MINUTE, .queue_ns = 100 * MINUTE};
    return open_with(units, options);
}

TEST(books_are_open_until_the_unit_has_ended_it) {
    struct world *world = open_tallied(1);
    uint32_t client = ask(world, "");
    struct request_id id = world->last_submit->request;
    assert_books(world, 0, 0, 0,
                 1); /* it may be computing a prompt, of which it has not told yet */
    struct record_tokens *tokens =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = 2, .work_count = 1});
    tokens->request = id;
    tokens->token_count = 2;
    tokens_work(tokens)->prompt_miss_tokens = tokens_work(tokens)->computed_tokens = 3;
    memcpy(tokens_chosen(tokens), ids, 2 * sizeof *ids);
    report(world, 1, tokens);
    assert_books(world, 0, 0, 2, 3);
    report_tokens(world, 1, id, 2, ids + 2, 4);
    struct record_finished *finished = make_finished(id, FINISH_LENGTH, 6);
    finished->work.computed_tokens = 3;
    finished->work.recomputed_tokens = 7;
    report(world, 1, finished);
    assert_books(world, 6, 10, 0, 0);
    assert_int_equal(world->clients[client].usage->made_tokens, 6);
    assert_int_equal(world->last_totals.unit, 1);
    assert_int_equal(world->last_totals.is_lost, 0);
    close_empty(world);
}

/* Tokens that another unit had made are not the next one's. */
TEST(each_unit_has_its_part_of_an_answer_that_moved) {
    struct world *world = open_tallied(1);
    ask(world, "");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    lose(world, 1);
    assert_int_equal(world->last_totals.is_lost, 1);
    assert_int_equal(world->last_totals.open.made_tokens, 2); /* it goes on elsewhere */
    join(world, 2);
    struct request_id id = world->last_submit->request;
    report_tokens(world, 2, id, 2, ids + 2, 4);
    assert_books(world, 0, 0, 4, 0);
    report_finished(world, 2, id, FINISH_LENGTH, 6);
    assert_books(world, 4, 0, 0, 0);
    assert_int_equal(world->clients[0].usage->made_tokens, 6);
    close_empty(world);
}

/* Its new connection may be here before the end of the old one is. What it did for the old one's
 * requests is in its books once, and nobody takes the new one's books for all of them. */
TEST(a_unit_that_connects_again_stands_in_no_books_twice) {
    struct world *world = open_tallied(1);
    ask(world, "");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    join_again(world, 2, 1);
    assert_int_equal(world->last_totals.unit, 1);
    assert_int_equal(world->last_totals.is_lost, 1);
    struct request_id id = world->last_submit->request;
    assert_int_equal(id.attempt, 1);
    report_tokens(world, 2, id, 2, ids + 2, 4);
    assert_books(world, 0, 0, 4, 0);
    lose(world, 1); /* no news */
    report_finished(world, 2, id, FINISH_LENGTH, 6);
    assert_books(world, 4, 0, 0, 0);
    assert_int_equal(world->last_totals.unit, 2);
    assert_int_equal(world->clients[0].usage->made_tokens, 6);
    close_empty(world);
}

/* Of what it did while it was not heard, for a request that goes on elsewhere, nobody knows. */
TEST(a_unit_that_was_given_up_says_so_for_good) {
    struct gateway_options options = {.totals_ns = MINUTE, .unit_silence_ns = 2 * SECOND};
    struct world *world = open_with(1, options);
    report_load(world, 1, 0, 0);
    assert_int_equal(world->last_totals.is_lost, 0);
    ask(world, "");
    world->now_ns += 3 * SECOND;
    world_settle(world);
    report_load(world, 1, 0, 0);
    world->now_ns += MINUTE;
    report_load(world, 1, 0, 0);
    world_settle(world);
    assert_int_equal(world->last_totals.is_lost, 1);
    world_close(world);
}

/* The unit that makes the answer was told the first token by the one that computed the prompt. */
TEST(two_units_share_no_token) {
    struct world *world = open_tallied(0);
    join_as(world, 1, UNIT_PREFILL);
    join_as(world, 2, UNIT_DECODE);
    ask(world, "");
    struct request_id id = world->last_submit->request;
    struct record_reserved *record = make(RECORD_RESERVED, NULL);
    record->request = id;
    report(world, 2, record);
    report_tokens(world, 1, id, 0, ids, 1);
    report_finished(world, 1, id, FINISH_HANDED_OVER, 1);
    report_tokens(world, 2, id, 1, ids + 1, 5);
    report_finished(world, 2, id, FINISH_LENGTH, 6);
    assert_books(world, 5, 0, 0, 0); /* unit 2, the last one told of */
    assert_int_equal(world->clients[0].usage->made_tokens, 6);
    close_empty(world);
}

/* Its client left, and who was to make its answer says FINISHED first. */
TEST(a_prompt_that_is_cancelled_late_is_in_the_books) {
    for (uint32_t late = 0; late < 2; late++) {
        struct world *world = open_tallied(0);
        join_as(world, 1, UNIT_PREFILL);
        join_as(world, 2, UNIT_DECODE);
        uint32_t client = ask(world, "");
        struct request_id id = world->last_submit->request;
        struct record_reserved *record = make(RECORD_RESERVED, NULL);
        record->request = id;
        report(world, 2, record);
        world_hang_up(world, client);
        for (uint32_t i = 0; i < 2; i++)
            report_finished(world, i == late ? 1 : 2, id, FINISH_CANCELLED, 0);
        lose(world, 2);
        world->now_ns += MINUTE;
        world_settle(world);
        assert_int_equal(world->last_totals.unit, 1);
        assert_int_equal(world->last_totals.is_lost, 0);
        close_empty(world);
    }
}

/* What it does until it hears of that is nobody's. */
TEST(a_unit_whose_prompt_goes_elsewhere_says_so_for_good) {
    struct world *world = open_tallied(0);
    join_as(world, 1, UNIT_PREFILL);
    join_as(world, 2, UNIT_DECODE);
    ask(world, "");
    struct record_reserved *record = make(RECORD_RESERVED, NULL);
    record->request = world->last_submit->request;
    report(world, 2, record);
    assert_int_equal(world->last_submit->task, SUBMIT_PREFILL);
    lose(world, 2);
    world->now_ns += MINUTE;
    world_settle(world);
    assert_int_equal(world->last_totals.unit, 1);
    assert_int_equal(world->last_totals.is_lost, 1);
    world_close(world);
}

/* A gateway that goes tells what it knows last, and one that comes what the unit had counted
 * before: else nobody could say of a unit that all its work is somewhere. */
TEST(the_first_and_the_last_word_are_reported_at_once) {
    struct world *world = open_tallied(1);
    assert_int_equal(world->totals, 0);
    report_load(world, 1, 0, 0);
    world_settle(world);
    assert_int_equal(world->totals, 1);
    ask(world, "");
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 4);
    world_drain(world);
    world_settle(world);
    assert_int_equal(world->totals, 1);
    report_finished(world, 1, id, FINISH_LENGTH, 4);
    world_settle(world);
    assert_int_equal(world->totals, 2);
    assert_int_equal(world->last_totals.entered.made_tokens, 4);
    close_empty(world);
}

TEST(nobody_reports_what_nobody_asked_for) {
    struct world *world = open_with(1, (struct gateway_options){0});
    const struct machine *machine = &world->gateway_machine;
    assert_true(machine->next_wake_ns(machine->self) == MACHINE_NEVER);
    lose(world, 1);
    assert_int_equal(world->totals, 0);
    close_empty(world);
}
