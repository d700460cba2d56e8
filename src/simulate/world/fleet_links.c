/* SPDX-License-Identifier: Apache-2.0
 * Executes the orders of supervisors (serving/supervision/supervise_unit.h) and agents
 * (serving/supervision/supervise_agent.h) in virtual time, over virtual links, and reports the
 * results to them. Frames between ranks and supervisor have no addresses
 * (compute/exchange/job_rendezvous.h).
 */
#include "base/check.h"
#include "base/number.h"
#include "simulate/world/fleet_state.h"

#define GIVEN_UP_NS (3 * FLEET_SECOND) /* time until an operator restarts a lost unit */
#define ANSWERS_NS (30 * FLEET_SECOND) /* time that a host has to report what it has */

/* ---- supervisors ---- */

static void send_to_agent(struct world *world, uint32_t unit, uint32_t part,
                          struct fleet_frame frame) {
    struct fleet_agent_link *link = &world->hosts.supervisors[unit].links[part];
    frame.unit = unit;
    frame.part = part;
    frame.link = link->id;
    if (link->id) fleet_network_send(world, frame, &link->out_ns);
}

static void send_to_agents(struct world *world, uint32_t unit, struct fleet_frame frame) {
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        if (world->hosts.supervisors[unit].hosts[part].is_linked)
            send_to_agent(world, unit, part, frame);
}

static void fleet_links_close(struct world *world, uint32_t unit, uint32_t part) {
    send_to_agent(world, unit, part, (struct fleet_frame){.kind = FRAME_END});
    world->hosts.supervisors[unit].links[part] = (struct fleet_agent_link){.id = 0};
}

static void fleet_links_connect(struct world *world, uint32_t unit, uint32_t part) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    fleet_links_close(world, unit, part);
    it->links[part].id = ++world->hosts.links;
    send_to_agent(world, unit, part,
                  (struct fleet_frame){.kind = FRAME_CONNECT, .number = it->life});
}

static void fleet_links_launch(struct world *world, uint32_t unit,
                               const struct supervise_order *order) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    rank_epochs_open(&it->epochs, world->ranks);
    it->epoch = 0;
    world->hosts.supervised_units[unit] =
        (struct fleet_supervised_unit){.life = it->life,
                                       .number = order->number,
                                       .is_cursed = fleet_dice_below(&world->hosts.returns, 5) == 0,
                                       .regroup_ns = MACHINE_NEVER};
    world->report->launches++;
    fleet_log_add(world->log, world->now_ns, "unit is launched", unit, FLEET_LOG_NOWHERE, it->life,
                  order->number);
    send_to_agents(world, unit, (struct fleet_frame){.kind = FRAME_ORDER, .order = *order});
}

/* Sends the changes of the ranks and their meetings to all agents, in the same order to each. */
static void report_epochs(struct world *world, uint32_t unit) {
    static const enum fleet_frame_kind kinds[] = {[RANK_EPOCHS_MET] = FRAME_MEMBERS,
                                                  [RANK_EPOCHS_GONE] = FRAME_GONE,
                                                  [RANK_EPOCHS_BACK] = FRAME_BACK};
    struct rank_epochs *epochs = &world->hosts.supervisors[unit].epochs;
    struct fleet_frame frame = {.epoch = epochs->epoch};
    enum rank_epochs_message message;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        frame.gone |= (uint32_t)epochs->gone[rank] << rank;
    while ((message = rank_epochs_next(epochs, &frame.rank)) != RANK_EPOCHS_NONE) {
        frame.kind = kinds[message];
        send_to_agents(world, unit, frame);
    }
}

static void notify_gone(struct world *world, uint32_t unit, uint32_t rank) {
    bool lives = fleet_network_process(&world->hosts, unit, rank) != NULL;
    if (!rank_epochs_leave(&world->hosts.supervisors[unit].epochs, rank)) return;
    if (lives) world_breach(world, "a rank that lives is said to be gone");
    report_epochs(world, unit);
}

static void fleet_links_abandon(struct world *world, uint32_t unit) {
    world->report->abandons++;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        if (world->hosts.supervisors[unit].hosts[part].is_abandoned)
            fleet_links_close(world, unit, part);
}

static void fleet_links_give_up(struct world *world, uint32_t unit) {
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        fleet_links_close(world, unit, part);
    world->report->given_up++;
    fleet_links_end_supervisor(world, unit, world->now_ns + GIVEN_UP_NS);
}

static void fleet_links_verify(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        supervise_unit_verified(&it->unit, part, it->links[part].is_right, world->now_ns);
}

static void fleet_links_start_again(struct world *world, uint32_t unit,
                                    const struct supervise_order *order) {
    world->report->restarts++;
    fleet_log_add(world->log, world->now_ns, "rank is started again", unit, order->rank,
                  order->number, 0);
    send_to_agents(world, unit, (struct fleet_frame){.kind = FRAME_ORDER, .order = *order});
}

static void fleet_links_say(struct world *world, uint32_t unit,
                            const struct supervise_order *order) {
    struct fleet_world_report *report = world->report;
    report->ranks_given_up += order->kind == SUPERVISE_SAY_RANK_GIVEN_UP;
    if (order->kind == SUPERVISE_SAY_LOST) {
        struct fleet_frame any = {.unit = unit,
                                  .part = order->host,
                                  .link = world->hosts.supervisors[unit].links[order->host].id};
        const struct fleet_agent *agent = fleet_network_agent_of(&world->hosts, &any);
        if (agent && agent->look_ns > world->now_ns && order->ns && order->ns < ANSWERS_NS)
            world_breach(world, "a host that looks what it has is taken for lost");
        report->hosts_lost++;
        fleet_log_add(world->log, world->now_ns, "host is lost", unit, FLEET_LOG_NOWHERE,
                      order->host, (uint64_t)order->ns / FLEET_MS);
    }
    if (order->kind == SUPERVISE_SAY_STUCK) {
        report->stuck[order->finding.verdict]++;
        fleet_log_add(world->log, world->now_ns, "unit is stuck", unit, order->finding.rank,
                      order->finding.verdict, (uint64_t)order->finding.silent_ns / FLEET_MS);
    }
}

static void fleet_links_perform(struct world *world, uint32_t unit,
                                const struct supervise_order *order) {
    const struct fleet_frame frame = {.kind = FRAME_ORDER, .order = *order};
    switch (order->kind) {
    case SUPERVISE_CONNECT:
        fleet_links_connect(world, unit, order->host);
        break;
    case SUPERVISE_ASK:
    case SUPERVISE_REACH:
        send_to_agent(world, unit, order->host, frame);
        break;
    case SUPERVISE_PING:
    case SUPERVISE_KILL:
        send_to_agents(world, unit, frame);
        break;
    case SUPERVISE_VERIFY:
        fleet_links_verify(world, unit);
        break;
    case SUPERVISE_LAUNCH:
        fleet_links_launch(world, unit, order);
        break;
    case SUPERVISE_REPORT_GONE:
        notify_gone(world, unit, order->rank);
        break;
    case SUPERVISE_AGAIN:
        fleet_links_start_again(world, unit, order);
        break;
    case SUPERVISE_ABANDON:
        fleet_links_abandon(world, unit);
        break;
    case SUPERVISE_GIVE_UP:
        fleet_links_give_up(world, unit);
        break;
    default:
        fleet_links_say(world, unit, order);
        break;
    }
}

static void obey_supervisor(struct world *world, uint32_t unit) {
    struct supervise_order order;
    while (supervise_unit_next(&world->hosts.supervisors[unit].unit, &order))
        fleet_links_perform(world, unit, &order);
}

void fleet_links_begin_supervisor(struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = &world->hosts;
    struct fleet_supervisor *it = &hosts->supervisors[unit];
    uint32_t life = it->life + 1, place = it->place;
    *it = (struct fleet_supervisor){
        .alive = true, .life = life, .place = place, .up_ns = MACHINE_NEVER};
    it->unit = (struct supervise_unit){
        .hosts = it->hosts,
        .host_count = hosts->part_count[unit],
        .signs = it->signs,
        .members = it->members,
        .watch = {.ranks = it->ranks, .rank_count = world->ranks},
        .timeout = supervise_timeout(hosts->timeout_ns, 1, 1),
    };
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
        it->hosts[part] = (struct supervise_host){.first = hosts->first_of[unit][part],
                                                  .count = hosts->ranks_of[unit][part]};
    fleet_log_add(world->log, world->now_ns, "supervisor begins", unit, FLEET_LOG_NOWHERE, life, 0);
    supervise_unit_start(&it->unit, world->now_ns);
    obey_supervisor(world, unit);
}

void fleet_links_end_supervisor(struct world *world, uint32_t unit, int64_t up_ns) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    it->alive = false;
    it->up_ns = up_ns;
    fleet_log_add(world->log, world->now_ns, "supervisor ends", unit, FLEET_LOG_NOWHERE, 0, 0);
}

static void fleet_links_take_signs(struct fleet_supervisor *it, const struct fleet_frame *frame) {
    const struct supervise_host *host = &it->hosts[frame->part];
    for (uint32_t rank = host->first; rank < host->first + host->count; rank++)
        if (!supervise_unit_sign(&it->unit, frame->number, rank, &frame->signs[rank])) return;
    if (frame->part == 0) it->epoch = frame->epoch;
}

/* Takes a JOIN: a rank has joined an epoch, or a lost one is there again. */
static void fleet_links_take_join(struct world *world, const struct fleet_frame *frame) {
    struct rank_epochs *epochs = &world->hosts.supervisors[frame->unit].epochs;
    rank_epochs_join(epochs, frame->rank, frame->epoch);
    report_epochs(world, frame->unit);
}

static void take_from_agent(struct world *world, const struct fleet_frame *frame) {
    struct fleet_supervisor *it = &world->hosts.supervisors[frame->unit];
    struct fleet_agent_link *link = &it->links[frame->part];
    if (!it->alive || link->id != frame->link) return;
    if (frame->kind == FRAME_LOST)
        supervise_unit_lose_host(&it->unit, frame->part, world->now_ns);
    else if (!supervise_unit_received(&it->unit, frame->part, world->now_ns))
        return;
    if (frame->kind == FRAME_FACTS) {
        link->is_right = frame->is_right;
        supervise_unit_answered(&it->unit, frame->part, true);
    }
    if (frame->kind == FRAME_REACHED)
        supervise_unit_reached(&it->unit, frame->order.round, frame->is_right, world->now_ns);
    if (frame->kind == FRAME_JOIN) fleet_links_take_join(world, frame);
    if (frame->kind == FRAME_SIGNS) fleet_links_take_signs(it, frame);
    if (frame->kind == FRAME_ENDED)
        supervise_unit_ended(&it->unit, frame->part, frame->number, frame->rank, frame->how,
                             world->now_ns);
    obey_supervisor(world, frame->unit);
}

static void run_supervisor(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    if (!it->alive && it->up_ns <= world->now_ns) fleet_links_begin_supervisor(world, unit);
    if (!it->alive || it->tick_ns > world->now_ns || it->stopped_ns > world->now_ns) return;
    for (uint32_t rank = 1; rank < world->ranks; rank++)
        if (!it->epochs.gone[rank]) supervise_unit_came(&it->unit, rank);
    const struct supervise_epochs epochs = {.reported = it->epochs.epoch, .said = it->epoch};
    it->tick_ns = world->now_ns + supervise_unit_tick(&it->unit, epochs, world->now_ns);
    obey_supervisor(world, unit);
}

/* ---- agents ---- */

static void report(struct world *world, struct fleet_agent *agent, struct fleet_frame frame) {
    frame.unit = agent->unit;
    frame.part = agent->part;
    frame.link = agent->link;
    frame.number = agent->machine.number;
    /* a stopped agent sends when it continues */
    if (agent->out_ns < agent->stopped_ns) agent->out_ns = agent->stopped_ns;
    fleet_network_send(world, frame, &agent->out_ns);
}

static void report_signs(struct world *world, struct fleet_agent *agent) {
    struct fleet_frame frame = {.kind = FRAME_SIGNS};
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        frame.signs[rank] = fleet_ranks_sign(world, agent, rank);
    frame.epoch = fleet_ranks_epoch(world, agent);
    report(world, agent, frame);
}

static void report_all(struct world *world, struct fleet_agent *agent,
                       struct supervise_agent_report all) {
    if (all.signs) report_signs(world, agent);
    for (uint32_t i = 0; i < all.count; i++)
        report(world, agent,
               (struct fleet_frame){.kind = FRAME_ENDED, .rank = all.rank + i, .how = all.how});
}

/* Reports that the process of a rank has ended. */
static void report_ended(struct world *world, struct fleet_agent *agent, uint32_t rank) {
    report_all(world, agent, supervise_agent_ended(rank, agent->processes[rank].how));
}

/* Kills one rank, or SUPERVISE_ALL_RANKS, and reports each. */
static void fleet_links_kill_ranks(struct world *world, struct fleet_agent *agent, uint32_t one) {
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        if ((one == rank || one == SUPERVISE_ALL_RANKS) && fleet_ranks_kill(world, agent, rank))
            report_ended(world, agent, rank);
}

void fleet_links_end_agent(struct world *world, struct fleet_agent *agent, bool quietly) {
    if (!agent->alive) return;
    fleet_ranks_kill_all(world, agent);
    agent->alive = false;
    fleet_log_add(world->log, world->now_ns, "agent ends", agent->unit, FLEET_LOG_NOWHERE,
                  agent->part, agent->link);
    if (!quietly) report(world, agent, (struct fleet_frame){.kind = FRAME_LOST});
}

static void begin_agent(struct world *world, const struct fleet_frame *frame) {
    struct fleet_agent *agents = world->hosts.agents[frame->unit][frame->part];
    uint32_t free = 0;
    while (free < FLEET_AGENTS_EACH && agents[free].alive)
        free++;
    if (free == FLEET_AGENTS_EACH) {
        world_breach(world, "agents of a unit gather on a host");
        return;
    }
    agents[free] = (struct fleet_agent){.alive = true,
                                        .unit = frame->unit,
                                        .part = frame->part,
                                        .link = frame->link,
                                        .life = frame->number};
    supervise_agent_open(&agents[free].machine, world->now_ns);
}

/* The unit's previous agent on this host ends before the new one reports what the host has
 * (host/process/agent/agent_lock.h). */
static void look_at_host(struct world *world, struct fleet_agent *agent) {
    const struct fleet_machine *machine =
        &world->hosts.machines[fleet_network_machine_of(world, agent)];
    struct fleet_agent *agents = world->hosts.agents[agent->unit][agent->part];
    for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++)
        if (&agents[i] != agent && agents[i].life == agent->life)
            fleet_links_end_agent(world, &agents[i], false);
    agent->machine.timeout_ns = world->hosts.timeout_ns;
    int64_t most_ns = machine->late_ns > world->now_ns ? 40 * FLEET_SECOND : 50 * FLEET_MS;
    agent->look_ns = world->now_ns + fleet_dice_time(&world->hosts.dice, FLEET_MS, most_ns);
    if (agent->stopped_ns < agent->look_ns) agent->stopped_ns = agent->look_ns;
    bool is_full = machine->full_ns > world->now_ns;
    world->report->late_answers += agent->look_ns - world->now_ns > world->hosts.timeout_ns;
    world->report->refused_hosts += is_full;
    report(world, agent, (struct fleet_frame){.kind = FRAME_FACTS, .is_right = !is_full});
}

static void fleet_links_try_to_reach(struct world *world, struct fleet_agent *agent,
                                     const struct supervise_order *order) {
    const struct fleet_hosts *hosts = &world->hosts;
    uint32_t other = hosts->machine_of[agent->unit][order->other];
    bool is_right = !hosts->is_chosen ||
                    !fleet_network_cut_ns(world, fleet_network_machine_of(world, agent), other);
    world->report->refused_hosts += !is_right;
    report(world, agent,
           (struct fleet_frame){.kind = FRAME_REACHED, .order = *order, .is_right = is_right});
}

/* True if ranks of the unit still live on this host, under an agent of a replaced supervisor. */
static bool has_old_ranks(const struct world *world, const struct fleet_agent *agent) {
    const struct fleet_agent *agents = world->hosts.agents[agent->unit][agent->part];
    bool any = false;
    for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++)
        for (uint32_t rank = 0; rank < world->ranks; rank++)
            any |=
                agents[i].alive && agents[i].life != agent->life && agents[i].processes[rank].alive;
    return any;
}

static void fleet_links_launch_ranks(struct world *world, struct fleet_agent *agent,
                                     uint32_t number) {
    const struct fleet_hosts *hosts = &world->hosts;
    fleet_ranks_kill_all(world, agent);
    supervise_agent_launch(&agent->machine, number, hosts->first_of[agent->unit][agent->part],
                           hosts->ranks_of[agent->unit][agent->part]);
    agent->tick_ns = world->now_ns;
    world->report->doubled += has_old_ranks(world, agent);
    report_all(world, agent,
               supervise_agent_launched(&agent->machine, fleet_ranks_start(world, agent)));
}

static void fleet_links_take_order(struct world *world, struct fleet_agent *agent,
                                   const struct supervise_order *order) {
    switch (order->kind) {
    case SUPERVISE_ASK:
        look_at_host(world, agent);
        break;
    case SUPERVISE_REACH:
        fleet_links_try_to_reach(world, agent, order);
        break;
    case SUPERVISE_LAUNCH:
        fleet_links_launch_ranks(world, agent, order->number);
        break;
    case SUPERVISE_KILL:
        fleet_links_kill_ranks(world, agent, order->rank);
        break;
    case SUPERVISE_AGAIN:
        if (supervise_agent_restarts(&agent->machine, order->number, order->rank))
            report_all(world, agent,
                       supervise_agent_restarted(order->rank,
                                                 fleet_ranks_restart(world, agent, order->rank)));
        break;
    default:
        check(order->kind == SUPERVISE_PING);
        report(world, agent, (struct fleet_frame){.kind = FRAME_PONG});
    }
}

static void take_from_supervisor(struct world *world, const struct fleet_frame *frame) {
    if (frame->kind == FRAME_CONNECT) begin_agent(world, frame);
    struct fleet_agent *agent = fleet_network_agent_of(&world->hosts, frame);
    if (!agent) return;
    agent->machine.hearing.received_ns = world->now_ns;
    if (frame->kind == FRAME_END)
        fleet_links_end_agent(world, agent, false);
    else if (frame->kind == FRAME_ORDER)
        fleet_links_take_order(world, agent, &frame->order);
    else if (frame->kind != FRAME_CONNECT)
        fleet_ranks_take(world, agent, frame);
}

static void run_agent(struct world *world, struct fleet_agent *agent) {
    if (!agent->alive) return;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        enum fleet_process_event event = fleet_ranks_run_process(world, agent, rank);
        if (event == FLEET_PROCESS_ENDED) report_ended(world, agent, rank);
        if (event == FLEET_PROCESS_JOINED)
            report(world, agent,
                   (struct fleet_frame){
                       .kind = FRAME_JOIN, .rank = rank, .epoch = agent->processes[rank].epoch});
    }
    if (agent->tick_ns > world->now_ns || agent->stopped_ns > world->now_ns) return;
    if (agent->kept_ns > world->now_ns) agent->machine.hearing.received_ns = world->now_ns;
    const struct supervise_agent_next next = supervise_agent_look(
        &agent->machine, fleet_ranks_count_changes(world, agent), world->now_ns);
    agent->tick_ns = world->now_ns + next.wait_ns;
    if (next.signs) report_signs(world, agent);
    if (next.silent_ns) fleet_links_end_agent(world, agent, false);
}

/* ---- both ---- */

void fleet_links_take(struct world *world, const struct fleet_frame *frame) {
    if (frame->kind >= FRAME_FACTS)
        take_from_agent(world, frame);
    else
        take_from_supervisor(world, frame);
}

void fleet_links_run(struct world *world, uint32_t unit) {
    run_supervisor(world, unit);
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++)
            run_agent(world, &world->hosts.agents[unit][part][i]);
    fleet_ranks_run(world, unit);
}

int64_t fleet_links_wake_ns(const struct world *world, uint32_t unit) {
    const struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    int64_t wake_ns = it->up_ns;
    if (it->alive) wake_ns = it->tick_ns > it->stopped_ns ? it->tick_ns : it->stopped_ns;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
            const struct fleet_agent *agent = &world->hosts.agents[unit][part][i];
            int64_t tick_ns =
                agent->tick_ns > agent->stopped_ns ? agent->tick_ns : agent->stopped_ns;
            if (agent->alive) wake_ns = min_i64(wake_ns, tick_ns);
        }
    return min_i64(wake_ns, fleet_ranks_wake_ns(world, unit));
}
