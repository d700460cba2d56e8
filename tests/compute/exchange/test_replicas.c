/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of replicas: from the same counts every rank computes the same split of an
 * expert's tokens; replicas that are not balanced take turns. It needs no exchange and no second
 * process.
 */
#include "compute/exchange/replicas.h"

#include "test_case.h"

#define RANKS 2
#define EXPERTS 3
#define SLOTS_EACH 2
#define PAIRS 6

/* Expert 0 has a replica on each rank, 1 lies on rank 0, 2 on rank 1. */
static const uint32_t map[RANKS * SLOTS_EACH] = {0, 1, 0, 2};
/* Rank 0's tokens want expert 1 often, so rank 1 has to take expert 0's tokens; one pair a token.
 */
static const uint32_t chosen[RANKS][PAIRS] = {{1, 1, 1, 0, 0, 0}, {0, 1, 1, 2, 0, 1}};

static struct placement placement;
static struct replicas ranks[RANKS];

static int open_ranks(void **state) {
    struct error error;
    if (placement_open(&placement, 1, EXPERTS, RANKS, SLOTS_EACH, &error)) return 1;
    memcpy(placement.slot_expert, map, sizeof map);
    if (placement_index(&placement, &error)) return 1;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (replicas_open(&ranks[rank], &placement, rank, &error)) return 1;
    return 0;
}

static int close_ranks(void **state) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        replicas_close(&ranks[rank]);
    placement_close(&placement);
    return 0;
}

/* Pairs that come to each slot, from all ranks. */
static void place_all(uint32_t *taken /* [RANKS * SLOTS_EACH] */) {
    memset(taken, 0, RANKS * SLOTS_EACH * sizeof *taken);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t pair = 0; pair < PAIRS; pair++) {
            uint32_t slot = replicas_next(&ranks[rank], 0, chosen[rank][pair], pair);
            assert_int_equal(map[slot], chosen[rank][pair]);
            taken[slot]++;
        }
}

TEST(ranks_split_a_batch_alike) {
    uint32_t taken[RANKS * SLOTS_EACH];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_true(replicas_begin(&ranks[rank], 0, chosen[rank], PAIRS, true));
    for (uint32_t to = 0; to < RANKS; to++) { /* what a carrier does */
        for (uint32_t from = 0; from < RANKS; from++)
            memcpy(ranks[to].all + from * EXPERTS, ranks[from].own,
                   EXPERTS * sizeof *ranks[to].all);
        replicas_split(&ranks[to], 0);
    }
    place_all(taken);
    for (uint32_t slot = 0; slot < RANKS * SLOTS_EACH; slot++)
        assert_int_equal(taken[slot], ranks[0].takes[slot]);
    assert_int_equal(taken[0] + taken[1], PAIRS); /* 12 pairs: 6 each, which turns would not give */
    assert_int_equal(taken[2] + taken[3], PAIRS);
}

TEST(replicas_that_are_not_split_take_turns) {
    uint32_t taken[RANKS * SLOTS_EACH];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_false(replicas_begin(&ranks[rank], 0, chosen[rank], PAIRS, false));
    place_all(taken);
    assert_int_equal(taken[0],
                     1); /* of tokens 3, 4, 5 on rank 0 and 0, 4 on rank 1: (token + rank) even */
    assert_int_equal(taken[2], 4);
}

TEST_GROUP(open_ranks, close_ranks)
