/* SPDX-License-Identifier: Apache-2.0
 * The network of a simulated fleet's hosts: the frames in transit, which machines reach each other,
 * and which processes of a unit run and are connected.
 */
#include "simulate/world/fleet_state.h"

/* ---- frames ---- */

int64_t fleet_network_cut_ns(const struct world *world, uint32_t machine, uint32_t other) {
    const struct fleet_hosts *hosts = &world->hosts;
    if (machine == other) return 0;
    int64_t cut_ns = hosts->cut_ns[machine][other];
    if (cut_ns < hosts->machines[machine].off_ns) cut_ns = hosts->machines[machine].off_ns;
    if (cut_ns < hosts->machines[other].off_ns) cut_ns = hosts->machines[other].off_ns;
    return cut_ns > world->now_ns ? cut_ns : 0;
}

uint32_t fleet_network_machine_of(const struct world *world, const struct fleet_agent *agent) {
    return world->hosts.machine_of[agent->unit][agent->part];
}

void fleet_network_put(struct fleet_hosts *hosts, struct fleet_frame frame, int64_t due_ns) {
    frame.record.bytes = sizeof frame;
    post_send(&hosts->frames, due_ns, frame.link, &frame.record);
}

void fleet_network_send(struct world *world, struct fleet_frame frame, int64_t *out_ns) {
    struct fleet_hosts *hosts = &world->hosts;
    uint32_t machine = hosts->machine_of[frame.unit][frame.part];
    uint32_t other = hosts->supervisors[frame.unit].place;
    bool slow = hosts->machines[machine].slow_ns > world->now_ns ||
                hosts->machines[other].slow_ns > world->now_ns;
    int64_t due_ns = world->now_ns + fleet_dice_time(&hosts->dice, FLEET_MS / 10,
                                                     slow ? FLEET_SECOND / 2 : 3 * FLEET_MS);
    if (*out_ns < due_ns) *out_ns = due_ns;
    fleet_network_put(hosts, frame, *out_ns);
}

struct fleet_agent *fleet_network_agent_of(const struct fleet_hosts *hosts,
                                           const struct fleet_frame *frame) {
    for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
        const struct fleet_agent *agent = &hosts->agents[frame->unit][frame->part][i];
        if (agent->alive && agent->link == frame->link)
            return (struct fleet_agent *)(uintptr_t)agent;
    }
    return NULL;
}

/* ---- processes ---- */

bool fleet_network_launched(const struct fleet_supervised_unit *supervised_unit,
                            const struct fleet_agent *agent) {
    return agent->alive && agent->life == supervised_unit->life &&
           agent->machine.number == supervised_unit->number;
}

struct fleet_process *fleet_network_incarnation(struct fleet_hosts *hosts, uint32_t unit,
                                                uint32_t rank) {
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
        for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
            struct fleet_agent *agent = &hosts->agents[unit][part][i];
            if (fleet_network_launched(&hosts->supervised_units[unit], agent) &&
                agent->processes[rank].alive)
                return &agent->processes[rank];
        }
    return NULL;
}

struct fleet_process *fleet_network_process(struct fleet_hosts *hosts, uint32_t unit,
                                            uint32_t rank) {
    struct fleet_process *process = fleet_network_incarnation(hosts, unit, rank);
    return process && !process->returns ? process : NULL;
}

void fleet_network_leave(struct world *world, struct fleet_process *process, int number) {
    int64_t end_ns = world->now_ns + fleet_dice_time(&world->hosts.dice, FLEET_MS, 50 * FLEET_MS);
    if (process->end_ns <= end_ns) return;
    process->end_ns = end_ns;
    process->how = (struct supervise_how){.number = number};
}

void fleet_network_finish(struct world *world, uint32_t unit) {
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_process *process = fleet_network_process(&world->hosts, unit, rank);
        if (process) fleet_network_leave(world, process, 0);
    }
}

bool fleet_network_is_whole(const struct world *world, uint32_t unit, uint32_t without) {
    struct fleet_hosts *hosts = (struct fleet_hosts *)(uintptr_t)&world->hosts;
    uint32_t rank = 0;
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++) {
        uint32_t living = 0;
        for (uint32_t i = 0; i < hosts->ranks_of[unit][part]; i++, rank++) {
            const struct fleet_process *process = fleet_network_incarnation(hosts, unit, rank);
            if (without >> rank & 1) continue;
            if (!process || process->stopped_ns > world->now_ns) return false;
            living++;
        }
        for (uint32_t other = 0; living && other < part; other++)
            if (fleet_network_cut_ns(world, hosts->machine_of[unit][part],
                                     hosts->machine_of[unit][other]))
                return false;
    }
    return true;
}

bool fleet_network_holds(const struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = (struct fleet_hosts *)(uintptr_t)&world->hosts;
    const struct fleet_supervised_unit *supervised_unit = &hosts->supervised_units[unit];
    if (!hosts->present || !supervised_unit->serves) return false;
    const struct fleet_process *first = fleet_network_incarnation(hosts, unit, 0);
    return !first || first->epoch != supervised_unit->epoch ||
           !fleet_network_is_whole(world, unit, supervised_unit->without);
}

/* ---- faults ---- */

void fleet_network_last(struct world *world, int64_t *until_ns, struct fleet_dice *dice,
                        int64_t most_ns) {
    int64_t ns = world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 20, most_ns);
    if (*until_ns < ns) *until_ns = ns;
}
