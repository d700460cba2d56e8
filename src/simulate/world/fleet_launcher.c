/* SPDX-License-Identifier: Apache-2.0
 * The launcher of a simulated fleet. A job is one unit, and a node has space for one job. The
 * launcher runs with or without a manager.
 */
#include "base/check.h"
#include "base/number.h"
#include "simulate/world/fleet_state.h"

#define START_NS_LEAST (FLEET_SECOND / 5)

/* In the fault phase, one launch in so many is refused, ends before it serves, or waits forever.
 * One finished job in HANGS_OF stays listed, and on its node, until it is cancelled. */
enum { REFUSED_OF = 6, FAILS_OF = 6, NEVER_OF = 16, HANGS_OF = 4 };

struct fleet_unit_job *fleet_launcher_find(const struct world *world, uint32_t number) {
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++)
        if (world->managers.jobs[i].number == number)
            return (struct fleet_unit_job *)(uintptr_t)&world->managers.jobs[i];
    return NULL;
}

uint32_t fleet_launcher_count(const struct world *world) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++)
        count += world->managers.jobs[i].number != 0;
    return count;
}

static bool fleet_launcher_strikes(const struct world *world) {
    return world->options.faults && world->now_ns < world->healed_ns;
}

static bool is_silent(const struct world *world) {
    return world->now_ns < world->managers.silent_ns;
}

static void fleet_launcher_end_job(struct world *world, struct fleet_unit_job *job,
                                   const char *how) {
    world_log(world, how, job->node, FLEET_LOG_NOWHERE, job->number, job->role);
    *job = (struct fleet_unit_job){.number = 0};
}

/* ---- nodes ---- */

static bool fleet_launcher_is_free(const struct world *world, uint32_t node) {
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++)
        if (world->managers.jobs[i].number && world->managers.jobs[i].node == node) return false;
    return !world->units[node].up && world->managers.node_ns[node] <= world->now_ns;
}

static void fleet_launcher_place(struct world *world, struct fleet_unit_job *job) {
    for (uint32_t node = 0; node < world->unit_count; node++) {
        struct fleet_unit_host *unit = &world->units[node];
        if (!fleet_launcher_is_free(world, node)) continue;
        job->node = node;
        job->begins_ns = world->now_ns + fleet_dice_time(&world->managers.launches, START_NS_LEAST,
                                                         2 * world->managers.options.rule.start_ns);
        unit->role = job->role;
        unit->number = job->number;
        if (!job->fails) unit->up_ns = job->begins_ns;
        return;
    }
}

void fleet_launcher_run(struct world *world) {
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++) {
        struct fleet_unit_job *job = &world->managers.jobs[i];
        if (!job->number) continue;
        if (job->node == FLEET_NO_NODE) {
            if (!job->never) fleet_launcher_place(world, job);
        } else if (job->fails) {
            if (job->begins_ns <= world->now_ns) fleet_launcher_end_job(world, job, "job fails");
        } else if (!job->hangs && !world->units[job->node].up &&
                   world->units[job->node].up_ns == MACHINE_NEVER) {
            job->hangs = fleet_launcher_strikes(world) &&
                         fleet_dice_below(&world->managers.launches, HANGS_OF) == 0;
            world->report->jobs_hung += job->hangs;
            if (!job->hangs) fleet_launcher_end_job(world, job, "job is over");
        }
    }
}

int64_t fleet_launcher_wake_ns(const struct world *world) {
    int64_t wake_ns = MACHINE_NEVER;
    bool waits = false;
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++) {
        const struct fleet_unit_job *job = &world->managers.jobs[i];
        if (!job->number) continue;
        waits |= job->node == FLEET_NO_NODE && !job->never;
        if (job->node != FLEET_NO_NODE && job->fails) wake_ns = min_i64(wake_ns, job->begins_ns);
    }
    for (uint32_t node = 0; node < world->unit_count && waits; node++)
        if (world->managers.node_ns[node] > world->now_ns)
            wake_ns = min_i64(wake_ns, world->managers.node_ns[node]);
    return wake_ns;
}

/* ---- orders ---- */

bool fleet_launcher_start(struct world *world, uint32_t number, uint32_t role) {
    struct fleet_dice *dice = &world->managers.launches;
    struct fleet_unit_job *job = fleet_launcher_find(world, 0);
    bool strikes = fleet_launcher_strikes(world);
    if (is_silent(world) || (strikes && fleet_dice_below(dice, REFUSED_OF) == 0)) return false;
    if (number <= world->managers.last_number) world_breach(world, "a number was given twice");
    world->managers.last_number = number;
    check(job);
    *job = (struct fleet_unit_job){.number = number,
                                   .role = role,
                                   .node = FLEET_NO_NODE,
                                   .fails = strikes && fleet_dice_below(dice, FAILS_OF) == 0,
                                   .never = strikes && fleet_dice_below(dice, NEVER_OF) == 0};
    world->report->launched++;
    world->report->launches_failed += job->fails || job->never;
    return true;
}

/* Stops a job. The first signal asks it to end, the second one kills it. */
void fleet_launcher_stop(struct world *world, uint32_t number, bool at_once) {
    struct fleet_unit_job *job = fleet_launcher_find(world, number);
    if (!number || !job || is_silent(world)) return;
    struct fleet_unit_host *unit = job->node == FLEET_NO_NODE ? NULL : &world->units[job->node];
    if (!unit || !unit->up) {
        if (unit) unit->up_ns = MACHINE_NEVER;
        fleet_launcher_end_job(world, job, "job is cancelled");
    } else if (at_once || unit->ends) {
        world->report->ended_at_once++;
        fleet_units_kill(world, job->node);
        fleet_launcher_end_job(world, job, "job is ended at once");
    } else {
        unit->ends = true;
        world->report->stopped++;
        fleet_units_ask_drain(world, job->node);
    }
}

void fleet_launcher_lose_node(struct world *world, uint32_t node, int64_t until_ns) {
    world->managers.node_ns[node] = until_ns;
    if (world->units[node].up) fleet_units_kill(world, node);
    world->units[node].up_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++)
        if (world->managers.jobs[i].number && world->managers.jobs[i].node == node)
            fleet_launcher_end_job(world, &world->managers.jobs[i], "job is lost with its node");
    world->report->nodes_lost++;
}
