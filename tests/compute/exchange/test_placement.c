/* SPDX-License-Identifier: Apache-2.0
 * Protects expert placement: every expert has a slot, both directions of the map agree, all ranks
 * have the same number of slots, replicas are spread, a map without a slot for some expert is
 * rejected, and nodes are derived from hosts.
 */
#include "test_case.h"

#include "compute/exchange/placement.h"

static void check_map(uint32_t experts, uint32_t ranks, uint32_t redundant, uint64_t seed) {
    struct placement placement;
    struct error error;
    uint32_t slots_per_rank = placement_slots_per_rank(experts, ranks, redundant);
    uint32_t slots = ranks * slots_per_rank;
    assert_true(slots >= experts + redundant && slots < experts + redundant + ranks);
    assert_int_equal(placement_open(&placement, 3, experts, ranks, slots_per_rank, &error), 0);
    placement_spread(&placement, seed);
    if (placement_index(&placement, &error) != STATUS_OK) fail_msg("%s", error.text);
    for (uint32_t layer = 0; layer < 3; layer++) {
        uint32_t seen = 0;
        for (uint32_t expert = 0; expert < experts; expert++) {
            uint32_t count;
            const uint32_t *replicas = placement_replicas(&placement, layer, expert, &count);
            assert_in_range(count, slots / experts, (slots + experts - 1) / experts);
            for (uint32_t i = 0; i < count; i++, seen++) {
                if (i) assert_true(replicas[i] > replicas[i - 1]);
                uint32_t rank = replicas[i] / slots_per_rank;
                assert_int_equal(
                    placement_of_rank(&placement, layer, rank)[replicas[i] % slots_per_rank],
                    expert);
            }
        }
        assert_int_equal(seen, slots);
    }
    placement_close(&placement);
}

TEST(replicas_lie_on_different_ranks) {
    struct placement placement;
    struct error error;
    const uint32_t shapes[][3] = {
        {64, 4, 64}, {64, 3, 32}, {12, 5, 12}, {256, 32, 256}, {8, 4, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t experts = shapes[i][0], ranks = shapes[i][1];
        uint32_t each = placement_slots_per_rank(experts, ranks, shapes[i][2]);
        assert_int_equal(placement_open(&placement, 1, experts, ranks, each, &error), 0);
        placement_spread(&placement, 0);
        assert_int_equal(placement_index(&placement, &error), 0);
        for (uint32_t expert = 0; expert < experts; expert++) {
            uint32_t count;
            const uint32_t *replicas = placement_replicas(&placement, 0, expert, &count);
            for (uint32_t k = 1; k < count; k++)
                assert_true(replicas[k] / each != replicas[k - 1] / each);
        }
        placement_close(&placement);
    }
}

TEST(every_expert_has_its_slots) {
    check_map(64, 1, 0, 0);
    check_map(64, 2, 0, 7);
    check_map(64, 8, 3, 0);
    check_map(12, 144, 0, 5);
    check_map(256, 144, 32, 0);
    check_map(256, 32, 32, 9);
}

/* A rank without experts, and a layer that changed. */
TEST(empty_slots_hold_nobody_and_layers_may_change) {
    struct placement placement;
    struct error error;
    uint32_t count;
    static const uint32_t slots[2][6] = {{0, 1, PLACEMENT_EMPTY, PLACEMENT_EMPTY, 2, 1},
                                         {2, 1, 0, 1, PLACEMENT_EMPTY, PLACEMENT_EMPTY}};
    assert_int_equal(placement_open(&placement, 2, 3, 3, 2, &error), STATUS_OK);
    memcpy(placement.slot_expert, slots, sizeof slots);
    assert_int_equal(placement_index(&placement, &error), STATUS_OK);
    const uint32_t *replicas = placement_replicas(&placement, 0, 1, &count);
    assert_true(count == 2 && replicas[0] == 1 && replicas[1] == 5);
    replicas = placement_replicas(&placement, 1, 2, &count);
    assert_true(count == 1 && replicas[0] == 0);
    memcpy(placement.slot_expert + 6, slots[0], sizeof slots[0]);
    assert_int_equal(placement_index_layer(&placement, 1, &error), STATUS_OK);
    replicas = placement_replicas(&placement, 1, 2, &count);
    assert_true(count == 1 && replicas[0] == 4);
    placement.slot_expert[6] = PLACEMENT_EMPTY;
    assert_int_equal(placement_index_layer(&placement, 1, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "layer 1: expert 0"));
    placement_close(&placement);
}

TEST(maps_with_holes_are_refused) {
    struct placement placement;
    struct error error;
    assert_int_equal(placement_open(&placement, 1, 4, 2, 2, &error), STATUS_OK);
    static const uint32_t hole[4] = {0, 1, 1, 3}, outside[4] = {0, 1, 2, 4};
    memcpy(placement.slot_expert, hole, sizeof hole);
    assert_int_equal(placement_index(&placement, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "expert 2"));
    memcpy(placement.slot_expert, outside, sizeof outside);
    assert_int_equal(placement_index(&placement, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "slot 3"));
    placement_close(&placement);
}

TEST(nodes_are_reported_from_the_hosts_of_ranks) {
    static const char *const even[] = {"a", "a", "b", "b", "c", "c"};
    static const char *const some_unknown[] = {"a", "a", NULL, "b", NULL, NULL};
    static const char *const uneven[] = {"a", "a", "a", "a", "b", "b"};
    static const char *const alone[] = {"", "", "", "", "", ""};
    static const char *const all_apart[] = {"a", "b", "c", "d", "e", "f"};
    assert_int_equal(placement_node_ranks(even, 6), 2);
    assert_int_equal(placement_node_ranks(some_unknown, 6), 2);
    assert_int_equal(placement_node_ranks(uneven, 6), 6);
    assert_int_equal(placement_node_ranks(alone, 6), 6);
    assert_int_equal(placement_node_ranks(all_apart, 6), 1);
    assert_int_equal(placement_node_ranks(alone, 1), 1);
}
