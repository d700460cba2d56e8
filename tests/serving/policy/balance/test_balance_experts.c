/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_experts.h"

#include <math.h>

#include "balance_loads.h"
#include "test_case.h"

#define SLOTS_MAX 576

struct world {
    struct balance_shape shape;
    uint64_t loads[LOADS_EXPERTS_MAX];
    uint16_t slots[SLOTS_MAX], other[SLOTS_MAX];
    struct balance_outcome outcome, greedy;
    void *memory;
};

static void open_world(struct world *world, struct balance_shape shape) {
    *world = (struct world){.shape = shape};
    assert_int_equal(balance_experts_check(&shape, NULL), STATUS_OK);
    world->memory = malloc(balance_experts_bytes(&shape));
    assert_non_null(world->memory);
}

static void solve(struct world *world, enum balance_locality locality) {
    struct balance_options options = {locality};
    balance_experts(&world->shape, &options, world->loads, world->memory, world->slots,
                    &world->outcome);
    balance_experts_greedy(&world->shape, world->loads, world->memory, world->other,
                           &world->greedy);
}

/* Plain arithmetic on doubles: nothing of what is being tested. */
static double balance_of(const struct world *world, const uint16_t *slots) {
    const struct balance_shape *shape = &world->shape;
    double counts[LOADS_EXPERTS_MAX] = {0}, total = 0, most = 0;
    uint32_t room = shape->slots / shape->ranks;
    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        assert_true(slots[slot] < shape->experts);
        counts[slots[slot]]++;
    }
    for (uint32_t e = 0; e < shape->experts; e++) {
        assert_true(counts[e] > 0);
        total += (double)world->loads[e];
    }
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        double load = 0;
        for (uint32_t slot = rank * room; slot < (rank + 1) * room; slot++)
            load += (double)world->loads[slots[slot]] / counts[slots[slot]];
        most = fmax(most, load);
    }
    return most > 0 ? total / shape->ranks / most : 1;
}

/* The smallest cap with sum ceil(load / cap) <= slots, by bisection. */
static double bound_of(const struct world *world) {
    double total = 0, low = 0, high = 0;
    for (uint32_t e = 0; e < world->shape.experts; e++) {
        total += (double)world->loads[e];
        high = fmax(high, (double)world->loads[e]);
    }
    if (!(total > 0)) return 1;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2, slots = 0;
        for (uint32_t e = 0; e < world->shape.experts; e++)
            slots += fmax(1, ceil((double)world->loads[e] / middle));
        *(slots <= world->shape.slots ? &high : &low) = middle;
    }
    double mean = total / world->shape.ranks;
    return fmin(1, mean / high);
}

static bool is_strict(const struct world *world) {
    uint32_t group_experts = world->shape.experts / world->shape.groups;
    uint32_t node_slots = world->shape.slots / world->shape.nodes;
    uint32_t homes[64];
    memset(homes, 0xFF, sizeof homes);
    for (uint32_t slot = 0; slot < world->shape.slots; slot++) {
        uint32_t *home = &homes[world->slots[slot] / group_experts];
        if (*home == UINT32_MAX) *home = slot / node_slots;
        if (*home != slot / node_slots) return false;
    }
    return true;
}

static uint32_t duplicates_of(const struct world *world, const uint16_t *slots) {
    uint32_t room = world->shape.slots / world->shape.ranks, duplicates = 0;
    for (uint32_t slot = 0; slot < world->shape.slots; slot++)
        for (uint32_t at = slot / room * room; at < slot; at++)
            duplicates += slots[at] == slots[slot];
    return duplicates;
}

static void assert_good(struct world *world, bool strict) {
    double balance = balance_of(world, world->slots);
    if (fabs(balance - world->outcome.balance) > 1e-9)
        fail_msg("said %.12g, is %.12g", world->outcome.balance, balance);
    if (fabs(bound_of(world) - world->outcome.bound) > 1e-9)
        fail_msg("bound said %.12g, is %.12g", world->outcome.bound, bound_of(world));
    if (balance < balance_of(world, world->other) * (1 - 1e-12))
        fail_msg("%.12g is below the greedy's %.12g", balance, balance_of(world, world->other));
    assert_true(balance <= world->outcome.bound * (1 + 1e-9));
    if (strict) assert_true(is_strict(world));
}

static const struct balance_shape shapes[] = {
    {256, 8, 288, 32, 4}, {256, 8, 288, 144, 18}, {256, 8, 288, 72, 9}, {256, 8, 512, 64, 8},
    {64, 8, 64, 8, 1},    {64, 8, 80, 80, 4},     {12, 4, 16, 8, 2},    {6, 3, 24, 4, 1},
    {250, 8, 288, 32, 3}, {256, 7, 288, 32, 4},   {8, 8, 24, 24, 2},    {16, 1, 18, 1, 1},
    {2, 1, 12, 4, 2},     {1, 1, 8, 2, 1},
};

/* Every placement is whole, says its balance and its bound truly, is no worse than the greedy's and
 * keeps to the nodes when asked to: on all kinds of load and shapes. */
TEST(placements_keep_their_promises) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct world world;
        open_world(&world, shapes[i]);
        for (uint32_t kind = 0; kind < LOADS_KINDS; kind++)
            for (uint32_t seed = 0; seed < 3; seed++) {
                loads_draw(kind, seed, shapes[i].experts, world.loads);
                solve(&world, BALANCE_FREE);
                assert_good(&world, false);
                solve(&world, BALANCE_STRICT);
                assert_good(&world, balance_experts_divides(&shapes[i]));
            }
        free(world.memory);
    }
}

/* What the greedy leaves on the table at 32 ranks is taken: within 1 % of the bound. */
TEST(the_bound_is_reached_at_32_ranks) {
    struct world world;
    open_world(&world, shapes[0]);
    for (uint32_t kind = 0; kind < LOADS_DRAWN; kind++)
        for (uint32_t seed = 0; seed < 8; seed++) {
            loads_draw(kind, seed, 256, world.loads);
            solve(&world, BALANCE_FREE);
            if (world.outcome.balance < 0.99 * world.outcome.bound)
                fail_msg("kind %u, seed %u: %.4f, bound %.4f", kind, seed, world.outcome.balance,
                         world.outcome.bound);
        }
    free(world.memory);
}

/* A replica beside its duplicate is of no use: none at the shapes that are served. */
TEST(replicas_live_on_different_ranks) {
    for (size_t i = 0; i < 4; i++) {
        struct world world;
        open_world(&world, shapes[i]);
        for (uint32_t kind = 0; kind < LOADS_DRAWN; kind++) {
            loads_draw(kind, 5, shapes[i].experts, world.loads);
            solve(&world, BALANCE_FREE);
            assert_int_equal(duplicates_of(&world, world.slots), 0);
        }
        free(world.memory);
    }
}

/* Neither what the memory held before nor the unit of the loads matters. */
TEST(placements_depend_on_loads_alone) {
    for (size_t i = 0; i < 3; i++) {
        struct world world;
        uint16_t first[SLOTS_MAX];
        open_world(&world, shapes[i]);
        loads_draw(3, 11, 256, world.loads);
        memset(world.memory, 0x5A, balance_experts_bytes(&world.shape));
        solve(&world, BALANCE_FREE);
        memcpy(first, world.slots, sizeof first);
        for (uint32_t e = 0; e < 256; e++)
            world.loads[e] *= 4;
        memset(world.memory, 0xA5, balance_experts_bytes(&world.shape));
        solve(&world, BALANCE_FREE);
        assert_memory_equal(first, world.slots, world.shape.slots * sizeof *first);
        free(world.memory);
    }
}

TEST(a_layer_without_load_is_placed) {
    struct world world;
    open_world(&world, shapes[0]);
    memset(world.loads, 0, sizeof world.loads);
    solve(&world, BALANCE_FREE);
    balance_of(&world, world.slots);
    assert_int_equal(duplicates_of(&world, world.slots), 0);
    assert_true(world.outcome.bound == 1 && world.outcome.balance > 0.85);
    free(world.memory);
}

TEST(wrong_shapes_are_refused) {
    static const struct {
        struct balance_shape shape;
        const char *why;
    } wrong[] = {
        {{0, 1, 8, 1, 1}, "0 experts"},
        {{2000, 1, 4000, 1, 1}, "2000 experts"},
        {{256, 8, 255, 5, 1}, "255 slots cannot hold 256 experts"},
        {{256, 8, 9000, 1, 1}, "9000 slots"},
        {{256, 8, 288, 31, 1}, "288 slots do not divide over 31 ranks"},
        {{256, 8, 288, 0, 1}, "do not divide over 0 ranks"},
        {{252, 9, 288, 32, 3}, "32 ranks do not divide over 3 nodes"},
        {{256, 12, 288, 32, 4}, "256 experts do not divide into 12 groups"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error error = {""};
        assert_int_equal(balance_experts_check(&wrong[i].shape, &error), STATUS_INVALID);
        if (!strstr(error.text, wrong[i].why)) fail_msg("'%s' lacks it", error.text);
    }
}
