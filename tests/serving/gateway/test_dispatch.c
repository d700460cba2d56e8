/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of a unit for each waiting request: requests wait for a unit, for a limited
 * time, go to it late, and go where their prompts began. A SUBMIT takes as many bytes as were
 * counted, and a full outbox changes nothing. Units are played by hand.
 */
#include "serving/gateway/dispatch.h"

#include "hands.h"
#include "serving/policy/balance/balance_units.h"
#include "test_case.h"

TEST(requests_wait_for_the_first_unit) {
    struct world *world = open_empty((struct gateway_options){0});
    uint32_t good = ask(world, ",\"n\":2");
    char body[8192] = "{\"prompt\":[5";
    for (uint32_t i = 1; i < 2048; i++)
        strcat(body, ",5");
    uint32_t long_one = world_post(world, COMPLETIONS, strcat(body, "]}"));
    uint32_t foreign = ask(world, ",\"stop_token_ids\":[9999]"), gone = ask(world, "");
    assert_int_equal(world->submits, 0);
    world_hang_up(world, gone);
    join(world, 2);
    assert_int_equal(world->submits, 2);
    assert_int_equal(world->last_unit.value, 2);
    assert_refused(world, foreign, 422, "out_of_range");
    assert_refused(world, long_one, 400, "context_length_exceeded");
    struct request_id second = world->last_submit->request, first = second;
    first.low--;
    report_tokens(world, 2, first, 0, ids, 2);
    report_tokens(world, 2, second, 0, ids + 2, 2);
    report_finished(world, 2, first, FINISH_LENGTH, 2);
    report_finished(world, 2, second, FINISH_LENGTH, 2);
    assert_ids(world, good, ids, 2);
    close_empty(world);
}

TEST(nobody_waits_for_ever) {
    struct world *world = open_empty((struct gateway_options){.unit_wait_ns = 3 * SECOND});
    const struct machine *machine = &world->gateway_machine;
    uint32_t unchecked = ask(world, "");
    assert_true(machine->next_wake_ns(machine->self) == 3 * SECOND);
    world->now_ns = 3 * SECOND;
    world_settle(world);
    assert_refused(world, unchecked, 503, "starting");
    assert_int_equal(world->clients[unchecked].retry_after_seconds, 5);
    join(world, 1);
    uint32_t whole = ask(world, ""), stream = ask(world, ",\"stream\":true");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    world->now_ns += SECOND;
    lose(world, 1);
    assert_false(world->clients[whole].ended);
    world->now_ns += 3 * SECOND - 1;
    world_settle(world);
    assert_false(world->clients[whole].ended || world->clients[stream].ended);
    assert_true(machine->next_wake_ns(machine->self) == world->now_ns + 1);
    world->now_ns++;
    world_settle(world);
    assert_refused(world, whole, 503, "starting");
    assert_true(world->clients[stream].ended); /* it had begun: an event tells */
    assert_non_null(strstr(world->clients[stream].data, "\"code\":\"starting\""));
    close_empty(world);
}

/* A unit gets no more than its next steps can want; who comes later finds work. */
TEST(binding_is_late) {
    struct world *world = open_with(1, (struct gateway_options){.requests_max = 64});
    uint32_t count = 3 * BALANCE_UNITS_WAITING;
    for (uint32_t i = 0; i < count; i++)
        ask(world, "");
    assert_int_equal(world->submits, BALANCE_UNITS_WAITING);
    report_load(world, 1, BALANCE_UNITS_WAITING - 3, 3); /* three have started */
    assert_int_equal(world->submits, BALANCE_UNITS_WAITING + 3);
    join(world, 2);
    assert_int_equal(world->submits, 2 * BALANCE_UNITS_WAITING + 3);
    assert_int_equal(world->last_unit.value, 2);
    for (uint32_t client = 0; client < count; client++)
        world_hang_up(world, client);
    world_settle(world);
    assert_int_equal(gateway_request_count(world->gateway), 2 * BALANCE_UNITS_WAITING + 3);
    lose(world, 1);
    lose(world, 2);
    close_empty(world);
}

/* What runs at a unit may be other gateways', and makes no room for more to wait there. */
TEST(others_requests_make_no_room) {
    struct world *world = open_with(1, (struct gateway_options){.requests_max = 64});
    uint32_t count = 3 * BALANCE_UNITS_WAITING;
    report_load(world, 1, 0, 12);
    for (uint32_t i = 0; i < count; i++)
        ask(world, "");
    assert_int_equal(world->submits, BALANCE_UNITS_WAITING);
    report_load(world, 1, BALANCE_UNITS_WAITING, 12);
    assert_int_equal(world->submits, BALANCE_UNITS_WAITING);
    report_load(world, 1, BALANCE_UNITS_WAITING - 3, 15);
    assert_int_equal(world->submits, BALANCE_UNITS_WAITING + 3);
    for (uint32_t client = 0; client < count; client++)
        world_hang_up(world, client);
    lose(world, 1);
    close_empty(world);
}

/* A prompt of that family: as long as two blocks and a bit, which its members share. */
static uint32_t ask_family(struct world *world, uint32_t family, uint32_t last) {
    char body[2048];
    int at = snprintf(body, sizeof body, "{\"max_tokens\":6,\"prompt\":[");
    for (uint32_t i = 0; i < 140; i++)
        at += snprintf(body + at, sizeof body - (size_t)at, "%u,", 1 + i % 50 + family);
    snprintf(body + at, sizeof body - (size_t)at, "%u]}", last);
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_settle(world);
    return client;
}

static void end_last(struct world *world) {
    uint32_t unit = world->last_unit.value;
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = world->last_submit->request;
    record->reason = FINISH_CANCELLED;
    record->work.prompt_miss_tokens = world->last_submit->prompt_count;
    report(world, unit, record);
}

/* A prompt goes where its beginning was computed, until that unit has much more to do than others,
 * or is gone; without the option, and for strangers, the emptiest takes. */
TEST(prompts_go_where_they_began) {
    for (uint32_t on = 0; on < 2; on++) {
        struct world *world = open_with(3, (struct gateway_options){.prefix_blocks = on ? 64 : 0});
        ask_family(world, 100, 1);
        assert_int_equal(world->last_unit.value, 1);
        ask_family(world, 200, 1); /* while that runs */
        assert_int_equal(world->last_unit.value, 2);
        end_last(world);
        ask_family(world, 200, 2);
        assert_int_equal(world->last_unit.value, 2);
        end_last(world);
        ask_family(world, 100, 2); /* the first one's is a little fuller */
        assert_int_equal(world->last_unit.value, on ? 1 : 2);
        uint32_t first = 0;
        for (uint32_t i = 0; i < 12; i++) { /* not everybody at once */
            ask_family(world, 100, 10 + i);
            first += world->last_unit.value == 1;
        }
        if (on) assert_in_range(first, 2, 8); /* by now others have it, too */
        lose(world, 1);
        if (on) {
            uint32_t report = world_get(world, "/debug/fleet");
            world_settle(world);
            assert_non_null(strstr(world->clients[report].data, "caches most of its prompt"));
        }
        for (uint32_t i = 0; i < world->client_count; i++)
            if (!world->clients[i].ended) world_hang_up(world, i);
        world_settle(world);
        for (uint32_t unit = 2; unit <= 3; unit++)
            lose(world, unit);
        close_empty(world);
    }
}

static struct request *request_of(struct world *world, uint32_t client) {
    return request_of_connection(world->gateway, (struct connection_id){client});
}

/* The gateway has received the client's request, and has done nothing more. */
static struct request *receive_request(struct world *world, const char *body) {
    uint32_t client = world_post(world, COMPLETIONS, body);
    while (world_deliver_to_gateway(world))
        continue;
    return request_of(world, client);
}

TEST(a_full_outbox_leaves_a_request_waiting) {
    struct world *world = open_with(1, (struct gateway_options){0});
    struct gateway *gateway = world->gateway;
    struct request *request =
        receive_request(world, "{\"prompt\":[5,6,7],\"max_tokens\":6,\"stop_token_ids\":[9,10,11],"
                               "\"logit_bias\":{\"7\":-100,\"8\":1}}");
    uint32_t bytes = (uint32_t)dispatch_submit_bytes(request), free = gateway->outbox.capacity;
    gateway->outbox.used = free - bytes + 8;
    assert_false(dispatch_run(gateway, 0));
    assert_int_equal(request->life.state, REQUEST_WAITING);
    assert_int_equal(gateway->outbox.used, free - bytes + 8);
    gateway->outbox.used = free - bytes; /* exactly enough */
    assert_true(dispatch_run(gateway, 0));
    assert_int_equal(request->life.state, REQUEST_ANSWERING);
    assert_int_equal(gateway->outbox.used, free);
    const struct record *record = (const void *)(gateway->outbox.memory + free - bytes);
    assert_true(record_valid(record, bytes));
    machine_outbox_clear(&gateway->outbox);
    lose(world, 1);
    world_hang_up(world, 0);
    world_settle(world);
    close_empty(world);
}

TEST(a_role_is_assigned_once_its_record_has_room) {
    struct world *world = open_with(1, (struct gateway_options){0});
    struct gateway *gateway = world->gateway;
    uint32_t unit = fleet_find(&gateway->fleet, (struct unit_id){1});
    gateway->outbox.used = gateway->outbox.capacity;
    assert_int_equal(dispatch_assign(gateway, unit, UNIT_DECODE), STATUS_FULL);
    assert_int_equal(gateway->fleet.units[unit].hello.role, UNIT_BOTH);
    machine_outbox_clear(&gateway->outbox);
    assert_int_equal(dispatch_assign(gateway, unit, UNIT_DECODE), STATUS_OK);
    assert_int_equal(gateway->fleet.units[unit].hello.role, UNIT_DECODE);
    world_settle(world);
    assert_int_equal(world->roles, 1);
    assert_int_equal(world->last_role, UNIT_DECODE);
    close_empty(world);
}
