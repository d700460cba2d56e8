/* SPDX-License-Identifier: Apache-2.0
 * What goes wrong in a simulated fleet, until it is healed.
 */
#include "simulate/fleet_state.h"

/* One of those that are left, but not the last. */
static void doom_rank(struct world *world, struct fleet_unit_host *unit) {
    uint32_t rank = fleet_dice_below(&world->dice, world->ranks), left = 0;
    for (uint32_t i = 0; i < world->ranks; i++)
        left += !unit->dead[i];
    if (left > 1 && !unit->dead[rank]) unit->dies = 1 + rank;
}

static void freeze(struct world *world, uint32_t index) {
    struct fleet_unit_host *unit = &world->units[index];
    unit->frozen_ns =
        world->now_ns + fleet_dice_time(&world->dice, FLEET_SECOND / 20, 6 * FLEET_SECOND);
    world->carriers.frozen_ns[index] = world->storage.frozen_ns[index] = unit->frozen_ns;
    world->report->freezes++;
    fleet_log_add(world->log, world->now_ns, "unit freezes", index, FLEET_LOG_NOWHERE,
                  (uint64_t)(unit->frozen_ns - world->now_ns) / FLEET_MS, 0);
}

/* What a unit has. */
static void strike_unit(struct world *world, uint32_t index) {
    struct fleet_unit_host *unit = &world->units[index];
    uint32_t what = fleet_dice_below(&world->dice, 14);
    if (!unit->up) return;
    if (what < 4) {
        fleet_units_kill(world, index);
    } else if (what < 6) {
        freeze(world, index);
    } else if (what < 9) {
        fleet_units_cut(world, index, true);
        world->report->cuts++;
    } else if (what < 12) {
        doom_rank(world, unit);
    } else if (what == 12 && fleet_dice_below(&world->dice, 2)) {
        fleet_units_ask_drain(world, index);
    } else if (unit->connection && what == 12) {
        fleet_gateway_ask_drain(world, unit);
    } else if (unit->connection) {
        fleet_gateway_ask_role(world, unit);
    }
}

/* What lies between and below them. */
static void strike_blocks(struct world *world) {
    struct fleet_dice *dice = &world->dice;
    uint32_t what = fleet_dice_below(dice, 8);
    int64_t until_ns = world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 10, 10 * FLEET_SECOND);
    if (what < 4) {
        uint32_t unit = fleet_dice_below(dice, world->unit_count);
        uint32_t other = fleet_dice_below(dice, world->unit_count);
        if (unit == other) return;
        fleet_carriers_cut(&world->carriers, unit, other, until_ns, world->now_ns);
        world->report->network_cuts++;
    } else if (what < 6) {
        world->storage.off_ns = world->now_ns + (until_ns - world->now_ns) / 3;
        world->report->disk_failures++;
    } else {
        for (int i = 0; i < 8; i++)
            fleet_storage_flip(&world->storage);
    }
}

void fleet_faults_strike(struct world *world) {
    struct fleet_dice *dice = &world->dice;
    world->fault_ns = world->now_ns + fleet_dice_time(dice, 0, 2 * FLEET_SECOND);
    uint32_t what = fleet_dice_below(dice, 20);
    if (what == 0 && world->gateway && world->options.gateway_dies)
        fleet_gateway_kill(world);
    else if (what < 7)
        strike_blocks(world);
    else
        strike_unit(world, fleet_dice_below(dice, world->unit_count));
}

void fleet_faults_heal(struct world *world) {
    world->fault_ns = MACHINE_NEVER;
    world->carriers.faults = world->storage.faults = false;
    world->storage.off_ns = fleet_earlier(world->storage.off_ns, world->now_ns);
    if (!world->gateway)
        world->gateway_ns = fleet_earlier(world->gateway_ns, world->now_ns + FLEET_SECOND);
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        unit->frozen_ns = fleet_earlier(unit->frozen_ns, world->now_ns);
        world->carriers.frozen_ns[i] = world->storage.frozen_ns[i] = unit->frozen_ns;
        for (uint32_t k = 0; k < world->unit_count; k++)
            world->carriers.cut_ns[i][k] =
                fleet_earlier(world->carriers.cut_ns[i][k], world->now_ns);
        if (!unit->up) unit->up_ns = fleet_earlier(unit->up_ns, world->now_ns + FLEET_SECOND);
    }
    fleet_log_add(world->log, world->now_ns, "healed", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, 0, 0);
}
