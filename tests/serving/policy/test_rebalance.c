/* SPDX-License-Identifier: Apache-2.0
 * Protects the decision to move experts: a new map is whole, no worse, and says its moves rightly;
 * masked ranks end up empty and the others cover, if they can, with as many redundant experts as
 * the refusal says; and a new map needs its gain twice, some knowledge, and a rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "serving/policy/rebalance.h"

enum { EXPERTS = 64, RANKS = 8, ROOM = 10, SLOTS = RANKS * ROOM };

static const struct rebalance_shape shape = {EXPERTS, RANKS, ROOM};
static uint64_t loads[EXPERTS];
static void *memory;

static void draw_loads(uint64_t seed) {
    for (uint32_t e = 0; e < EXPERTS; e++) {
        double u = random_uniform(seed, e, 3);
        loads[e] = (uint64_t)(10 + 4000 * u * u * u * u);
    }
}

static void deal(uint32_t *slots) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < ROOM; i++)
            slots[rank * ROOM + i] = (i * RANKS + rank) % EXPERTS;
}

static uint32_t check_map(const bool *masked, const uint32_t *from, const uint32_t *to) {
    uint32_t seen[EXPERTS] = {0}, moves = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (masked[slot / ROOM]) {
            assert_int_equal(to[slot], REBALANCE_EMPTY);
            continue;
        }
        assert_in_range(to[slot], 0, EXPERTS - 1);
        seen[to[slot]]++;
        moves += to[slot] != from[slot];
    }
    for (uint32_t e = 0; e < EXPERTS; e++)
        assert_true(seen[e] > 0);
    return moves;
}

static void a_new_map_is_whole_and_no_worse(void **state) {
    static const bool nobody[RANKS];
    uint32_t from[SLOTS], to[SLOTS], again[SLOTS];
    struct rebalance_gain gain, second;
    for (uint64_t seed = 1; seed < 60; seed++) {
        draw_loads(seed);
        deal(from);
        rebalance_layer(&shape, loads, nobody, from, memory, to, &gain);
        assert_int_equal(check_map(nobody, from, to), gain.moves);
        assert_true(gain.after <= gain.before && gain.after >= gain.mean * 0.999 && !gain.forced);
        rebalance_layer(&shape, loads, nobody, to, memory, again, &second);
        assert_true(second.before == gain.after && second.moves == 0);
    }
}

/* Rank 2 goes, and comes back. */
static void masked_ranks_end_up_empty_and_come_back(void **state) {
    static const bool masked[RANKS] = {[2] = true}, nobody[RANKS];
    uint32_t from[SLOTS], to[SLOTS], back[SLOTS];
    struct rebalance_gain gain;
    assert_true(rebalance_fits(&shape, masked));
    for (uint64_t seed = 1; seed < 60; seed++) {
        draw_loads(seed);
        deal(from);
        rebalance_layer(&shape, loads, masked, from, memory, to, &gain);
        assert_int_equal(check_map(masked, from, to), gain.moves);
        assert_true(gain.forced);
        rebalance_layer(&shape, loads, masked, to, memory, back, &gain);
        assert_false(gain.forced);
        rebalance_layer(&shape, loads, nobody, to, memory, back, &gain);
        assert_int_equal(check_map(nobody, to, back), gain.moves);
        assert_true(gain.forced && gain.moves >= ROOM);
    }
}

/* As the placement makes slots from redundant experts. */
static uint32_t slots_per_rank(uint32_t experts, uint32_t ranks, uint32_t redundant) {
    return (experts + redundant + ranks - 1) / ranks;
}

static void the_refusal_says_how_many_redundant_experts_suffice(void **state) {
    bool masked[12] = {0};
    for (uint32_t ranks = 2; ranks <= 12; ranks++)
        for (uint32_t gone = 1; gone < ranks; gone++)
            for (uint32_t experts = 12; experts < 60; experts++) {
                for (uint32_t rank = 0; rank < ranks; rank++)
                    masked[rank] = rank < gone;
                struct rebalance_shape some = {experts, ranks, 0};
                uint32_t redundant = rebalance_redundancy(&some, gone);
                some.slots_per_rank = slots_per_rank(experts, ranks, redundant);
                assert_true(rebalance_fits(&some, masked));
                if (!redundant) continue;
                some.slots_per_rank = slots_per_rank(experts, ranks, redundant - 1);
                assert_false(rebalance_fits(&some, masked));
            }
}

static void a_new_map_needs_its_gain_twice_and_a_rest(void **state) {
    struct rebalance_rule rule = {
        .gain = 0.1, .layer_gain = 0.05, .choices_min = 100, .rest_ns = 1000};
    struct rebalance rebalance = {0};
    struct rebalance_gain gains[2] = {{.mean = 8, .before = 10, .after = 8, .moves = 3},
                                      {.mean = 9, .before = 10, .after = 9.8, .moves = 9}};
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 99, 0), REBALANCE_KNOWS_LITTLE);
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 100, 0), REBALANCE_LOOKS_AGAIN);
    gains[0].after = 8.5; /* 1.5 of 20 */
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 100, 1), REBALANCE_NOT_WORTH_IT);
    gains[0].after = 8;
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 100, 2), REBALANCE_LOOKS_AGAIN);
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 100, 3), REBALANCE_GOES);
    assert_true(rebalance_changes(&rule, &gains[0]) && !rebalance_changes(&rule, &gains[1]));
    rebalance_done(&rebalance, 10);
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 500, 1009), REBALANCE_RESTS);
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 500, 1010),
                     REBALANCE_LOOKS_AGAIN);
    gains[1].forced = true;
    rebalance_done(&rebalance, 1020);
    assert_int_equal(rebalance_judge(&rebalance, &rule, gains, 2, 0, 1021), REBALANCE_GOES);
    assert_true(rebalance_changes(&rule, &gains[1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_map_is_whole_and_no_worse),
        cmocka_unit_test(masked_ranks_end_up_empty_and_come_back),
        cmocka_unit_test(the_refusal_says_how_many_redundant_experts_suffice),
        cmocka_unit_test(a_new_map_needs_its_gain_twice_and_a_rest),
    };
    memory = malloc(rebalance_bytes(&shape));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
