/* SPDX-License-Identifier: Apache-2.0
 * Protects the experts of dead ranks: none is left without a slot, living ranks keep what they need
 * not give up, and nothing is read that some living rank holds.
 */
#include "base/check.h"
#include "base/random.h"
#include "host/engine/reassign_experts.h"

#include "test_case.h"

#define RANKS_MAX 8
#define EXPERTS_MAX 40
#define SLOTS_MAX 128
#define NONE REBALANCE_EMPTY

static uint32_t copies[EXPERTS_MAX], reads[RANKS_MAX];

TEST(replicas_take_over_and_nothing_is_read) {
    const struct rebalance_shape shape = {.experts = 4, .ranks = 3, .slots_per_rank = 3};
    const bool lost[3] = {false, true, false};
    const uint32_t from[9] = {0, 1, 2, 0, 3, NONE, 3, 2, 1};
    const uint32_t wanted[9] = {0, 1, 2, NONE, NONE, NONE, 3, 2, 1};
    uint32_t to[9];
    assert_int_equal(reassign_experts(&shape, lost, from, copies, reads, to), 0);
    assert_memory_equal(to, wanted, sizeof to);
}

TEST(an_orphan_takes_an_empty_slot_or_a_replicas) {
    const struct rebalance_shape shape = {.experts = 4, .ranks = 3, .slots_per_rank = 2};
    const bool lost[3] = {false, false, true};
    const uint32_t from[6] = {0, 1, 2, 1, 3, NONE};
    uint32_t to[6];
    assert_int_equal(reassign_experts(&shape, lost, from, copies, reads, to), 1);
    const uint32_t wanted[6] = {0, 3, 2, 1, NONE, NONE};
    assert_memory_equal(to, wanted, sizeof to);
    const uint32_t with_room[6] = {0, 1, 2, NONE, 3, 1};
    const uint32_t fills[6] = {0, 1, 2, 3, NONE, NONE};
    assert_int_equal(reassign_experts(&shape, lost, with_room, copies, reads, to), 1);
    assert_memory_equal(to, fills, sizeof to);
}

/* Two orphans, two ranks with room: each reads one. What the memory held before says nothing. */
TEST(orphans_are_read_by_ranks_in_turn) {
    const struct rebalance_shape shape = {.experts = 4, .ranks = 3, .slots_per_rank = 3};
    const bool lost[3] = {false, false, true};
    const uint32_t from[9] = {0, NONE, NONE, 1, NONE, NONE, 2, 3, NONE};
    const uint32_t wanted[9] = {0, 2, NONE, 1, 3, NONE, NONE, NONE, NONE};
    uint32_t to[9];
    memset(copies, 1, sizeof copies);
    reads[0] = 9;
    assert_int_equal(reassign_experts(&shape, lost, from, copies, reads, to), 2);
    assert_memory_equal(to, wanted, sizeof to);
    assert_true(reads[0] == 1 && reads[1] == 1);
}

static uint32_t draw(uint32_t seed, uint32_t what, uint32_t below) {
    return (uint32_t)(random_uniform(seed, what, 0) * below);
}

static void assert_whole(const struct rebalance_shape *shape, const bool *lost,
                         const uint32_t *from, const uint32_t *to, uint32_t reported) {
    uint32_t slots = shape->ranks * shape->slots_per_rank, orphans = 0, changed = 0;
    for (uint32_t expert = 0; expert < shape->experts; expert++) {
        bool lived = false, lives = false;
        for (uint32_t slot = 0; slot < slots; slot++) {
            bool gone = lost[slot / shape->slots_per_rank];
            lived |= !gone && from[slot] == expert;
            lives |= !gone && to[slot] == expert;
        }
        assert_true(lives);
        orphans += !lived;
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        bool gone = lost[slot / shape->slots_per_rank];
        if (gone) assert_int_equal(to[slot], NONE);
        changed += !gone && to[slot] != from[slot];
    }
    assert_int_equal(reported, orphans);
    assert_int_equal(changed, orphans);
}

TEST(every_expert_lives_on_whatever_the_map) {
    for (uint32_t seed = 0; seed < 2000; seed++) {
        struct rebalance_shape shape = {.experts = 1 + draw(seed, 0, EXPERTS_MAX),
                                        .ranks = 2 + draw(seed, 1, 7)};
        uint32_t from[SLOTS_MAX], to[SLOTS_MAX], left = shape.ranks - 1;
        bool lost[RANKS_MAX] = {false};
        lost[draw(seed, 2, shape.ranks)] = true;
        if (left > 1 && draw(seed, 3, 2) && !lost[0]) lost[0] = left--;
        shape.slots_per_rank = (shape.experts + left - 1) / left + draw(seed, 4, 3);
        uint32_t slots = shape.ranks * shape.slots_per_rank;
        if (slots > SLOTS_MAX) continue;
        for (uint32_t slot = 0; slot < slots; slot++) {
            uint32_t drawn = draw(seed, 10 + slot, shape.experts + 1);
            from[slot] = drawn < shape.experts ? drawn : NONE;
        }
        for (uint32_t expert = 0; expert < shape.experts; expert++)
            from[(expert * 7 + seed) % slots] = expert; /* most experts at least once */
        assert_whole(&shape, lost, from, to,
                     reassign_experts(&shape, lost, from, copies, reads, to));
    }
}
