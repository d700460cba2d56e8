/* SPDX-License-Identifier: Apache-2.0
 * What a request came to is said once, whichever way it ended, and before its last bytes; and where
 * a ledger is kept, nobody sees the end of an answer that it could still lose. That an entry says
 * the same as `usage`, and that no request is without one, the world of all these tests checks.
 */
#include "serving/gateway/usage_record.h"

#include "base/check.h"
#include "hands.h"
#include "test_case.h"

#define STREAM ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"

static const struct record_usage *entry_of(const struct world *world, uint32_t client) {
    assert_non_null(world->clients[client].usage);
    return world->clients[client].usage;
}

static void assert_end(const struct world *world, uint32_t client, uint32_t http_status,
                       const char *end, bool is_charged) {
    const struct record_usage *usage = entry_of(world, client);
    assert_int_equal(usage->http_status, http_status);
    assert_int_equal(usage->end_bytes, strlen(end));
    assert_memory_equal(entry_end(usage), end, strlen(end));
    assert_int_equal(usage->is_charged, is_charged);
}

/* ---- what it says ---- */

TEST(an_entry_says_what_its_request_came_to) {
    struct world *world = open_with(2, (struct gateway_options){0});
    world->now_ns = SECOND;
    uint32_t client = ask(world, "");
    struct request_id id = world->last_submit->request;
    uint32_t unit = world->last_unit.value;
    world->now_ns = 3 * SECOND;
    report_tokens(world, unit, id, 0, ids, 2);
    world->now_ns = 5 * SECOND;
    lose(world, unit);
    uint32_t next = world->last_unit.value;
    assert_int_not_equal(next, unit);
    id = world->last_submit->request;
    report_tokens(world, next, id, 2, ids + 2, 4);
    world->now_ns = 7 * SECOND;
    struct record_finished *finished = make_finished(id, FINISH_LENGTH, 6);
    finished->work.recomputed_tokens = 5;
    report(world, next, finished);
    assert_end(world, client, 200, "length", true);
    const struct record_usage *usage = entry_of(world, client);
    assert_int_equal(usage->unix_time, 1700000001);
    assert_int_equal(usage->hit_tokens, 0);
    assert_int_equal(usage->miss_tokens, 3);
    assert_int_equal(usage->output_tokens, 6);
    assert_int_equal(usage->made_tokens, 6);
    assert_int_equal(usage->choices, 1);
    assert_int_equal(usage->recomputed_tokens, 5);
    assert_true(usage->ttft_ns == 2 * SECOND);
    assert_true(usage->tpot_ns == 2 * SECOND / 5);
    assert_true(usage->total_ns == 6 * SECOND);
    assert_int_equal(usage->stay_count, 2);
    assert_int_equal(usage_stays(usage)[0].unit, unit);
    assert_int_equal(usage_stays(usage)[1].unit, next);
    assert_memory_equal(entry_path(usage), "/completions", usage->path_bytes);
    assert_memory_equal(entry_model(usage), "tiny-r1", usage->model_bytes);
    close_empty(world);
}

TEST(refusals_have_entries_that_cost_nothing) {
    struct world *world = open_with(1, (struct gateway_options){.requests_max = 1});
    uint32_t broken = world_post(world, COMPLETIONS, "{");
    uint32_t get = world_get(world, COMPLETIONS);
    uint32_t unknown = world_post(world, "/v1/nothing", "{}");
    uint32_t long_one = ask(world, "");
    report_finished(world, 1, world->last_submit->request, FINISH_REFUSED_TOO_LARGE, 0);
    uint32_t held = ask(world, "");
    uint32_t second = ask(world, "");
    world_hang_up(world, held);
    world_settle(world);
    report_finished(world, 1, world->last_submit->request, FINISH_CANCELLED, 0);
    world_drain(world);
    world_settle(world);
    uint32_t late = ask(world, "");
    assert_int_equal(entry_of(world, broken)->http_status, 400);
    assert_end(world, get, 405, "method_not_allowed", false);
    assert_null(world->clients[unknown].usage);
    assert_end(world, long_one, 400, "context_length_exceeded", false);
    assert_end(world, held, 499, "client_gone", true);

    assert_end(world, second, 429, "queue_full", false);
    assert_end(world, late, 503, "draining", false);
    close_empty(world);
}

/* A unit's FINISHED of a prompt that it has computed in part, `found` tokens of it in a cache. */
static void report_stopped(struct world *world, uint32_t unit, struct request_id id, uint32_t found,
                           uint32_t computed) {
    struct record_finished *record = make_finished(id, FINISH_CANCELLED, 0);
    record->work.prompt_hit_tokens = found;
    record->work.prompt_miss_tokens = 3 - found;
    record->work.device_tokens = found;
    record->work.computed_tokens = computed;
    if (found + computed == 0) record->work.queue_ns = -1; /* it never ran */
    report(world, unit, record);
}

static void assert_booked(const struct world *world, uint32_t client, uint32_t hit, uint32_t miss) {
    assert_end(world, client, 499, "client_gone", true);
    assert_int_equal(entry_of(world, client)->hit_tokens, hit);
    assert_int_equal(entry_of(world, client)->miss_tokens, miss);
}

TEST(who_leaves_in_mid_prompt_pays_for_what_was_computed) {
    for (uint32_t found = 0; found <= 1; found++)
        for (uint32_t computed = 0; found + computed <= 3; computed++) {
            struct world *world = open_with(1, (struct gateway_options){0});
            uint32_t client = ask(world, "");
            world_hang_up(world, client);
            world_settle(world);
            report_stopped(world, 1, world->last_submit->request, found, computed);
            assert_booked(world, client, found, computed);
            close_empty(world);
        }
}

/* Of two answers to one prompt: what the one that came further has of it, whichever ends first. */
TEST(a_prompt_of_several_answers_is_paid_for_once) {
    for (uint32_t late = 0; late < 2; late++) {
        struct world *world = open_with(1, (struct gateway_options){0});
        uint32_t client = ask(world, ",\"n\":2");
        struct request_id second = world->last_submit->request, first = second;
        first.low--;
        world_hang_up(world, client);
        world_settle(world);
        if (!late) report_stopped(world, 1, first, 0, 1);
        report_stopped(world, 1, second, 1, 1);
        if (late) report_stopped(world, 1, first, 0, 1);
        assert_booked(world, client, 1, 1);
        close_empty(world);
    }
}

/* Whichever of the two units says FINISHED first: the prompt's work belongs to the account, and so
 * do its unit's books. */
TEST(who_leaves_pays_the_unit_that_computes_prompts_alone) {
    enum { COMPUTES = 1, ANSWERS = 2 };
    for (uint32_t late = 0; late < 2; late++) {
        struct world *world = open_empty((struct gateway_options){0});
        join_as(world, COMPUTES, UNIT_PREFILL);
        join_as(world, ANSWERS, UNIT_DECODE);
        uint32_t client = ask(world, "");
        struct request_id id = world->last_submit->request;
        report_reserved(world, ANSWERS, id);
        world_hang_up(world, client);
        world_settle(world);
        if (!late) report_stopped(world, COMPUTES, id, 1, 1);
        report_stopped(world, ANSWERS, id, 0, 0);
        if (late) assert_int_equal(gateway_request_count(world->gateway), 1);
        if (late) report_stopped(world, COMPUTES, id, 1, 1);
        assert_booked(world, client, 1, 1);
        assert_int_equal(entry_of(world, client)->computed_tokens, 1);
        close_empty(world);
    }
}

/* The prompt's unit has still to say what it did, though nobody would have made the answer. */
TEST(who_leaves_pays_for_a_prompt_whose_answers_unit_is_lost) {
    enum { COMPUTES = 1, ANSWERS = 2 };
    for (uint32_t both = 0; both < 2; both++) {
        struct world *world = open_empty((struct gateway_options){0});
        join_as(world, COMPUTES, UNIT_PREFILL);
        join_as(world, ANSWERS, UNIT_DECODE);
        uint32_t client = ask(world, "");
        struct request_id id = world->last_submit->request;
        report_reserved(world, ANSWERS, id);
        world_hang_up(world, client);
        world_settle(world);
        lose(world, ANSWERS);
        assert_int_equal(gateway_request_count(world->gateway), 1);
        gateway_audit(world->gateway);
        if (both) lose(world, COMPUTES); /* and with it what it did */
        if (!both) report_stopped(world, COMPUTES, id, 1, 1);
        assert_booked(world, client, !both, !both);
        close_empty(world);
    }
}

/* Nobody had been asked to compute the prompt. */
TEST(who_leaves_before_pages_are_reserved_pays_nothing) {
    struct world *world = open_empty((struct gateway_options){0});
    join_as(world, 1, UNIT_PREFILL);
    join_as(world, 2, UNIT_DECODE);
    uint32_t client = ask(world, "");
    world_hang_up(world, client);
    world_settle(world);
    report_stopped(world, 2, world->last_submit->request, 0, 0);
    assert_booked(world, client, 0, 0);
    close_empty(world);
}

/* It is told so in its stream, which had begun. */
TEST(a_stream_that_fails_has_begun) {
    struct world *world = open_with(1, (struct gateway_options){.drain_ns = SECOND});
    uint32_t client = ask(world, STREAM);
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 2);
    world_drain(world);
    world_settle(world);
    world->now_ns += SECOND;
    world_settle(world);
    report_finished(world, 1, id, FINISH_CANCELLED, 2);
    assert_end(world, client, 200, "draining", false);
    assert_int_equal(entry_of(world, client)->made_tokens, 2);
    lose(world, 1);
    close_empty(world);
}

/* ---- behind a ledger ---- */

static struct world *open_behind(uint32_t requests_max) {
    struct world *world =
        open_with(1, (struct gateway_options){.settles = true, .requests_max = requests_max});
    world->ledger_sleeps = true;
    return world;
}

static bool has_said(const struct world *world, uint32_t client, const char *text) {
    return world->clients[client].data && strstr(world->clients[client].data, text);
}

static struct request_id answer(struct world *world) {
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    return id;
}

TEST(the_end_of_an_answer_waits_until_it_is_written_down) {
    struct world *world = open_behind(16);
    uint32_t whole = ask(world, "");
    answer(world);
    uint32_t stream = ask(world, STREAM);
    answer(world);
    assert_int_equal(entry_of(world, stream)->sequence, 2);
    assert_null(world->clients[whole].data);
    assert_true(has_said(world, stream, "16")); /* no token waits */
    assert_false(has_said(world, stream, "\"finish_reason\":\"length\""));
    assert_int_equal(gateway_request_count(world->gateway), 2);
    world_settle_entries(world, 1);
    world_settle(world);
    assert_ids(world, whole, ids, 6);
    assert_false(world->clients[stream].ended);
    world_settle_entries(world, 2);
    world_settle(world);
    assert_true(world->clients[stream].ended);
    assert_true(has_said(world, stream, "\"finish_reason\":\"length\""));
    assert_true(has_said(world, stream, "\"completion_tokens\":6"));
    assert_true(has_said(world, stream, "[DONE]"));
    close_empty(world);
}

/* Its first choice's end is no end of the answer. */
TEST(all_choices_wait_for_one_entry) {
    struct world *world = open_behind(16);
    uint32_t client = ask(world, STREAM ",\"n\":2");
    struct request_id second = world->last_submit->request, first = second;
    first.low--;
    report_tokens(world, 1, second, 0, ids, 6);
    report_finished(world, 1, second, FINISH_LENGTH, 6);
    assert_null(world->clients[client].usage);
    assert_true(has_said(world, client, "\"finish_reason\":\"length\""));
    report_tokens(world, 1, first, 0, ids, 6);
    report_finished(world, 1, first, FINISH_LENGTH, 6);
    assert_false(has_said(world, client, "\"usage\":{"));
    assert_int_equal(entry_of(world, client)->output_tokens, 12);
    assert_int_equal(entry_of(world, client)->choices, 2);
    world_settle_entries(world, 1);
    world_settle(world);
    assert_true(has_said(world, client, "[DONE]"));
    close_empty(world);
}

TEST(who_waits_for_the_ledger_gets_signs_and_may_leave) {
    struct world *world = open_behind(16);
    const struct machine *machine = &world->gateway_machine;
    uint32_t stays = ask(world, STREAM);
    answer(world);
    uint32_t leaves = ask(world, STREAM);
    answer(world);
    assert_false(has_said(world, stays, ": keep-alive"));
    world->now_ns = machine->next_wake_ns(machine->self);
    world_settle(world);
    assert_true(has_said(world, stays, ": keep-alive"));
    world_hang_up(world, leaves);
    world_settle(world);
    assert_int_equal(gateway_request_count(world->gateway), 1);
    assert_end(world, leaves, 200, "length", true); /* it is paid for */
    world_settle_entries(world, 2);
    world_settle(world);
    assert_true(world->clients[stays].ended);
    close_empty(world);
}

/* What is refused costs nothing, so nobody waits to hear of it. */
TEST(refusals_wait_for_no_ledger) {
    struct world *world = open_behind(16);
    uint32_t broken = world_post(world, COMPLETIONS, "{");
    uint32_t large = ask(world, "");
    report_finished(world, 1, world->last_submit->request, FINISH_REFUSED_TOO_LARGE, 0);
    assert_true(world->clients[broken].ended);
    assert_refused(world, large, 400, "context_length_exceeded");
    close_empty(world);
}

TEST(nothing_new_is_taken_when_the_ledger_is_far_behind) {
    enum { MOST = 3 };
    struct world *world = open_behind(MOST);
    uint32_t first = 0;
    for (uint32_t i = 0; i < MOST; i++) {
        first = ask(world, STREAM);
        answer(world);
        world_hang_up(world, first); /* its place is free, its entry is not written down */
        world_settle(world);
    }
    assert_int_equal(gateway_request_count(world->gateway), 0);
    for (uint32_t i = 0; i < 5 * MOST; i++) {
        uint32_t refused = ask(world, "");
        assert_refused(world, refused, 503, "ledger_behind");
        assert_int_equal(world->clients[refused].retry_after_seconds, 1);
    }
    world_settle_entries(world, 1);
    world_settle(world);
    uint32_t next = ask(world, "");
    answer(world);
    assert_false(world->clients[next].ended);
    world_settle_entries(world, world->entries);
    world_settle(world);
    assert_ids(world, next, ids, 6);
    close_empty(world);
}

/* The answers whose entries are written down find room one after the other. */
TEST(settled_ends_wait_for_room) {
    for (uint32_t stream = 0; stream < 2; stream++)
        for (size_t room = 32; room < 100000; room = room * 5 / 4) {
            struct world *world =
                open_with(1, (struct gateway_options){.settles = true, .outbox_bytes = 1 << 20});
            struct outbox *outbox = world->gateway_machine.outbox;
            size_t bytes = machine_envelope_bytes(RECORD_CANCEL, NULL);
            world->ledger_sleeps = true;
            uint32_t clients[3];
            for (uint32_t i = 0; i < 3; i++) {
                clients[i] = ask(world, stream ? STREAM : "");
                answer(world);
            }
            world_settle_entries(world, 3);
            while (outbox_room(outbox) >= room + bytes)
                machine_outbox_put_envelope(outbox, RECORD_TO_UNIT, (struct unit_id){9},
                                            RECORD_CANCEL, NULL);
            world_deliver_to_gateway(world);
            world_step(world);
            world_settle(world);
            for (uint32_t i = 0; i < 3; i++)
                assert_true(world->clients[clients[i]].ended);
            close_empty(world);
        }
}
