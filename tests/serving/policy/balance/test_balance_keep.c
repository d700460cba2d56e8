/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_keep.h"

#include "balance_loads.h"
#include "test_case.h"

#define SLOTS_MAX 512

struct world {
    struct balance_shape shape;
    uint64_t loads[LOADS_EXPERTS_MAX];
    uint16_t old[SLOTS_MAX], fresh[SLOTS_MAX], kept[SLOTS_MAX];
    struct balance_outcome outcome, best;
    uint32_t moves;
    void *memory;
};

static void keep(struct world *world, enum balance_locality locality, double tolerance) {
    struct balance_options options = {locality};
    struct balance_keeping keeping = {world->old, tolerance};
    balance_experts(&world->shape, &options, world->loads, world->memory, world->fresh,
                    &world->best);
    balance_keep(&world->shape, &options, world->loads, &keeping, world->memory, world->kept,
                 &world->outcome, &world->moves);
}

static uint32_t differences(const struct world *world, const uint16_t *slots) {
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < world->shape.slots; slot++)
        count += slots[slot] != world->old[slot];
    return count;
}

static void assert_whole(const struct world *world) {
    bool held[LOADS_EXPERTS_MAX] = {false};
    for (uint32_t slot = 0; slot < world->shape.slots; slot++)
        held[world->kept[slot]] = true;
    for (uint32_t e = 0; e < world->shape.experts; e++)
        assert_true(held[e]);
}

static void open_world(struct world *world, const struct balance_shape *shape, uint32_t kind,
                       enum balance_locality locality) {
    struct balance_options options = {locality};
    *world = (struct world){.shape = *shape};
    world->memory = malloc(balance_keep_bytes(shape));
    assert_non_null(world->memory);
    loads_draw(kind, 21, shape->experts, world->loads);
    balance_experts(shape, &options, world->loads, world->memory, world->old, &world->best);
}

/* Some experts become hotter, some colder. */
static void drift(struct world *world) {
    for (uint32_t e = 0; e < world->shape.experts; e++)
        world->loads[e] = (uint64_t)((double)world->loads[e] * exp(0.2 * loads_normal(77, e)));
}

static const struct balance_shape shapes[] = {
    {256, 8, 288, 32, 4}, {256, 8, 288, 144, 18}, {256, 8, 512, 64, 8}, {24, 4, 32, 8, 2}};

/* The same loads again move nothing; other loads move fewer slots than a fresh placement would, and
 * a tolerance makes it fewer still; the balance keeps to the tolerance. */
TEST(few_experts_move) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int strict = 0; strict < 2; strict++)
            for (uint32_t kind = 0; kind < LOADS_DRAWN; kind++) {
                struct world world;
                enum balance_locality locality = strict ? BALANCE_STRICT : BALANCE_FREE;
                open_world(&world, &shapes[i], kind, locality);
                keep(&world, locality, 0);
                assert_int_equal(world.moves, 0);
                drift(&world);
                keep(&world, locality, 0);
                uint32_t exact = world.moves;
                assert_whole(&world);
                assert_int_equal(world.moves, differences(&world, world.kept));
                assert_true(world.outcome.balance >= world.best.balance * (1 - 1e-9));
                assert_true(exact <= differences(&world, world.fresh));
                keep(&world, locality, 0.02);
                assert_whole(&world);
                assert_int_equal(world.moves, differences(&world, world.kept));
                assert_true(world.outcome.balance >= world.best.balance / 1.02 * (1 - 1e-9));
                assert_true(world.moves <= exact);
                free(world.memory);
            }
}

/* A drift at 32 ranks: less than a third of the moves that starting over would make; at 144 ranks,
 * where counts change, less than half of all slots. */
TEST(a_drift_costs_a_repair) {
    struct world world;
    open_world(&world, &shapes[0], 1, BALANCE_FREE);
    drift(&world);
    keep(&world, BALANCE_FREE, 0.02);
    assert_true(world.moves > 0 && world.moves * 3 < differences(&world, world.fresh));
    free(world.memory);
    open_world(&world, &shapes[1], 1, BALANCE_FREE);
    drift(&world);
    keep(&world, BALANCE_FREE, 0.01);
    assert_true(world.moves > 0 && world.moves * 2 < world.shape.slots);
    free(world.memory);
}

/* A placement that had only got other names is recognised. */
TEST(names_do_not_matter) {
    struct world world;
    uint16_t turned[SLOTS_MAX];
    open_world(&world, &shapes[0], 3, BALANCE_FREE);
    for (uint32_t slot = 0; slot < 288; slot++) /* ranks turned by five, slots reversed */
        turned[(slot / 9 + 5) % 32 * 9 + 8 - slot % 9] = world.old[slot];
    memcpy(world.old, turned, sizeof turned);
    keep(&world, BALANCE_FREE, 0);
    assert_int_equal(world.moves, 0);
    free(world.memory);
}

/* Nor do those of nodes, and of the ranks in each, where groups must stay on nodes. One replica
 * that lies where it must not makes a repair impossible, and is all that moves. */
TEST(names_of_nodes_do_not_matter) {
    struct world world;
    uint16_t turned[SLOTS_MAX];
    open_world(&world, &shapes[0], 3, BALANCE_STRICT);
    for (uint32_t slot = 0; slot < 288;
         slot++) /* nodes turned by one, ranks within them by three */
        turned[(slot / 72 + 1) % 4 * 72 + (slot % 72 / 9 + 3) % 8 * 9 + slot % 9] = world.old[slot];
    uint32_t astray = 0, replicas[256] = {0};
    for (uint32_t slot = 0; slot < 288; slot++)
        replicas[turned[slot]]++;
    while (replicas[turned[astray]] < 2)
        astray++;
    turned[astray] = turned[(astray + 72) % 288];
    memcpy(world.old, turned, sizeof turned);
    keep(&world, BALANCE_STRICT, 0);
    assert_int_equal(world.moves, 1);
    free(world.memory);
}
