/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/split_tokens.h"

#include "test_case.h"

#include "base/random.h"
#include "serving/policy/balance/balance_experts.h"

#include "../../serving/policy/balance/balance_loads.h"

#define SLOTS_MAX 288

struct world {
    uint32_t experts, slots, ranks;
    uint16_t map[SLOTS_MAX];
    uint32_t counts[LOADS_EXPERTS_MAX], takes[SLOTS_MAX], level;
    struct split_tokens split;
    void *memory;
};

static void open_split(struct world *world) {
    world->memory = malloc(split_tokens_bytes(world->experts, world->slots, world->ranks));
    assert_non_null(world->memory);
    memset(world->memory, 0xA5, split_tokens_bytes(world->experts, world->slots, world->ranks));
    split_tokens_open(&world->split, world->experts, world->slots, world->ranks, world->map,
                      world->memory);
}

/* All tokens are taken, and no rank takes more than was said. */
static void assert_whole(const struct world *world) {
    uint32_t most = 0;
    uint64_t taken[LOADS_EXPERTS_MAX] = {0};
    uint32_t room = world->slots / world->ranks;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        uint32_t load = 0;
        for (uint32_t slot = rank * room; slot < (rank + 1) * room; slot++) {
            load += world->takes[slot];
            taken[world->map[slot]] += world->takes[slot];
        }
        if (load > most) most = load;
    }
    for (uint32_t e = 0; e < world->experts; e++)
        assert_int_equal(taken[e], world->counts[e]);
    assert_int_equal(most, world->level);
}

/* The least level by trying all splits, expert by expert. */
static uint32_t best_of(const struct world *world, uint32_t expert, uint32_t *loads,
                        uint32_t best) {
    uint32_t most = 0, room = world->slots / world->ranks;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        most = loads[rank] > most ? loads[rank] : most;
    if (most >= best) return best;
    if (expert == world->experts) return most;
    uint32_t first = world->split.firsts[expert],
             replicas = world->split.firsts[expert + 1] - first;
    uint32_t ranks[3] = {0}, count = world->counts[expert];
    for (uint32_t i = 0; i < replicas; i++)
        ranks[i] = world->split.slots[first + i] / room;
    for (uint32_t a = replicas > 1 ? 0 : count; a <= count; a++)
        for (uint32_t b = replicas > 2 ? 0 : count - a; b <= count - a; b++) {
            loads[ranks[0]] += a;
            if (replicas > 1) loads[ranks[1]] += b;
            if (replicas > 2) loads[ranks[2]] += count - a - b;
            best = best_of(world, expert + 1, loads, best);
            loads[ranks[0]] -= a;
            if (replicas > 1) loads[ranks[1]] -= b;
            if (replicas > 2) loads[ranks[2]] -= count - a - b;
        }
    return best;
}

static uint32_t drawn(uint64_t seed, uint32_t at, uint32_t below) {
    return (uint32_t)(random_uniform(seed, at, 9) * below);
}

/* The same level as trying everything, on 300 small worlds of up to three replicas an expert. */
TEST(the_split_is_the_best_there_is) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct world world = {.experts = 5, .slots = 8, .ranks = 4};
        uint32_t replicas[5] = {1, 1, 1, 1, 1}, loads[4] = {0};
        for (uint32_t i = 0; i < 5; i++)
            world.map[i] = (uint16_t)i;
        for (uint32_t i = 5; i < 8; i++) {
            uint32_t expert = drawn(seed, i, 5);
            while (replicas[expert] == 3)
                expert = (expert + 1) % 5;
            replicas[expert]++;
            world.map[i] = (uint16_t)expert;
        }
        for (uint32_t i = 7; i > 0;
             i--) { /* shuffled; twins on a rank may happen, and do no harm */
            uint32_t j = drawn(seed, 10 + i, i + 1);
            uint16_t swap = world.map[i];
            world.map[i] = world.map[j];
            world.map[j] = swap;
        }
        for (uint32_t e = 0; e < 5; e++)
            world.counts[e] = drawn(seed, 20 + e, 9) * drawn(seed, 30 + e, 2);
        open_split(&world);
        world.level = split_tokens(&world.split, world.counts, world.takes);
        assert_whole(&world);
        uint32_t best = best_of(&world, 0, loads, UINT32_MAX);
        if (world.level != best) fail_msg("seed %d: %u, best %u", (int)seed, world.level, best);
        free(world.memory);
    }
}

static void draw_batch(struct world *world, const uint64_t *loads, uint64_t seed, uint32_t tokens) {
    double sums[LOADS_EXPERTS_MAX], sum = 0;
    memset(world->counts, 0, sizeof world->counts);
    for (uint32_t e = 0; e < world->experts; e++)
        sums[e] = sum += (double)loads[e];
    for (uint32_t i = 0; i < tokens; i++) {
        double at = random_uniform(seed, i, 7) * sum;
        uint32_t e = 0;
        while (e + 1 < world->experts && sums[e] <= at)
            e++;
        world->counts[e]++;
    }
}

static uint32_t round_robin(const struct world *world) {
    uint32_t most = 0, room = world->slots / world->ranks;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        uint32_t load = 0;
        for (uint32_t slot = rank * room; slot < (rank + 1) * room; slot++) {
            uint32_t e = world->map[slot], first = world->split.firsts[e];
            uint32_t replicas = world->split.firsts[e + 1] - first, nth = 0;
            while (world->split.slots[first + nth] != slot)
                nth++;
            load += (world->counts[e] + replicas - 1 - nth) / replicas;
        }
        if (load > most) most = load;
    }
    return most;
}

static void open_placed(struct world *world, const struct balance_shape *shape,
                        const uint64_t *loads) {
    struct balance_options options = {BALANCE_FREE};
    struct balance_outcome outcome;
    void *memory = malloc(balance_experts_bytes(shape));
    *world =
        (struct world){.experts = shape->experts, .slots = shape->slots, .ranks = shape->ranks};
    assert_non_null(memory);
    balance_experts(shape, &options, loads, memory, world->map, &outcome);
    free(memory);
    open_split(world);
}

/* At the shapes that are served: never above round robin, in sum clearly below. Every token has its
 * slot, each slot gets what it takes, and the same counts give the same split. */
TEST(batches_are_split_better_than_in_turn) {
    static const struct balance_shape shapes[] = {{256, 8, 288, 32, 4}, {256, 8, 288, 144, 18}};
    for (int i = 0; i < 2; i++) {
        struct world world;
        uint64_t loads[LOADS_EXPERTS_MAX], split = 0, in_turn = 0;
        uint32_t again[SLOTS_MAX];
        loads_draw(1, 3, 256, loads);
        open_placed(&world, &shapes[i], loads);
        for (uint64_t seed = 0; seed < 20; seed++) {
            draw_batch(&world, loads, seed, 8192);
            world.level = split_tokens(&world.split, world.counts, world.takes);
            assert_whole(&world);
            assert_true(world.level <= round_robin(&world));
            split += world.level;
            in_turn += round_robin(&world);
            split_tokens(&world.split, world.counts, again);
            assert_memory_equal(again, world.takes, world.slots * sizeof *again);
        }
        assert_true(split < in_turn);
        memset(again, 0, sizeof again);
        for (uint32_t e = 0; e < 256; e++)
            for (uint32_t n = 0; n < world.counts[e]; n++)
                again[split_tokens_slot(&world.split, world.takes, e, n)]++;
        assert_memory_equal(again, world.takes, world.slots * sizeof *again);
        free(world.memory);
    }
}

/* A rank without experts takes nothing; the others' split is what it would be without it. */
TEST(empty_slots_take_nothing) {
    static const uint16_t map[6] = {0, 1, SPLIT_TOKENS_EMPTY, SPLIT_TOKENS_EMPTY, 1, 2};
    uint64_t memory[64];
    struct split_tokens split;
    uint32_t takes[6];
    assert_true(split_tokens_bytes(3, 6, 3) <= sizeof memory);
    split_tokens_open(&split, 3, 6, 3, map, memory);
    assert_int_equal(split_tokens(&split, (uint32_t[3]){10, 30, 20}, takes), 30);
    assert_true(takes[0] == 10 && takes[1] == 20 && takes[4] == 10 && takes[5] == 20);
    assert_true(takes[2] == 0 && takes[3] == 0);
    assert_int_equal(split_tokens_slot(&split, takes, 1, 19), 1);
    assert_int_equal(split_tokens_slot(&split, takes, 1, 20), 4);
}
