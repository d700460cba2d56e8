/* SPDX-License-Identifier: Apache-2.0
 * The network of hosts alone: frames arrive in the order of sending, a machine that is cut off
 * reaches no other, and a unit waits for each of its ranks.
 */
#include "simulate/world/fleet_state.h"
#include "test_case.h"

static struct world world;

static void begin(void) {
    memset(&world, 0, sizeof world);
    world.now_ns = FLEET_SECOND;
    world.ranks = 2;
    world.hosts.dice = (struct fleet_dice){.seed = 1, .stream = 1};
}

TEST(frames_of_a_connection_keep_their_order) {
    static _Alignas(8) char memory[64 << 10];
    const struct post_message *message;
    struct arena arena;
    int64_t out_ns = 0, last_ns = 0;
    uint32_t count = 0;
    begin();
    arena_over(&arena, memory, sizeof memory);
    assert_true(post_open(&world.hosts.frames, &arena, sizeof memory / 2));
    for (uint32_t i = 0; i < 20; i++)
        fleet_network_send(&world, (struct fleet_frame){.kind = FRAME_JOIN, .rank = i}, &out_ns);
    for (size_t at = 0; (message = post_at(&world.hosts.frames, at)); at += message->bytes) {
        const struct fleet_frame *frame = (const void *)&message->record;
        assert_int_equal(frame->rank, count++);
        assert_true(message->due_ns > world.now_ns && message->due_ns >= last_ns);
        last_ns = message->due_ns;
    }
    assert_int_equal(count, 20);
    assert_true(last_ns == out_ns);
}

TEST(a_machine_that_is_cut_off_reaches_only_itself) {
    begin();
    world.hosts.machines[1].off_ns = 2 * FLEET_SECOND;
    world.hosts.cut_ns[0][2] = 3 * FLEET_SECOND;
    assert_int_equal(fleet_network_cut_ns(&world, 0, 1), 2 * FLEET_SECOND);
    assert_int_equal(fleet_network_cut_ns(&world, 0, 2), 3 * FLEET_SECOND);
    assert_int_equal(fleet_network_cut_ns(&world, 1, 1), 0);
    assert_int_equal(fleet_network_cut_ns(&world, 0, 3), 0);
    world.now_ns = 3 * FLEET_SECOND;
    assert_int_equal(fleet_network_cut_ns(&world, 0, 2), 0);
}

/* A unit of two ranks on one host. */
TEST(a_unit_waits_for_a_rank_that_stands_still_or_ends) {
    struct fleet_agent *agent = &world.hosts.agents[0][0][0];
    begin();
    world.hosts.present = world.hosts.supervised_units[0].serves = true;
    world.hosts.part_count[0] = 1;
    world.hosts.ranks_of[0][0] = 2;
    agent->alive = agent->processes[0].alive = agent->processes[1].alive = true;
    assert_false(fleet_network_holds(&world, 0));
    agent->processes[1].stopped_ns = 2 * FLEET_SECOND;
    assert_true(fleet_network_holds(&world, 0));
    world.now_ns = 2 * FLEET_SECOND;
    assert_false(fleet_network_holds(&world, 0));
    agent->processes[0].end_ns = agent->processes[1].end_ns = MACHINE_NEVER;
    fleet_network_finish(&world, 0);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_true(agent->processes[rank].end_ns <= world.now_ns + 50 * FLEET_MS);
    agent->processes[1].alive = false;
    assert_true(fleet_network_holds(&world, 0));
    assert_null(fleet_network_process(&world.hosts, 0, 1));
}
