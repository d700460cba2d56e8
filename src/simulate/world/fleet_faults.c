/* SPDX-License-Identifier: Apache-2.0
 * The faults of a simulated fleet during the fault phase, and their end.
 */
#include "base/check.h"
#include "base/number.h"
#include "simulate/world/fleet_state.h"

static struct fleet_unit_host *fleet_faults_any_unit(struct world *world, struct fleet_dice *dice) {
    return &world->units[fleet_dice_below(dice, world->unit_count)];
}

/* Chooses a random gateway. Nothing is drawn if there is only one. */
static uint32_t any_gateway(const struct world *world, struct fleet_dice *dice) {
    return world->gateway_count > 1 ? fleet_dice_below(dice, world->gateway_count) : 0;
}

static void kill_gateway(struct world *world, struct fleet_dice *dice) {
    uint32_t gateway = any_gateway(world, dice);
    if (world->gateways[gateway].gateway && world->options.gateway_dies)
        fleet_gateway_kill(world, gateway);
}

static void kill_unit(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    if (unit->up && world->hosts.present)
        fleet_ranks_kill_living(world, unit->index, 0);
    else if (unit->up)
        fleet_units_kill(world, unit->index);
}

static void freeze_unit(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    uint32_t index = unit->index;
    if (!unit->up) return;
    unit->frozen_ns = world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 20, 6 * FLEET_SECOND);
    world->carriers.frozen_ns[index] = world->storage.frozen_ns[index] = unit->frozen_ns;
    world->report->freezes++;
    world_log(world, "unit freezes", index, FLEET_LOG_NOWHERE,
              (uint64_t)(unit->frozen_ns - world->now_ns) / FLEET_MS, 0);
}

static void cut_unit(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    if (!unit->up) return;
    fleet_units_cut(world, unit->index, any_gateway(world, dice), true);
    world->report->cuts++;
}

/* Dooms a random living rank to die, but never the last one. */
static void doom_rank(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    uint32_t rank = fleet_dice_below(dice, world->ranks), left = 0;
    for (uint32_t i = 0; i < world->ranks; i++)
        left += !unit->dead[i];
    if (!unit->up || left < 2 || unit->dead[rank]) return;
    if (world->hosts.present)
        fleet_ranks_kill_living(world, unit->index, rank);
    else
        unit->dies = 1 + rank;
}

static void drain_unit(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    if (unit->up) fleet_units_ask_drain(world, unit->index);
}

static void order_drain(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    uint32_t gateway = any_gateway(world, dice);
    if (unit->up && unit->links[gateway].connection)
        fleet_gateway_ask_drain(world, gateway, unit->links[gateway].connection, false);
}

/* Asks any gateway to call back a draining unit, no matter through which one it was drained. */
static void fleet_faults_call_back(struct world *world, struct fleet_dice *dice) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        uint32_t gateway = any_gateway(world, dice);
        if (unit->up && unit->draining && !unit->goes && unit->links[gateway].connection)
            fleet_gateway_ask_drain(world, gateway, unit->links[gateway].connection, true);
    }
}

/* Cuts one unit from one gateway. All other pairs stay connected. */
static void part_unit(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    uint32_t gateway = any_gateway(world, dice);
    int64_t until_ns = world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 2, 6 * FLEET_SECOND);
    if (!unit->up || !unit->links[gateway].connection) return;
    fleet_units_part(world, unit->index, gateway, until_ns);
    world->report->partitions++;
}

static void order_role(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = fleet_faults_any_unit(world, dice);
    uint32_t gateway = any_gateway(world, dice);
    if (unit->up && unit->links[gateway].connection)
        fleet_gateway_ask_role(world, gateway, unit->links[gateway].connection,
                               fleet_dice_below(&world->dice, UNIT_ROLE_COUNT));
}

static void cut_network(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_dice_below(dice, world->unit_count);
    uint32_t other = fleet_dice_below(dice, world->unit_count);
    if (unit == other) return;
    fleet_carriers_cut(&world->carriers, unit, other,
                       world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 10, 10 * FLEET_SECOND),
                       world->now_ns);
    world->report->network_cuts++;
}

static void fail_disk(struct world *world, struct fleet_dice *dice) {
    world->storage.off_ns =
        world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 30, 10 * FLEET_SECOND / 3);
    world->report->disk_failures++;
}

static void flip_bits(struct world *world, struct fleet_dice *dice) {
    for (int i = 0; i < 8; i++)
        fleet_storage_flip(&world->storage);
}

/* Lets draining units end, because nothing calls them back any more. */
static void let_drained_go(struct world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        /* with a manager, the manager ends it */
        unit->goes |= unit->draining && !world->managers.present;
    }
}

#define STREAM_FIRST 16 /* other modules use the lower numbers */

static const struct fault_kind faults[] = {
    {40000, kill_gateway}, {10800, kill_unit},  {21500, freeze_unit},
    {14400, cut_unit},     {14400, doom_rank},  {86000, drain_unit},
    {86000, order_drain},  {43000, order_role}, {13300, cut_network},
    {26700, fail_disk},    {26700, flip_bits},  {9000, fleet_faults_call_back},
    {30000, part_unit},
};

void fleet_faults_open(struct world *world) {
    if (world->options.faults)
        fault_timetable_open(&world->faults, faults, ARRAY_COUNT(faults), world->options.seed,
                             STREAM_FIRST);
}

void fleet_faults_heal(struct world *world) {
    fault_timetable_end(&world->faults);
    world->carriers.faults = world->storage.faults = false;
    world->storage.off_ns = min_i64(world->storage.off_ns, world->now_ns);
    let_drained_go(world);
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        struct fleet_gateway_host *host = &world->gateways[i];
        if (!host->gateway) host->up_ns = min_i64(host->up_ns, world->now_ns + FLEET_SECOND);
    }
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        unit->frozen_ns = min_i64(unit->frozen_ns, world->now_ns);
        world->carriers.frozen_ns[i] = world->storage.frozen_ns[i] = unit->frozen_ns;
        for (uint32_t k = 0; k < world->unit_count; k++)
            world->carriers.cut_ns[i][k] = min_i64(world->carriers.cut_ns[i][k], world->now_ns);
        if (!unit->up && !world->hosts.present && !world->managers.present)
            unit->up_ns = min_i64(unit->up_ns, world->now_ns + FLEET_SECOND);
    }
    if (world->hosts.present) fleet_hosts_heal(world);
    if (world->managers.present) fleet_managers_heal(world);
    world_log(world, "healed", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, 0, 0);
}
