/* SPDX-License-Identifier: Apache-2.0
 * However an answer ends, its client is told so once: when the outbox was full at first, when the
 * server ends meanwhile, when the account is still open. What clients see of each finish reason is
 * in test_gateway.c.
 */
#include "serving/gateway/request_finish.h"

#include "base/check.h"
#include "hands.h"
#include "test_case.h"

enum { FIRST = 1, SECOND_UNIT = 2, NOBODY = 3 };

/* ---- a full outbox ---- */

/* Of CANCELs for a unit that has nothing: they leave so many bytes. */
static void fill_outbox(struct world *world, size_t room) {
    struct outbox *outbox = world->gateway_machine.outbox;
    size_t bytes = machine_envelope_bytes(RECORD_CANCEL, NULL);
    while (outbox_room(outbox) >= room + bytes)
        machine_outbox_put_envelope(outbox, RECORD_TO_UNIT, (struct unit_id){NOBODY}, RECORD_CANCEL,
                                    NULL);
}

/* FINISHED comes while the outbox has so much room left. */
static void finish_in(struct world *world, size_t room, uint32_t unit, struct request_id id,
                      enum finish_reason reason, uint32_t count) {
    world->speaker.value = unit;
    world_report_gateway(world, make_finished(id, reason, count));
    fill_outbox(world, room);
    world_deliver_to_gateway(world);
    world_settle(world);
}

static uint32_t count_of(const char *text, const char *what) {
    uint32_t count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

static uint32_t end_alone(size_t room, bool stream) {
    struct world *world = open_with(1, (struct gateway_options){.outbox_bytes = 1 << 20});
    uint32_t client = ask(world, stream ? ",\"stream\":true" : "");
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 6);
    finish_in(world, room, 1, id, FINISH_LENGTH, 6);
    uint32_t fulls = world->fulls;
    assert_true(world->clients[client].ended);
    assert_int_equal(count_of(world->clients[client].data, "\"finish_reason\":\"length\""), 1);
    if (!stream) assert_ids(world, client, ids, 6);
    close_empty(world);
    return fulls;
}

/* The second of two fails, and with it the first one's answer. */
static uint32_t end_failed(size_t room, bool stream) {
    struct world *world = open_with(1, (struct gateway_options){.outbox_bytes = 1 << 20});
    uint32_t client = ask(world, stream ? ",\"n\":2,\"stream\":true" : ",\"n\":2");
    struct request_id second = world->last_submit->request, first = second;
    first.low--;
    report_tokens(world, 1, first, 0, ids, 6);
    report_finished(world, 1, first, FINISH_LENGTH, 6);
    finish_in(world, room, 1, second, FINISH_REFUSED_TOO_LARGE, 0);
    uint32_t fulls = world->fulls;
    assert_true(world->clients[client].ended);
    assert_int_equal(count_of(world->clients[client].data, "context_length_exceeded"), 1);
    close_empty(world);
    return fulls;
}

/* The answer is over with its first token, which the unit that computed the prompt has said. */
static uint32_t end_shared(size_t room, bool stream) {
    struct world *world = open_empty((struct gateway_options){.outbox_bytes = 1 << 20});
    join_as(world, FIRST, UNIT_PREFILL);
    join_as(world, SECOND_UNIT, UNIT_DECODE);
    uint32_t client = ask(world, stream ? ",\"stop_token_ids\":[11],\"stream\":true"
                                        : ",\"stop_token_ids\":[11]");
    struct request_id id = world->last_submit->request;
    struct record_reserved *record = make(RECORD_RESERVED, NULL);
    record->request = id;
    report(world, SECOND_UNIT, record);
    report_tokens(world, FIRST, id, 0, ids, 1);
    finish_in(world, room, FIRST, id, FINISH_STOP_TOKEN, 1);
    uint32_t fulls = world->fulls;
    assert_true(world->clients[client].ended);
    assert_int_equal(count_of(world->clients[client].data, "\"finish_reason\":\"stop\""), 1);
    assert_true(world->cancelled_at & 1u << SECOND_UNIT); /* its pages are wanted back */
    close_empty(world);
    return fulls;
}

/* FINISHED is either taken, or left to come again. */
TEST(an_end_waits_for_room) {
    static uint32_t (*const ways[])(size_t, bool) = {end_alone, end_failed, end_shared};
    for (size_t way = 0; way < ARRAY_COUNT(ways); way++)
        for (uint32_t stream = 0; stream < 2; stream++) {
            uint32_t fulls = 0, count = 0;
            for (size_t room = 32; room < 100000; room = room * 5 / 4, count++)
                fulls += ways[way](room, stream);
            assert_true(fulls > 2 && fulls < count); /* some had room */
        }
}

/* ---- an answer whose account is open ---- */

/* All of it has come, and the unit that computed its prompt has not said FINISHED. */
static struct world *open_answered(const char *more, uint32_t *client_out,
                                   struct request_id *id_out) {
    struct world *world = open_empty((struct gateway_options){.drain_ns = 30 * SECOND});
    join_as(world, FIRST, UNIT_PREFILL);
    join_as(world, SECOND_UNIT, UNIT_DECODE);
    *client_out = ask(world, more);
    *id_out = world->last_submit->request;
    struct record_reserved *record = make(RECORD_RESERVED, NULL);
    record->request = *id_out;
    report(world, SECOND_UNIT, record);
    report_tokens(world, FIRST, *id_out, 0, ids, 1);
    report_tokens(world, SECOND_UNIT, *id_out, 1, ids + 1, 5);
    report_finished(world, SECOND_UNIT, *id_out, FINISH_LENGTH, 6);
    assert_false(world->clients[*client_out].ended);
    return world;
}

TEST(what_an_ended_unit_still_says_goes_unheard) {
    uint32_t client;
    struct request_id id;
    struct world *world = open_answered("", &client, &id);
    report_tokens(world, SECOND_UNIT, id, 5, ids, 1);
    report_finished(world, SECOND_UNIT, id, FINISH_FAILED, 6);
    assert_false(world->clients[client].ended);
    assert_int_equal(world->submits, 2);
    report_finished(world, FIRST, id, FINISH_HANDED_OVER, 1);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

TEST(a_client_may_leave_while_the_account_is_open) {
    uint32_t client;
    struct request_id id;
    struct world *world = open_answered(",\"stream\":true", &client, &id);
    world_hang_up(world, client);
    world_settle(world);
    assert_true(world->cancelled_at & 1u << FIRST);
    assert_int_equal(gateway_request_count(world->gateway), 1);
    report_finished(world, FIRST, id, FINISH_CANCELLED, 1);
    close_empty(world);
}

/* ---- a server that ends ---- */

/* Its unit is lost meanwhile, and no other is going to come. */
TEST(a_lost_unit_s_requests_end_with_the_gateway) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"stream\":true");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    world_drain(world);
    world_settle(world);
    assert_false(world->clients[client].ended);
    lose(world, 1);
    assert_true(world->clients[client].ended);
    assert_non_null(strstr(world->clients[client].data, "\"code\":\"draining\""));
    close_empty(world);
}

TEST(what_outlasts_the_drain_is_ended) {
    struct world *world = open_with(1, (struct gateway_options){.drain_ns = 30 * SECOND});
    const struct machine *machine = &world->gateway_machine;
    uint32_t quick = ask(world, ",\"stream\":true");
    struct request_id first = world->last_submit->request;
    uint32_t stream = ask(world, ",\"stream\":true");
    struct request_id second = world->last_submit->request;
    uint32_t whole = ask(world, ",\"n\":2");
    struct request_id last = world->last_submit->request;
    report_tokens(world, 1, second, 0, ids, 2);
    world->now_ns = SECOND;
    world_drain(world);
    world_settle(world);
    world->now_ns += 10 * SECOND;
    report_tokens(world, 1, first, 0, ids, 6);
    report_finished(world, 1, first, FINISH_LENGTH, 6);
    assert_non_null(strstr(world->clients[quick].data, "\"finish_reason\":\"length\""));
    while (machine->next_wake_ns(machine->self) < 31 * SECOND) { /* keep-alives */
        world->now_ns = machine->next_wake_ns(machine->self);
        world_settle(world);
    }
    assert_true(machine->next_wake_ns(machine->self) == 31 * SECOND);
    assert_int_equal(world->cancels, 0);
    world->now_ns = 31 * SECOND;
    world_settle(world);
    assert_int_equal(world->cancels, 3);
    assert_true(machine->next_wake_ns(machine->self) > world->now_ns); /* once */
    report_finished(world, 1, second, FINISH_CANCELLED, 2);
    assert_non_null(strstr(world->clients[stream].data, "\"code\":\"draining\""));
    report_finished(world, 1, last, FINISH_CANCELLED, 0);
    last.low--;
    report_finished(world, 1, last, FINISH_CANCELLED, 0);
    assert_refused(world, whole, 503, "draining");
    lose(world, 1);
    close_empty(world);
}
