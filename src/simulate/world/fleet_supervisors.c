/* SPDX-License-Identifier: Apache-2.0
 * A unit's supervisor in virtual time: its links to agents, the messages over them, and the orders
 * of serving/supervision/supervise_unit.h, executed as in host/process/agent/supervisor.h and
 * unit_hosts.h.
 */
#include "base/check.h"
#include "base/number.h"
#include "simulate/world/fleet_state.h"

#define CONNECT_NS_MAX (30 * FLEET_SECOND) /* as in host/process/agent/unit_hosts.c */
#define TICK_NS (100 * FLEET_MS)
#define TICK_START_NS (20 * FLEET_MS)
#define GIVEN_UP_NS (3 * FLEET_SECOND) /* time until an operator restarts everything */

static void fleet_supervisors_obey(struct world *world, uint32_t unit);

static void fleet_supervisors_send(struct world *world, uint32_t unit, uint32_t part,
                                   struct fleet_frame frame) {
    struct fleet_agent_link *link = &world->hosts.supervisors[unit].links[part];
    if (!link->id || (link->is_lost && frame.kind != FRAME_END)) return;
    frame.unit = unit;
    frame.part = part;
    frame.link = link->id;
    fleet_hosts_send(world, frame, &link->out_ns);
}

static void fleet_supervisors_send_all(struct world *world, uint32_t unit,
                                       struct fleet_frame frame) {
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        fleet_supervisors_send(world, unit, part, frame);
}

static void fleet_supervisors_close_link(struct world *world, uint32_t unit, uint32_t part) {
    fleet_supervisors_send(world, unit, part, (struct fleet_frame){.kind = FRAME_END});
    world->hosts.supervisors[unit].links[part] = (struct fleet_agent_link){.id = 0};
}

/* ---- incarnations ---- */

void fleet_supervisors_begin(struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = &world->hosts;
    struct fleet_supervisor *it = &hosts->supervisors[unit];
    uint32_t life = it->life + 1, place = it->place, first = 0;
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
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++) {
        it->hosts[part] =
            (struct supervise_host){.first = first, .count = hosts->ranks_of[unit][part]};
        first += it->hosts[part].count;
    }
    fleet_log_add(world->log, world->now_ns, "supervisor begins", unit, FLEET_LOG_NOWHERE, life, 0);
    supervise_unit_start(&it->unit, world->now_ns);
    fleet_supervisors_obey(world, unit);
}

void fleet_supervisors_end(struct world *world, uint32_t unit, int64_t up_ns) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    it->alive = false;
    it->up_ns = up_ns;
    fleet_log_add(world->log, world->now_ns, "supervisor ends", unit, FLEET_LOG_NOWHERE, 0, 0);
}

/* ---- orders ---- */

static void check_if_all_answered(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        if (!it->links[part].has_answered) return;
    if (!it->is_checking) return;
    it->is_checking = false;
    supervise_unit_checked(&it->unit, true, world->now_ns);
}

static void fleet_supervisors_check_hosts(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    it->is_checking = true;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++) {
        struct fleet_agent_link *link = &it->links[part];
        if (link->is_lost) fleet_supervisors_close_link(world, unit, part);
        if (!link->id) {
            *link = (struct fleet_agent_link){.id = ++world->hosts.links,
                                              .hearing = {world->now_ns, world->now_ns}};
            fleet_supervisors_send(world, unit, part,
                                   (struct fleet_frame){.kind = FRAME_CONNECT, .number = it->life});
        }
        if (!link->has_answered)
            fleet_supervisors_send(world, unit, part, (struct fleet_frame){.kind = FRAME_CHECK});
    }
    check_if_all_answered(world, unit);
}

static void fleet_supervisors_launch(struct world *world, uint32_t unit, uint32_t number) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    it->here = it->gone = it->reported = it->epoch = 0;
    world->hosts.supervised_units[unit] =
        (struct fleet_supervised_unit){.life = it->life,
                                       .number = number,
                                       .is_cursed = fleet_dice_below(&world->hosts.returns, 8) == 0,
                                       .regroup_ns = MACHINE_NEVER};
    world->report->launches++;
    fleet_log_add(world->log, world->now_ns, "unit is launched", unit, FLEET_LOG_NOWHERE, it->life,
                  number);
    fleet_supervisors_send_all(world, unit,
                               (struct fleet_frame){.kind = FRAME_LAUNCH, .number = number});
}

/* Sends each change to all agents in the same order. */
static void report_change(struct world *world, uint32_t unit, enum fleet_frame_kind kind,
                          uint32_t rank) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    it->gone ^= 1u << rank;
    it->reported++;
    fleet_supervisors_send_all(
        world, unit,
        (struct fleet_frame){.kind = kind, .rank = rank, .epoch = it->reported, .gone = it->gone});
}

static void notify_gone(struct world *world, uint32_t unit, uint32_t rank) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    if (it->gone >> rank & 1) return; /* it has not returned */
    if (fleet_agents_process(&world->hosts, unit, rank))
        world_breach(world, "a rank that lives is said to be gone");
    report_change(world, unit, FRAME_GONE, rank);
}

static void fleet_supervisors_abandon(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    world->report->abandons++;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        if (it->hosts[part].is_abandoned) fleet_supervisors_close_link(world, unit, part);
}

static void fleet_supervisors_give_up(struct world *world, uint32_t unit) {
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        fleet_supervisors_close_link(world, unit, part);
    world->report->given_up++;
    fleet_supervisors_end(world, unit, world->now_ns + GIVEN_UP_NS);
}

static void fleet_supervisors_start_again(struct world *world, uint32_t unit,
                                          const struct supervise_order *order) {
    const struct supervise_host *hosts = world->hosts.supervisors[unit].hosts;
    world->report->again++;
    fleet_log_add(world->log, world->now_ns, "rank is started again", unit, order->rank,
                  order->number, 0);
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        if (order->rank - hosts[part].first < hosts[part].count)
            fleet_supervisors_send(world, unit, part,
                                   (struct fleet_frame){.kind = FRAME_AGAIN,
                                                        .number = order->number,
                                                        .rank = order->rank});
}

static void fleet_supervisors_perform(struct world *world, uint32_t unit,
                                      const struct supervise_order *order) {
    switch (order->kind) {
    case SUPERVISE_CHECK:
        fleet_supervisors_check_hosts(world, unit);
        break;
    case SUPERVISE_LAUNCH:
        fleet_supervisors_launch(world, unit, order->number);
        break;
    case SUPERVISE_REPORT_GONE:
        notify_gone(world, unit, order->rank);
        break;
    case SUPERVISE_KILL:
        fleet_supervisors_send_all(
            world, unit, (struct fleet_frame){.kind = FRAME_KILL, .rank = FLEET_ALL_RANKS});
        break;
    case SUPERVISE_KILL_RANK:
        fleet_supervisors_send_all(world, unit,
                                   (struct fleet_frame){.kind = FRAME_KILL, .rank = order->rank});
        break;
    case SUPERVISE_AGAIN:
        fleet_supervisors_start_again(world, unit, order);
        break;
    case SUPERVISE_ABANDON:
        fleet_supervisors_abandon(world, unit);
        break;
    case SUPERVISE_GIVE_UP:
        fleet_supervisors_give_up(world, unit);
        break;
    case SUPERVISE_SAY_RANK_GIVEN_UP:
        world->report->ranks_given_up++;
        break;
    case SUPERVISE_SAY_STUCK:
        world->report->stuck[order->finding.verdict]++;
        fleet_log_add(world->log, world->now_ns, "unit is stuck", unit, order->finding.rank,
                      order->finding.verdict, (uint64_t)order->finding.silent_ns / FLEET_MS);
        break;
    default: /* only for a log */
        break;
    }
}

static void fleet_supervisors_obey(struct world *world, uint32_t unit) {
    struct supervise_order order;
    while (supervise_unit_next(&world->hosts.supervisors[unit].unit, &order))
        fleet_supervisors_perform(world, unit, &order);
}

/* ---- events ---- */

static void fleet_supervisors_lose(struct world *world, uint32_t unit, uint32_t part) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    it->links[part].is_lost = true;
    it->links[part].has_answered = false;
    world->report->hosts_lost++;
    fleet_log_add(world->log, world->now_ns, "host is lost", unit, FLEET_LOG_NOWHERE, part,
                  it->unit.state);
    supervise_unit_lose_host(&it->unit, part, world->now_ns);
}

static void fleet_supervisors_take_signs(struct fleet_supervisor *it,
                                         const struct fleet_frame *frame) {
    const struct supervise_host *host = &it->hosts[frame->part];
    for (uint32_t rank = host->first; rank < host->first + host->count; rank++)
        if (!supervise_unit_sign(&it->unit, frame->number, rank, &frame->signs[rank])) return;
    if (frame->part == 0) it->epoch = frame->epoch;
}

/* Records that a rank has joined, at the start or after its return. */
static void fleet_supervisors_take_join(struct world *world, const struct fleet_frame *frame) {
    struct fleet_supervisor *it = &world->hosts.supervisors[frame->unit];
    uint32_t all = (1u << world->ranks) - 1;
    if (frame->number != it->unit.number) return;
    if (it->gone >> frame->rank & 1) {
        if (it->here == all) report_change(world, frame->unit, FRAME_BACK, frame->rank);
        return;
    }
    it->here |= 1u << frame->rank;
    if (it->here != all) return;
    fleet_supervisors_send_all(
        world, frame->unit, (struct fleet_frame){.kind = FRAME_MEMBERS, .number = frame->number});
}

void fleet_supervisors_take(struct world *world, const struct fleet_frame *frame) {
    struct fleet_supervisor *it = &world->hosts.supervisors[frame->unit];
    struct fleet_agent_link *link = &it->links[frame->part];
    if (!it->alive || link->id != frame->link || link->is_lost) return;
    if (frame->kind == FRAME_LOST) {
        fleet_supervisors_lose(world, frame->unit, frame->part);
        fleet_supervisors_obey(world, frame->unit);
        return;
    }
    link->hearing.received_ns = world->now_ns;
    link->has_reported = true;
    switch (frame->kind) {
    case FRAME_FACTS:
        link->has_answered = true;
        check_if_all_answered(world, frame->unit);
        break;
    case FRAME_JOIN:
        fleet_supervisors_take_join(world, frame);
        break;
    case FRAME_SIGNS:
        fleet_supervisors_take_signs(it, frame);
        break;
    case FRAME_ENDED:
        supervise_unit_ended(&it->unit, frame->number, frame->rank, frame->how, world->now_ns);
        break;
    default:
        check(frame->kind == FRAME_PONG);
    }
    fleet_supervisors_obey(world, frame->unit);
}

/* ---- time ---- */

static void tick_link(struct world *world, uint32_t unit, uint32_t part) {
    struct fleet_agent_link *link = &world->hosts.supervisors[unit].links[part];
    int64_t timeout_ns = link->has_reported ? world->hosts.timeout_ns : CONNECT_NS_MAX;
    if (!link->id || link->is_lost) return;
    int64_t silent_ns = supervise_silence(&link->hearing, timeout_ns, world->now_ns);
    if (link->has_reported &&
        world->now_ns - link->pinged_ns >= supervise_interval_ns(timeout_ns)) {
        link->pinged_ns = world->now_ns;
        fleet_supervisors_send(world, unit, part, (struct fleet_frame){.kind = FRAME_PING});
    }
    if (silent_ns) fleet_supervisors_lose(world, unit, part);
}

static bool has_received_all(const struct world *world, uint32_t unit) {
    const struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        if (it->links[part].id &&
            world->now_ns - it->links[part].hearing.received_ns > it->unit.timeout.wall_ns / 2)
            return false;
    return true;
}

void fleet_supervisors_run(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    if (!it->alive && it->up_ns <= world->now_ns) fleet_supervisors_begin(world, unit);
    if (!it->alive || it->tick_ns > world->now_ns || it->stopped_ns > world->now_ns) return;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        tick_link(world, unit, part);
    fleet_supervisors_obey(world, unit);
    for (uint32_t rank = 1; rank < world->ranks; rank++)
        if (!(it->gone >> rank & 1)) supervise_unit_came(&it->unit, rank);
    const struct supervise_epochs epochs = {.reported = it->reported, .said = it->epoch};
    supervise_unit_tick(&it->unit, epochs, has_received_all(world, unit), world->now_ns);
    fleet_supervisors_obey(world, unit);
    bool starting = !it->unit.ready || it->unit.state != SUPERVISE_RUNS;
    it->tick_ns = world->now_ns + (starting ? TICK_START_NS : TICK_NS);
}

int64_t fleet_supervisors_wake_ns(const struct world *world, uint32_t unit) {
    const struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    if (!it->alive) return it->up_ns;
    return it->tick_ns > it->stopped_ns ? it->tick_ns : it->stopped_ns;
}
