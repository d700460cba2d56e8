/* SPDX-License-Identifier: Apache-2.0
 * Rank processes in virtual time, modelled on compute/exchange/job.h. Processes start, join, read
 * their weights and serve. A process that is notified of a lost or returned rank leaves the step and
 * joins the new epoch. The living ranks then regroup, or their rank 0 exits.
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

static bool is_supervised_unit(const struct fleet_supervised_unit *supervised_unit,
                               const struct fleet_agent *agent) {
    return agent->alive && agent->life == supervised_unit->life &&
           agent->machine.number == supervised_unit->number;
}

/* The living process of a rank in the current start of its unit, or NULL. */
static struct fleet_process *process_of(struct fleet_hosts *hosts, uint32_t unit, uint32_t rank) {
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
        for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
            struct fleet_agent *agent = &hosts->agents[unit][part][i];
            if (is_supervised_unit(&hosts->supervised_units[unit], agent) &&
                agent->processes[rank].alive)
                return &agent->processes[rank];
        }
    return NULL;
}

struct fleet_process *fleet_ranks_process(struct fleet_hosts *hosts, uint32_t unit, uint32_t rank) {
    struct fleet_process *process = process_of(hosts, unit, rank);
    return process && !process->returns ? process : NULL;
}

/* ---- processes ---- */

static enum heartbeat_state fleet_ranks_state_of(const struct world *world, uint32_t unit) {
    if (!world->hosts.supervised_units[unit].serves) return HEARTBEAT_STARTS;
    if (world->hosts.supervised_units[unit].regroup_ns != MACHINE_NEVER) return HEARTBEAT_COMPUTES;
    if (!world->units[unit].up || !world->units[unit].open_count) return HEARTBEAT_IDLE;
    return fleet_hosts_holds(world, unit) ? HEARTBEAT_WAITS : HEARTBEAT_COMPUTES;
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
    return is_supervised_unit(unit, agent) ? unit->epoch : 0;
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
    if (rank == 0 && world->units[agent->unit].up) fleet_units_kill(world, agent->unit);
    if (rank == 0) world->units[agent->unit].up_ns = MACHINE_NEVER;
    return true;
}

void fleet_ranks_kill_all(struct world *world, struct fleet_agent *agent) {
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        end_process(world, agent, rank, killed);
}

void fleet_ranks_kill(struct world *world, struct fleet_agent *agent, uint32_t one) {
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        if ((one == rank || one == SUPERVISE_ALL_RANKS) && end_process(world, agent, rank, killed))
            fleet_links_rank_ended(world, agent, rank, killed);
}

static void fleet_ranks_leave(struct world *world, struct fleet_process *process, int number) {
    int64_t end_ns = world->now_ns + fleet_dice_time(&world->hosts.dice, FLEET_MS, 50 * FLEET_MS);
    if (process->end_ns <= end_ns) return;
    process->end_ns = end_ns;
    process->how = (struct supervise_how){.number = number};
}

void fleet_hosts_finish(struct world *world, uint32_t unit) {
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_process *process = fleet_ranks_process(&world->hosts, unit, rank);
        if (process) fleet_ranks_leave(world, process, 0);
    }
}

void fleet_hosts_kill_rank(struct world *world, uint32_t unit, uint32_t rank) {
    struct fleet_process *process = fleet_ranks_process(&world->hosts, unit, rank);
    if (!process) return;
    process->end_ns = world->now_ns;
    process->how = killed;
}

/* ---- starts ---- */

/* True if processes cannot be started. */
static bool fails(struct world *world, const struct fleet_agent *agent, bool returns) {
    uint32_t machine = fleet_hosts_machine_of(world, agent);
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
        fleet_hosts_cut(world, world->hosts.machine_of[agent->unit][agent->part], dice);
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
    bool serves = supervised_unit->serves && is_supervised_unit(supervised_unit, agent);
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_process *process = &agent->processes[rank];
        if (frame->kind == FRAME_BACK && rank == frame->rank) process->has_met = true;
        if (!process->alive || (process->returns && !process->has_met)) continue;
        process->gone = frame->gone;
        process->epoch = frame->epoch;
        process->has_joined = process->meets = false;
        if (frame->kind == FRAME_BACK) continue;
        if (frame->rank == 0)
            fleet_ranks_leave(world, process, 1);
        else if (!serves)
            fleet_ranks_leave(world, process, rank ? 1 : STARTS_AGAIN);
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

/* True if only living ranks remain, all of them run, and all are connected to each other. */
static bool fleet_ranks_is_whole(const struct world *world, uint32_t unit, uint32_t without) {
    struct fleet_hosts *hosts = (struct fleet_hosts *)(uintptr_t)&world->hosts;
    uint32_t rank = 0;
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++) {
        uint32_t living = 0;
        for (uint32_t i = 0; i < hosts->ranks_of[unit][part]; i++, rank++) {
            const struct fleet_process *process = process_of(hosts, unit, rank);
            if (without >> rank & 1) continue;
            if (!process || process->stopped_ns > world->now_ns) return false;
            living++;
        }
        for (uint32_t other = 0; living && other < part; other++)
            if (fleet_hosts_cut_ns(world, hosts->machine_of[unit][part],
                                   hosts->machine_of[unit][other]))
                return false;
    }
    return true;
}

bool fleet_hosts_holds(const struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = (struct fleet_hosts *)(uintptr_t)&world->hosts;
    const struct fleet_supervised_unit *supervised_unit = &hosts->supervised_units[unit];
    if (!hosts->present || !supervised_unit->serves) return false;
    const struct fleet_process *first = process_of(hosts, unit, 0);
    return !first || first->epoch != supervised_unit->epoch ||
           !fleet_ranks_is_whole(world, unit, supervised_unit->without);
}

static void begin_serving(struct world *world, uint32_t unit) {
    struct fleet_supervised_unit *supervised_unit = &world->hosts.supervised_units[unit];
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct fleet_process *process = fleet_ranks_process(&world->hosts, unit, rank);
        if (!process || !process->has_met || process->ready_ns > world->now_ns) return;
    }
    if (!fleet_ranks_is_whole(world, unit, 0)) return;
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
        struct fleet_process *process = process_of(&world->hosts, unit, rank);
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
    bool all = fleet_ranks_is_whole(world, unit, gone);
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct fleet_process *process = process_of(&world->hosts, unit, rank);
        if (gone >> rank & 1 || !process) continue;
        living++;
        all &= process->meets && process->epoch == first->epoch;
    }
    if (!all) {
        supervised_unit->regroup_ns = MACHINE_NEVER;
        if (supervised_unit->regroup_by_ns <= world->now_ns)
            fleet_ranks_leave(world, first, STARTS_AGAIN);
    } else if (supervised_unit->regroup_ns == MACHINE_NEVER) {
        supervised_unit->regroup_ns =
            world->now_ns + (gone & ~supervised_unit->without ? reading_ns(world) : JOIN_NS);
    } else if (supervised_unit->regroup_ns <= world->now_ns) {
        supervised_unit->regroup_ns = MACHINE_NEVER;
        supervised_unit->regroup_by_ns = 0;
        if (living < world->hosts.slots_needed)
            fleet_ranks_leave(world, first, STARTS_AGAIN);
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
    struct fleet_process *first = fleet_ranks_process(&world->hosts, unit, 0);
    if (!first) return;
    if (!supervised_unit->serves) {
        begin_serving(world, unit);
    } else {
        regroup(world, unit, first);
        fleet_ranks_notify_unit(world, unit);
    }
}

/* ---- time ---- */

void fleet_ranks_run_processes(struct world *world, struct fleet_agent *agent) {
    int64_t rendezvous_ns = RENDEZVOUS_TIMEOUTS * world->hosts.timeout_ns;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_process *process = &agent->processes[rank];
        if (!process->alive) continue;
        bool by_itself = process->how.by_signal || process->stopped_ns <= world->now_ns;
        if (process->end_ns <= world->now_ns && by_itself) {
            end_process(world, agent, rank, process->how);
            fleet_links_rank_ended(world, agent, rank, process->how);
        } else if (!process->has_joined && process->here_ns <= world->now_ns &&
                   process->stopped_ns <= world->now_ns) {
            process->is_here = process->has_joined = true;
            fleet_links_rank_joined(world, agent, rank);
        } else if (rank == 0 && !process->has_met &&
                   world->now_ns - process->here_ns > rendezvous_ns) {
            fleet_ranks_leave(world, process, STARTS_AGAIN);
        }
    }
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
