/* SPDX-License-Identifier: Apache-2.0
 * Rank processes in virtual time, modelled on compute/exchange/job.h. Processes start, join, read
 * their weights and serve. A process that is notified of a lost or returned rank leaves the step
 * and joins the new epoch. The living ranks then regroup, or their rank 0 exits.
 */
#include "base/check.h"
#include "base/number.h"
#include "simulate/world/fleet_state.h"

#define REGROUP_NS_MAX (5 * FLEET_SECOND)
#define JOIN_NS (50 * FLEET_MS) /* time to regroup with a rank that has returned */
/* Limit until all ranks must have joined, in timeouts, as in host/process/ranks/rank_watch.c. */
#define RENDEZVOUS_TIMEOUTS 60
#define STARTS_AGAIN 3 /* exit status of a unit that cannot continue */

static const struct supervise_how killed = {.by_signal = true, .number = 9};

/* ---- processes ---- */

static enum heartbeat_state fleet_ranks_state_of(const struct world *world, uint32_t unit) {
    if (!world->hosts.supervised_units[unit].serves) return HEARTBEAT_STARTS;
    if (world->hosts.supervised_units[unit].regroup_ns != MACHINE_NEVER) return HEARTBEAT_COMPUTES;
    if (!world->units[unit].up || !world->units[unit].open_count) return HEARTBEAT_IDLE;
    return fleet_network_holds(world, unit) ? HEARTBEAT_WAITS : HEARTBEAT_COMPUTES;
}

/* The signs of a rank. A rank that is not stopped gets CPU time, and computes if it can. */
struct supervise_signs fleet_ranks_sign(const struct world *world, struct fleet_agent *agent,
                                        uint32_t rank) {
    struct fleet_process *process = &agent->processes[rank];
    uint32_t unit = agent->unit;
    bool still = process->stopped_ns > world->now_ns;
    bool runs = process->alive && (!still || process->spins) &&
                (rank || world->units[unit].frozen_ns <= world->now_ns);
    bool spins = still && process->spins && world->hosts.supervised_units[unit].serves;
    enum heartbeat_state state = process->returns
                                     ? process->has_met ? HEARTBEAT_WAITS : HEARTBEAT_STARTS
                                 : spins ? HEARTBEAT_COMPUTES
                                         : fleet_ranks_state_of(world, unit);
    bool packs = process->returns && !process->has_met;
    process->ran += runs;
    process->tiles += runs && !still && (packs || state == HEARTBEAT_COMPUTES);
    return (struct supervise_signs){
        .state = state, .tiles = process->tiles, .ran = process->ran + 1};
}

uint32_t fleet_ranks_epoch(const struct world *world, const struct fleet_agent *agent) {
    const struct fleet_supervised_unit *unit = &world->hosts.supervised_units[agent->unit];
    return fleet_network_launched(unit, agent) ? unit->epoch : 0;
}

uint32_t fleet_ranks_count_changes(const struct world *world, const struct fleet_agent *agent) {
    uint32_t changes = fleet_ranks_epoch(world, agent);
    for (uint32_t i = 0; i < agent->machine.count; i++) {
        const struct fleet_process *process = &agent->processes[agent->machine.first + i];
        changes += process->is_here;
        changes += process->has_met && process->ready_ns <= world->now_ns;
    }
    return changes;
}

static bool end_process(struct world *world, struct fleet_agent *agent, uint32_t rank,
                        struct supervise_how how) {
    struct fleet_process *process = &agent->processes[rank];
    if (!process->alive) return false;
    fleet_log_add(world->log, world->now_ns, "process ends", agent->unit, rank,
                  agent->machine.number, (uint64_t)how.number);
    process->alive = false;
    process->how = how;
    if (rank == 0 && world->units[agent->unit].up) fleet_units_kill(world, agent->unit);
    if (rank == 0) world->units[agent->unit].up_ns = MACHINE_NEVER;
    return true;
}

bool fleet_ranks_kill(struct world *world, struct fleet_agent *agent, uint32_t rank) {
    return end_process(world, agent, rank, killed);
}

void fleet_ranks_kill_all(struct world *world, struct fleet_agent *agent) {
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        (void)fleet_ranks_kill(world, agent, rank);
}

void fleet_ranks_kill_living(struct world *world, uint32_t unit, uint32_t rank) {
    struct fleet_process *process = fleet_network_process(&world->hosts, unit, rank);
    if (!process) return;
    process->end_ns = world->now_ns;
    process->how = killed;
}

/* ---- starts ---- */

/* True if processes cannot be started. */
static bool fails(struct world *world, const struct fleet_agent *agent, bool returns) {
    uint32_t machine = fleet_network_machine_of(world, agent);
    bool is_failing = world->hosts.machines[machine].fails_ns > world->now_ns;
    if (returns && world->options.faults && world->now_ns < world->healed_ns)
        is_failing |= fleet_dice_below(&world->hosts.returns, 12) == 0;
    world->report->starts_failed += is_failing;
    return is_failing;
}

bool fleet_ranks_start(struct world *world, struct fleet_agent *agent) {
    memset(agent->processes, 0, sizeof agent->processes);
    if (fails(world, agent, false)) return false;
    for (uint32_t i = 0; i < agent->machine.count; i++)
        agent->processes[agent->machine.first + i] = (struct fleet_process){
            .alive = true,
            .here_ns =
                world->now_ns + fleet_dice_time(&world->hosts.dice, 10 * FLEET_MS, 300 * FLEET_MS),
            .end_ns = MACHINE_NEVER};
    return true;
}

void fleet_ranks_cut_host(struct world *world, uint32_t machine, struct fleet_dice *dice) {
    int64_t *until_ns = &world->hosts.machines[machine].off_ns;
    if (!world->hosts.machines[machine].up) return;
    fleet_network_last(world, until_ns, dice, 6 * FLEET_SECOND);
    fleet_log_add(world->log, world->now_ns, "host is cut off", FLEET_LOG_NOWHERE,
                  FLEET_LOG_NOWHERE, machine, (uint64_t)(*until_ns - world->now_ns) / FLEET_MS);
    for (uint32_t unit = 0; unit < world->unit_count; unit++)
        for (uint32_t k = 0; k < world->gateway_count; k++)
            if (world->hosts.machine_of[unit][0] == machine && world->units[unit].up)
                fleet_units_part(world, unit, k, *until_ns);
}

/* Draws how a rank's return ends. */
static void try_return(struct world *world, const struct fleet_agent *agent,
                       struct fleet_process *process) {
    struct fleet_dice *dice = &world->hosts.returns;
    bool cursed = world->hosts.supervised_units[agent->unit].is_cursed;
    bool faulty = world->options.faults && world->now_ns < world->healed_ns;
    uint32_t fate = fleet_dice_below(dice, 12);
    if (cursed || (faulty && fate < 3)) {
        process->end_ns = world->now_ns + fleet_dice_time(dice, FLEET_MS, 3 * FLEET_SECOND / 2);
        process->how = killed;
        world->report->return_ends++;
    } else if (faulty && fate < 6) {
        process->stopped_ns = MACHINE_NEVER; /* only a kill ends it */
        process->spins = fleet_dice_below(dice, 2);
        world->report->return_hangs++;
    } else if (faulty && fate == 6) {
        fleet_ranks_cut_host(world, world->hosts.machine_of[agent->unit][agent->part], dice);
        world->report->return_cuts++;
    }
}

bool fleet_ranks_restart(struct world *world, struct fleet_agent *agent, uint32_t rank) {
    struct fleet_process *process = &agent->processes[rank];
    if (process->alive) world_breach(world, "a rank that lives is started again");
    if (fails(world, agent, true)) return false;
    *process = (struct fleet_process){
        .alive = true,
        .returns = true,
        .seen_ns = world->now_ns,
        .here_ns =
            world->now_ns + fleet_dice_time(&world->hosts.returns, 10 * FLEET_MS, FLEET_SECOND),
        .end_ns = MACHINE_NEVER};
    try_return(world, agent, process);
    return true;
}

/* ---- reports to ranks ---- */

static void take_members(struct world *world, struct fleet_agent *agent,
                         const struct fleet_frame *frame) {
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_process *process = &agent->processes[rank];
        process->meets |= process->has_joined && process->epoch == frame->epoch;
        if (!process->meets || process->has_met) continue;
        process->has_met = true;
        process->ready_ns =
            world->now_ns + fleet_dice_time(&world->hosts.dice, 50 * FLEET_MS, 400 * FLEET_MS);
    }
}

/* Takes a change of the ranks. A rank that does not serve yet cannot continue, and no rank can
 * without rank 0. A returning rank has no contact with the others until they are notified of it. */
static void take_change(struct world *world, struct fleet_agent *agent,
                        const struct fleet_frame *frame) {
    const struct fleet_supervised_unit *supervised_unit =
        &world->hosts.supervised_units[frame->unit];
    bool serves = supervised_unit->serves && fleet_network_launched(supervised_unit, agent);
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_process *process = &agent->processes[rank];
        if (frame->kind == FRAME_BACK && rank == frame->rank) process->has_met = true;
        if (!process->alive || (process->returns && !process->has_met)) continue;
        process->gone = frame->gone;
        process->epoch = frame->epoch;
        process->has_joined = process->meets = false;
        if (frame->kind == FRAME_BACK) continue;
        if (frame->rank == 0)
            fleet_network_leave(world, process, 1);
        else if (!serves)
            fleet_network_leave(world, process, rank ? 1 : STARTS_AGAIN);
    }
}

void fleet_ranks_take(struct world *world, struct fleet_agent *agent,
                      const struct fleet_frame *frame) {
    if (frame->kind == FRAME_MEMBERS)
        take_members(world, agent, frame);
    else
        take_change(world, agent, frame);
}

/* ---- among ranks ---- */

static void begin_serving(struct world *world, uint32_t unit) {
    struct fleet_supervised_unit *supervised_unit = &world->hosts.supervised_units[unit];
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct fleet_process *process = fleet_network_process(&world->hosts, unit, rank);
        if (!process || !process->has_met || process->ready_ns > world->now_ns) return;
    }
    if (!fleet_network_is_whole(world, unit, 0)) return;
    if (world->units[unit].up) world_breach(world, "a unit begins while it runs");
    supervised_unit->serves = true;
    world->units[unit].up_ns = world->now_ns;
}

/* The time to read the experts that no living rank has. Sometimes the disk hangs. */
static int64_t reading_ns(struct world *world) {
    struct fleet_dice *dice = &world->hosts.dice;
    return fleet_dice_below(dice, 8) ? fleet_dice_time(dice, 10 * FLEET_MS, 200 * FLEET_MS)
                                     : fleet_dice_time(dice, FLEET_SECOND, 60 * FLEET_SECOND);
}

/* All ranks of this epoch continue, including those that returned. */
static void fleet_ranks_go_on(struct world *world, uint32_t unit,
                              const struct fleet_process *first) {
    struct fleet_supervised_unit *supervised_unit = &world->hosts.supervised_units[unit];
    world->report->survived += (first->gone & ~supervised_unit->without) != 0;
    supervised_unit->without = first->gone;
    supervised_unit->epoch = first->epoch;
    for (uint32_t rank = 1; rank < world->ranks; rank++) {
        struct fleet_process *process = fleet_network_incarnation(&world->hosts, unit, rank);
        if (process && !(supervised_unit->without >> rank & 1)) process->returns = false;
    }
    fleet_log_add(world->log, world->now_ns, "unit goes on", unit, FLEET_LOG_NOWHERE,
                  supervised_unit->without, supervised_unit->epoch);
}

/* Regroups the ranks when all living ones have met in the same epoch and are connected. Regrouping
 * takes a short time. */
static void regroup(struct world *world, uint32_t unit, struct fleet_process *first) {
    struct fleet_supervised_unit *supervised_unit = &world->hosts.supervised_units[unit];
    uint32_t gone = first->gone, living = 0;
    if (first->epoch == supervised_unit->epoch || first->stopped_ns > world->now_ns) return;
    if (!supervised_unit->regroup_by_ns)
        supervised_unit->regroup_by_ns = world->now_ns + REGROUP_NS_MAX;
    bool all = fleet_network_is_whole(world, unit, gone);
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct fleet_process *process = fleet_network_incarnation(&world->hosts, unit, rank);
        if (gone >> rank & 1 || !process) continue;
        living++;
        all &= process->meets && process->epoch == first->epoch;
    }
    if (!all) {
        supervised_unit->regroup_ns = MACHINE_NEVER;
        if (supervised_unit->regroup_by_ns <= world->now_ns)
            fleet_network_leave(world, first, STARTS_AGAIN);
    } else if (supervised_unit->regroup_ns == MACHINE_NEVER) {
        supervised_unit->regroup_ns =
            world->now_ns + (gone & ~supervised_unit->without ? reading_ns(world) : JOIN_NS);
    } else if (supervised_unit->regroup_ns <= world->now_ns) {
        supervised_unit->regroup_ns = MACHINE_NEVER;
        supervised_unit->regroup_by_ns = 0;
        if (living < world->hosts.slots_needed)
            fleet_network_leave(world, first, STARTS_AGAIN);
        else
            fleet_ranks_go_on(world, unit, first);
    }
}

/* Reports lost and returned ranks to the unit. */
static void fleet_ranks_notify_unit(struct world *world, uint32_t unit) {
    const struct fleet_unit_host *host = &world->units[unit];
    uint32_t without = world->hosts.supervised_units[unit].without;
    for (uint32_t rank = 0; host->up && rank < world->ranks; rank++) {
        bool dead = without >> rank & 1;
        if (dead && !host->dead[rank]) fleet_units_bury(world, unit, rank);
        if (!dead && host->dead[rank]) fleet_units_take_back(world, unit, rank);
    }
}

void fleet_ranks_run(struct world *world, uint32_t unit) {
    struct fleet_supervised_unit *supervised_unit = &world->hosts.supervised_units[unit];
    struct fleet_process *first = fleet_network_process(&world->hosts, unit, 0);
    if (!first) return;
    if (!supervised_unit->serves) {
        begin_serving(world, unit);
    } else {
        regroup(world, unit, first);
        fleet_ranks_notify_unit(world, unit);
    }
}

/* ---- time ---- */

enum fleet_process_event fleet_ranks_run_process(struct world *world, struct fleet_agent *agent,
                                                 uint32_t rank) {
    int64_t rendezvous_ns = RENDEZVOUS_TIMEOUTS * world->hosts.timeout_ns;
    struct fleet_process *process = &agent->processes[rank];
    if (!process->alive) return FLEET_PROCESS_GOES_ON;
    bool by_itself = process->how.by_signal || process->stopped_ns <= world->now_ns;
    if (process->end_ns <= world->now_ns && by_itself) {
        end_process(world, agent, rank, process->how);
        return FLEET_PROCESS_ENDED;
    }
    if (!process->has_joined && process->here_ns <= world->now_ns &&
        process->stopped_ns <= world->now_ns) {
        process->is_here = process->has_joined = true;
        return FLEET_PROCESS_JOINED;
    }
    if (rank == 0 && !process->has_met && world->now_ns - process->here_ns > rendezvous_ns)
        fleet_network_leave(world, process, STARTS_AGAIN);
    return FLEET_PROCESS_GOES_ON;
}

int64_t fleet_ranks_wake_ns(const struct world *world, uint32_t unit) {
    int64_t regroup_ns = world->hosts.supervised_units[unit].regroup_ns;
    int64_t wake_ns = regroup_ns > world->now_ns ? regroup_ns : MACHINE_NEVER;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
            const struct fleet_agent *agent = &world->hosts.agents[unit][part][i];
            for (uint32_t rank = 0; agent->alive && rank < world->ranks; rank++) {
                const struct fleet_process *process = &agent->processes[rank];
                if (!process->alive) continue;
                bool by_itself = process->how.by_signal || process->stopped_ns <= world->now_ns;
                wake_ns = min_i64(wake_ns, by_itself ? process->end_ns : process->stopped_ns);
            }
        }
    return wake_ns;
}
