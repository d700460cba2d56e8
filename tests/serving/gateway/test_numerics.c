/* SPDX-License-Identifier: Apache-2.0
 * A fleet that is renewed by units that compute otherwise: no answer, no client's answers together,
 * and no prompt's blocks are of two numerics; what has begun goes on among its own, or ends with a
 * reason.
 */

#include "base/tree.h"
#include "hands.h"
#include "serving/gateway/gateway_state.h"
#include "test_case.h"

static void join_of(struct world *world, uint32_t unit, const char *numerics) {
    world_join(world, unit);
    say_hello(world, unit, numerics);
}

static void assert_fingerprint(struct world *world, uint32_t client, const char *expected) {
    struct bytes reported = {0};
    assert_true(
        tree_get_string(tree_member(read_body(world, client), "system_fingerprint"), &reported));
    if (!bytes_equal(reported, bytes_of(expected)))
        fail_msg("%.*s", (int)reported.count, reported.data);
}

TEST(what_has_begun_goes_on_among_its_own) {
    struct world *world = open_empty((struct gateway_options){0});
    join_of(world, 1, "old.v1");
    uint32_t client = ask(world, "");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    join_of(world, 2, "new.v1");
    lose(world, 1);
    assert_int_equal(world->submits, 1); /* unit 2 is empty, and not asked */
    uint32_t other = ask(world, "");
    assert_int_equal(world->last_unit.value, 2);
    report_tokens(world, 2, world->last_submit->request, 0, ids + 1, 5);
    report_finished(world, 2, world->last_submit->request, FINISH_LENGTH, 5);
    join_of(world, 3, "old.v1");
    assert_int_equal(world->last_unit.value, 3);
    assert_int_equal(world->last_submit->resumed_count, 2);
    report_tokens(world, 3, world->last_submit->request, 2, ids + 2, 4);
    report_finished(world, 3, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    assert_ids(world, other, ids + 1, 5);
    assert_fingerprint(world, client, "fathom-0.1.0-old.v1");
    assert_fingerprint(world, other, "fathom-0.1.0-new.v1");
    close_empty(world);
}

/* Nothing of it has come yet: it is as if it were asked for the first time. */
TEST(what_has_not_begun_goes_anywhere) {
    struct world *world = open_empty((struct gateway_options){0});
    join_of(world, 1, "old.v1");
    uint32_t client = ask(world, "");
    join_of(world, 2, "new.v1");
    lose(world, 1);
    assert_int_equal(world->last_unit.value, 2);
    report_tokens(world, 2, world->last_submit->request, 0, ids, 6);
    report_finished(world, 2, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    assert_fingerprint(world, client, "fathom-0.1.0-new.v1");
    close_empty(world);
}

TEST(what_has_begun_ends_where_none_of_its_own_comes) {
    struct world *world = open_empty((struct gateway_options){.unit_wait_ns = 3 * SECOND});
    const struct machine *machine = &world->gateway_machine;
    join_of(world, 1, "old.v1");
    uint32_t whole = ask(world, ""), stream;
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    stream = ask(world, ",\"stream\":true");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 2);
    join_of(world, 2, "new.v1");
    lose(world, 1);
    world->now_ns += 3 * SECOND - 1;
    world_settle(world);
    assert_false(world->clients[whole].ended || world->clients[stream].ended);
    assert_true(machine->next_wake_ns(machine->self) == world->now_ns + 1);
    world->now_ns++;
    world_settle(world);
    assert_refused(world, whole, 503, "numerics_gone");
    assert_true(world->clients[stream].ended);
    assert_non_null(strstr(world->clients[stream].data, "\"code\":\"numerics_gone\""));
    assert_int_equal(world->submits, 2);
    close_empty(world);
}

/* Answers of one request say one fingerprint. */
TEST(a_client_s_answers_are_of_one_numerics) {
    struct world *world = open_empty((struct gateway_options){0});
    join_of(world, 1, "old.v1");
    join_of(world, 2, "new.v1");
    world_post(world, COMPLETIONS, "{\"prompt\":[[5,6,7],[8,9]],\"n\":3,\"max_tokens\":6}");
    world_settle(world);
    assert_int_equal(world->submits, 6);
    assert_int_equal(world->submits_to[1] * world->submits_to[2], 0);
    uint32_t first = world->last_unit.value;
    join_of(world, 3, first == 1 ? "old.v1" : "new.v1");
    lose(world, first); /* none has begun, but all go on together */
    assert_int_equal(world->submits, 12);
    assert_true(world->submits_to[3] == 6 || world->submits_to[3 - first] == 6);
    world_hang_up(world, 0);
    lose(world, 3);
    lose(world, 3 - first);
    close_empty(world);
}

/* Two units share a request only if they read each other's blocks. */
TEST(prompts_and_answers_are_of_one_numerics) {
    struct world *world = open_empty((struct gateway_options){0});
    join_with(world, 1, UNIT_PREFILL, "old.v1");
    join_with(world, 2, UNIT_DECODE, "new.v1");
    uint32_t client = ask(world, "");
    assert_int_equal(world->last_submit->task, SUBMIT_ANSWER);
    report_tokens(world, world->last_unit.value, world->last_submit->request, 0, ids, 6);
    report_finished(world, world->last_unit.value, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    join_with(world, 3, UNIT_DECODE, "old.v1");
    for (uint32_t i = 0; i < 4; i++) {
        ask(world, "");
        assert_int_equal(world->last_submit->task, SUBMIT_RESERVE);
        assert_int_equal(world->last_unit.value, 3);
        report_reserved(world, 3, world->last_submit->request);
        assert_int_equal(world->last_submit->task, SUBMIT_PREFILL);
        assert_int_equal(world->last_unit.value, 1);
    }
    join_with(world, 4, UNIT_PREFILL, "new.v1"); /* now either can: the emptier one is asked */
    ask(world, "");
    assert_int_equal(world->last_unit.value, 2);
    report_reserved(world, 2, world->last_submit->request);
    assert_int_equal(world->last_unit.value, 4);
    for (uint32_t at = 1; at < 6; at++)
        world_hang_up(world, at);
    for (uint32_t unit = 1; unit < 5; unit++)
        lose(world, unit);
    close_empty(world);
}

/* What one has computed is worth nothing to others, though they read the same storage. */
TEST(hits_are_of_one_numerics) {
    struct world *world = open_empty((struct gateway_options){.prefix_blocks = 1024});
    char body[2048] = "{\"max_tokens\":2,\"prompt\":[5";
    for (uint32_t i = 1; i < 300; i++)
        strcat(body, ",5");
    strcat(body, "]}");
    join_of(world, 1, "old.v1");
    world_post(world, COMPLETIONS, body);
    world_settle(world);
    join_of(world, 2, "new.v1");
    join_of(world, 3, "old.v1");
    world_post(world, "/debug/fleet/drain", "{\"unit\":1}");
    world_settle(world);
    report_load(world, 2, 0, 0);
    report_load(world, 3, 0, 1); /* has a little more to do, but can load the prompt */
    world_post(world, COMPLETIONS, body);
    world_settle(world);
    assert_int_equal(world->last_unit.value, 3);
    world_hang_up(world, 0);
    world_hang_up(world, 2);
    lose(world, 1);
    lose(world, 3);
    close_empty(world);
}

TEST(metrics_name_what_is_served) {
    struct world *world = open_empty((struct gateway_options){0});
    join_of(world, 1, "old.v1");
    join_of(world, 2, "new.v1");
    uint32_t both = world_get(world, "/metrics");
    world_settle(world);
    assert_non_null(strstr(world->clients[both].data, "numerics=\"old.v1\"} 1\n"));
    assert_non_null(strstr(world->clients[both].data, "numerics=\"new.v1\"} 1\n"));
    lose(world, 1);
    uint32_t one = world_get(world, "/metrics");
    world_settle(world);
    assert_null(strstr(world->clients[one].data, "old.v1"));
    assert_non_null(strstr(world->clients[one].data, "numerics=\"new.v1\"} 1\n"));
    close_empty(world);
}

/* A gateway remembers so many; the next unit is refused, until the fleet begins anew. */
TEST(numerics_are_bounded) {
    struct world *world = open_empty((struct gateway_options){0});
    char numerics[16];
    uint32_t unit = 1;
    join_of(world, unit, "v0");
    uint32_t client = ask(world, "");
    for (uint32_t i = 1; i < 64; i++) {
        snprintf(numerics, sizeof numerics, "v%u", i);
        join_of(world, ++unit, numerics);
        lose(world, unit);
    }
    join_of(world, ++unit, "one more");
    const struct fleet *fleet = &world->gateway->fleet;
    uint32_t refused = fleet_find(fleet, (struct unit_id){unit});
    assert_int_equal(fleet->units[refused].state, FLEET_REFUSED);
    assert_in_range(fleet->units[refused].numerics, 0, FLEET_NUMERICS_MAX - 1); /* sets are bits */
    lose(world, 1);
    assert_int_equal(world->submits, 1);
    world_hang_up(world, client);
    world_settle(world);
    join_of(world, ++unit, "one more");
    ask(world, "");
    assert_int_equal(world->last_unit.value, unit);
    lose(world, unit);
    world_hang_up(world, client + 1);
    world_settle(world);
    close_empty(world);
}
