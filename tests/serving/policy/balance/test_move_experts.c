/* SPDX-License-Identifier: Apache-2.0
 * Protects the plan of moves: exactly the slots that differ change, each from a slot that holds the
 * expert, of the same rank if there is one, else of the one that gives least, a rank of the same
 * node before all others; emptied slots take nothing from anybody.
 */

#include "base/random.h"
#include "serving/policy/balance/move_experts.h"
#include "test_case.h"

#define NONE EXPERT_MOVE_NOTHING

TEST(each_slot_takes_its_expert_from_the_best_giver) {
    /* ranks of two slots: 0 lies on ranks 0 and 1, 3 on 1 and 2 */
    static const uint32_t from[6] = {0, 1, 0, 3, 2, 3}, to[6] = {3, 0, 3, 0, NONE, 2};
    struct move_experts layer = {
        .layer = 7, .ranks = 3, .slots_per_rank = 2, .from = from, .to = to};
    uint32_t gives[3] = {0, 1, 0};
    struct expert_move moves[6];
    assert_int_equal(move_experts(&layer, gives, moves), 6);
    assert_true(moves[0].layer == 7 && moves[0].slot == 0 && moves[0].expert == 3);
    assert_int_equal(moves[0].from, 5); /* rank 2 has given less than rank 1 */
    assert_int_equal(moves[1].from, 0); /* its own */
    assert_int_equal(moves[2].from, 3);
    assert_int_equal(moves[3].from, 2);
    assert_int_equal(moves[4].expert, NONE);
    assert_int_equal(moves[5].from, 4);
    assert_true(gives[0] == 0 && gives[1] == 1 && gives[2] == 1);
    assert_int_equal(move_experts_to(moves, 6, 0, 2), 2);
    assert_int_equal(move_experts_to(moves, 6, 2, 2), 1);
    layer.to = from;
    assert_int_equal(move_experts(&layer, gives, moves), 0);
}

TEST(a_giver_of_the_same_node_comes_first) {
    /* nodes of two ranks of one slot; 0 lies on both nodes, 1 on the second alone */
    static const uint32_t from[4] = {0, 2, 0, 1}, to[4] = {0, 0, 1, 1};
    struct move_experts layer = {
        .ranks = 4, .slots_per_rank = 1, .node_ranks = 2, .from = from, .to = to};
    uint32_t gives[4] = {9, 0, 0, 0};
    struct expert_move moves[4];
    assert_int_equal(move_experts(&layer, gives, moves), 2);
    assert_int_equal(moves[0].from, 0); /* though rank 2 has given less */
    assert_int_equal(moves[1].from, 3);
    layer.node_ranks = 0;
    assert_int_equal(move_experts(&layer, gives, moves), 2);
    assert_int_equal(moves[0].from, 2);
}

enum { EXPERTS = 24, RANKS = 5, ROOM = 6, SLOTS = RANKS * ROOM };

static void deal(uint32_t *slots, uint64_t seed) {
    for (uint32_t i = 0; i < SLOTS; i++)
        slots[i] = i % EXPERTS;
    for (uint32_t i = SLOTS; i > 1; i--) {
        uint32_t other = (uint32_t)(random_uniform(seed, i, 0) * i), kept = slots[i - 1];
        slots[i - 1] = slots[other];
        slots[other] = kept;
    }
}

TEST(moves_make_any_map_of_any_other) {
    uint32_t from[SLOTS], to[SLOTS], then[SLOTS], gives[RANKS] = {0};
    struct expert_move moves[SLOTS];
    struct move_experts layer = {.ranks = RANKS, .slots_per_rank = ROOM, .from = from, .to = to};
    for (uint64_t seed = 1; seed < 200; seed++) {
        deal(from, seed);
        deal(to, seed + 1000);
        memcpy(then, from, sizeof then);
        uint32_t count = move_experts(&layer, gives, moves);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(from[moves[i].from], moves[i].expert);
            assert_int_not_equal(from[moves[i].slot], moves[i].expert);
            then[moves[i].slot] = moves[i].expert;
        }
        assert_memory_equal(then, to, sizeof to);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_in_range(move_experts_to(moves, count, rank, ROOM), 0, ROOM);
    }
    uint32_t least = gives[0], most = gives[0];
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        least = gives[rank] < least ? gives[rank] : least;
        most = gives[rank] > most ? gives[rank] : most;
    }
    assert_true(most - least < most / 10);
}
