/* SPDX-License-Identifier: Apache-2.0
 * Protects the decision to move experts: a new map is whole, no worse, and says its moves rightly;
 * masked ranks end up empty and the others cover, if they can, with as many redundant experts as
 * the refusal says; over nodes, each layer takes the cheapest way by the prices that are given,
 * groups stay whole on nodes where the link is dear, experts that move pay for the link that they
 * take, and where answers are made nodes do not matter; and a new map needs its gain twice, some
 * knowledge, and a rest.
 */

#include "base/random.h"
#include "serving/policy/balance/move_experts.h"
#include "serving/policy/balance/rebalance.h"
#include "test_case.h"

enum { EXPERTS = 64, RANKS = 8, ROOM = 10, SLOTS = RANKS * ROOM };

static const struct rebalance_shape shape = {
    .experts = EXPERTS, .ranks = RANKS, .slots_per_rank = ROOM};
static const struct rebalance_prices flat; /* nothing is known, and there is one node */
static uint64_t loads[EXPERTS];
static uint64_t memory[1 << 16];

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

TEST(a_new_map_is_whole_and_no_worse) {
    static const bool nobody[RANKS];
    uint32_t from[SLOTS], to[SLOTS], again[SLOTS];
    struct rebalance_gain gain, second;
    for (uint64_t seed = 1; seed < 60; seed++) {
        draw_loads(seed);
        deal(from);
        rebalance_layer(&shape, &flat, loads, nobody, from, memory, to, &gain);
        assert_int_equal(check_map(nobody, from, to), gain.moves);
        assert_true(gain.after <= gain.before && gain.after >= gain.mean * 0.999 && !gain.forced);
        rebalance_layer(&shape, &flat, loads, nobody, to, memory, again, &second);
        assert_true(second.before == gain.after && second.moves == 0);
    }
}

/* Rank 2 goes, and comes back. */
TEST(masked_ranks_end_up_empty_and_come_back) {
    static const bool masked[RANKS] = {[2] = true}, nobody[RANKS];
    uint32_t from[SLOTS], to[SLOTS], back[SLOTS];
    struct rebalance_gain gain;
    assert_true(rebalance_fits(&shape, masked));
    for (uint64_t seed = 1; seed < 60; seed++) {
        draw_loads(seed);
        deal(from);
        rebalance_layer(&shape, &flat, loads, masked, from, memory, to, &gain);
        assert_int_equal(check_map(masked, from, to), gain.moves);
        assert_true(gain.forced);
        rebalance_layer(&shape, &flat, loads, masked, to, memory, back, &gain);
        assert_false(gain.forced);
        rebalance_layer(&shape, &flat, loads, nobody, to, memory, back, &gain);
        assert_int_equal(check_map(nobody, to, back), gain.moves);
        assert_true(gain.forced && gain.moves >= ROOM);
    }
}

/* As the placement makes slots from redundant experts. */
static uint32_t slots_per_rank(uint32_t experts, uint32_t ranks, uint32_t redundant) {
    return (experts + redundant + ranks - 1) / ranks;
}

TEST(the_refusal_says_how_many_redundant_experts_suffice) {
    bool masked[12] = {0};
    for (uint32_t ranks = 2; ranks <= 12; ranks++)
        for (uint32_t gone = 1; gone < ranks; gone++)
            for (uint32_t experts = 12; experts < 60; experts++) {
                for (uint32_t rank = 0; rank < ranks; rank++)
                    masked[rank] = rank < gone;
                struct rebalance_shape some = {
                    .experts = experts, .ranks = ranks, .slots_per_rank = 0};
                uint32_t redundant = rebalance_redundancy(&some, gone);
                some.slots_per_rank = slots_per_rank(experts, ranks, redundant);
                assert_true(rebalance_fits(&some, masked));
                if (!redundant) continue;
                some.slots_per_rank = slots_per_rank(experts, ranks, redundant - 1);
                assert_false(rebalance_fits(&some, masked));
            }
}

TEST(a_new_map_needs_its_gain_twice_and_a_rest) {
    struct rebalance_rule rule = {
        .gain = 0.1, .layer_gain = 0.05, .choices_min = 100, .rest_ns = 1000};
    struct rebalance rebalance = {0};
    struct rebalance_gain gains[2] = {
        {.cost_before = {4, 6, 0}, .cost_after = {3, 4, 1}, .moves = 3},
        {.cost_before = {10, 0, 0}, .cost_after = {9, 0.5, 0.3}, .moves = 9}};
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 99, 0),
                     REBALANCE_KNOWS_LITTLE);
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 100, 0),
                     REBALANCE_LOOKS_AGAIN);
    gains[0].cost_after.moves = 1.5; /* 1.5 of 20 won */
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 100, 1),
                     REBALANCE_NOT_WORTH_IT);
    gains[0].cost_after.moves = 1;
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 100, 2),
                     REBALANCE_LOOKS_AGAIN);
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 100, 3), REBALANCE_GOES);
    assert_true(rebalance_changes(&rule, &gains[0]) && !rebalance_changes(&rule, &gains[1]));
    rebalance_done(&rebalance, 10);
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 500, 1009), REBALANCE_RESTS);
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 500, 1010),
                     REBALANCE_LOOKS_AGAIN);
    gains[1].forced = true;
    rebalance_done(&rebalance, 1020);
    assert_int_equal(rebalance_evaluate(&rebalance, &rule, gains, 2, 0, 1021), REBALANCE_GOES);
    assert_true(rebalance_changes(&rule, &gains[1]));
}

/* ---- over nodes ---- */

static bool about(double a, double b) {
    return a >= b * 0.999 && a <= b * 1.001;
}

/* 8 groups of 8 experts, of which a token chooses 2 of each of 4; 4 nodes of 2 ranks. */
static const struct rebalance_shape over_nodes = {.experts = EXPERTS,
                                                  .ranks = RANKS,
                                                  .slots_per_rank = ROOM,
                                                  .node_ranks = 2,
                                                  .groups = 8,
                                                  .choice = {4, 8}};

static bool has_whole_groups(const uint32_t *slots) {
    uint32_t home[8];
    memset(home, 0xff, sizeof home);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        uint32_t group = slots[slot] / 8, node = slot / ROOM / 2;
        if (home[group] != UINT32_MAX && home[group] != node) return false;
        home[group] = node;
    }
    return true;
}

static struct rebalance_gain place(const struct rebalance_prices *prices, uint64_t seed,
                                   uint32_t *from, uint32_t *to) {
    static const bool nobody[RANKS];
    struct rebalance_gain gain;
    draw_loads(seed);
    deal(from);
    rebalance_layer(&over_nodes, prices, loads, nobody, from, memory, to, &gain);
    assert_int_equal(check_map(nobody, from, to), gain.moves);
    return gain;
}

TEST(each_layer_takes_the_cheapest_way) {
    static const double copy_ns[] = {0, 1, 10, 100, 10000};
    uint32_t from[SLOTS], to[SLOTS], ways[REBALANCE_WAY_COUNT] = {0};
    for (uint64_t seed = 1; seed < 30; seed++)
        for (size_t i = 0; i < sizeof copy_ns / sizeof *copy_ns; i++) {
            struct rebalance_prices prices = {.pair_ns = 10, .copy_ns = copy_ns[i], .passes = true};
            struct rebalance_gain gain = place(&prices, seed, from, to);
            ways[gain.way]++;
            double least = rebalance_cost_sum(&gain.cost_after);
            for (int way = 0; way < REBALANCE_WAY_COUNT; way++)
                assert_true(rebalance_cost_sum(&gain.cost_of[way]) >= least * (1 - 1e-9));
            assert_true(rebalance_cost_sum(&gain.cost_of[gain.way]) <= least * (1 + 1e-9));
            assert_true(about(gain.cost_after.experts, gain.after / gain.mean * 8 * 10));
            assert_true(about(gain.cost_after.nodes, gain.copies_after * copy_ns[i]));
            assert_true(gain.cost_after.moves == 0); /* nobody knows for how long */
        }
    assert_true(ways[REBALANCE_GROUPS] > 0 && ways[REBALANCE_NEAR] + ways[REBALANCE_GLOBAL] > 0);
}

TEST(groups_stay_on_nodes_where_the_link_is_dear) {
    const struct rebalance_prices dear = {.pair_ns = 1, .copy_ns = 1e6, .passes = true};
    const struct rebalance_prices cheap = {.pair_ns = 1e6, .copy_ns = 1, .passes = true};
    uint32_t from[SLOTS], to[SLOTS], fewer = 0;
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct rebalance_gain gain = place(&dear, seed, from, to);
        assert_true(gain.way == REBALANCE_GROUPS && has_whole_groups(to));
        fewer += gain.copies_after < gain.copies_before;
        double copies = gain.copies_after, nodes = rebalance_copies(&over_nodes, loads, to);
        assert_true(about(nodes * 0.75, copies));
        gain = place(&cheap, seed, from, to);
        assert_true(gain.copies_after >= copies && gain.after <= gain.mean * 1.05);
    }
    assert_true(fewer > 20); /* few hot experts that lie on one node by chance may do as well */
}

TEST(before_anything_is_measured_prompts_have_whole_groups) {
    const struct rebalance_prices unknown = {.passes = true};
    uint32_t from[SLOTS], to[SLOTS];
    struct rebalance_gain gain = place(&unknown, 3, from, to);
    assert_true(gain.way == REBALANCE_GROUPS && has_whole_groups(to));
    assert_true(rebalance_cost_sum(&gain.cost_of[REBALANCE_NEAR]) == 0);
    assert_true(rebalance_cost_sum(&gain.cost_of[REBALANCE_GLOBAL]) == 0);
}

/* The number of moves between nodes of two ranks. */
static uint32_t count_far(const struct expert_move *moves, uint32_t count) {
    uint32_t far = 0;
    for (uint32_t i = 0; i < count; i++)
        far += moves[i].expert != EXPERT_MOVE_NOTHING &&
               moves[i].from != EXPERT_MOVE_FROM_CHECKPOINT &&
               moves[i].slot / ROOM / 2 != moves[i].from / ROOM / 2;
    return far;
}

/* What move_experts makes of the new map is what was priced. */
static double price_moves(const struct rebalance_prices *prices, const uint32_t *from,
                          const uint32_t *to) {
    const struct move_experts change = {
        .ranks = RANKS, .slots_per_rank = ROOM, .node_ranks = 2, .from = from, .to = to};
    struct expert_move moves[SLOTS];
    uint32_t gives[RANKS] = {0}, count = move_experts(&change, gives, moves), given = 0;
    uint32_t far = count_far(moves, count);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        given += gives[rank];
    return (far * prices->far_ns + (given - far) * prices->near_ns) / RANKS / prices->tokens;
}

TEST(experts_that_move_pay_for_the_link_they_take) {
    const struct rebalance_rule rule = {.layer_gain = 0.02};
    uint32_t from[SLOTS], to[SLOTS], changed = 0, moved = 0, at_first = 0;
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct rebalance_prices prices = {.pair_ns = 10,
                                          .copy_ns = 200,
                                          .near_ns = 1000,
                                          .far_ns = 4000,
                                          .tokens = 1e6,
                                          .passes = true};
        struct rebalance_gain gain = place(&prices, seed, from, to);
        assert_true(gain.cost_after.moves > 0 && gain.cost_before.moves == 0);
        assert_true(about(gain.cost_after.moves, price_moves(&prices, from, to)));
        at_first += gain.moves;
        prices.tokens = 1; /* the next map comes soon */
        gain = place(&prices, seed, from, to);
        moved += gain.moves;
        assert_true(about(gain.cost_after.moves, price_moves(&prices, from, to)));
        prices.far_ns = prices.near_ns = 1e9;
        gain = place(&prices, seed, from, to);
        changed += rebalance_changes(&rule, &gain);
    }
    assert_true(moved < at_first && changed == 0);
}

TEST(where_answers_are_made_nodes_do_not_matter) {
    const struct rebalance_prices prices = {
        .pair_ns = 1, .copy_ns = 1e6, .passes = true, .makes_answers = true};
    static const bool nobody[RANKS];
    uint32_t from[SLOTS], to[SLOTS], without[SLOTS];
    struct rebalance_gain gain = place(&prices, 5, from, to), other;
    assert_int_equal(gain.way, REBALANCE_GLOBAL);
    rebalance_layer(&shape, &flat, loads, nobody, from, memory, without, &other);
    assert_memory_equal(to, without, sizeof to);
    assert_true(gain.copies_after > 2);
}

/* A row for each rank: that a node is near to itself brings little. */
TEST(rows_that_nobody_passes_on_are_priced_rank_by_rank) {
    const struct rebalance_prices passes = {.pair_ns = 1, .copy_ns = 10, .passes = true};
    const struct rebalance_prices each = {.pair_ns = 1, .copy_ns = 10};
    uint32_t from[SLOTS], to[SLOTS];
    struct rebalance_gain by_node = place(&passes, 7, from, to);
    struct rebalance_gain by_rank = place(&each, 7, from, to);
    assert_true(by_rank.copies_before > by_node.copies_before);
}

/* One rank of a node goes: the rest has no nodes of one size. A whole node goes: the others
 * have. */
TEST(masked_ranks_leave_nodes_or_none) {
    static const bool one[RANKS] = {[2] = true};
    static const bool pairs[RANKS] = {[0] = true, [2] = true, [4] = true, [6] = true};
    const struct rebalance_prices prices = {.pair_ns = 1, .copy_ns = 1e6, .passes = true};
    struct rebalance_shape wide = over_nodes;
    uint32_t from[2 * SLOTS], to[2 * SLOTS];
    struct rebalance_gain gain;
    wide.slots_per_rank = 2 * ROOM;
    assert_true(rebalance_bytes(&wide) <= sizeof memory); /* the largest shape */
    draw_loads(9);
    for (uint32_t slot = 0; slot < 2 * SLOTS; slot++)
        from[slot] = slot % EXPERTS;
    rebalance_layer(&wide, &prices, loads, one, from, memory, to, &gain);
    assert_true(gain.way == REBALANCE_GLOBAL && gain.copies_after == 0 && gain.forced);
    rebalance_layer(&wide, &prices, loads, pairs, from, memory, to, &gain);
    assert_true(gain.way == REBALANCE_GROUPS && gain.copies_after > 0 && gain.forced);
}
