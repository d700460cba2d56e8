/* SPDX-License-Identifier: Apache-2.0
 * The machines of a simulated fleet, the network between them, the faults of both, and the
 * invariants that are checked at all times.
 */
#include "simulate/world/fleet_hosts.h"

#include "base/check.h"
#include "base/number.h"
#include "serving/policy/place_ranks.h"
#include "simulate/world/fleet_state.h"

#define STREAM 64
#define STREAM_RETURNS 63
#define STREAM_FAULTS 65 /* the first of one stream for each kind of fault */
/* Limit, in timeouts, for the detection of ranks that wait for one another. */
#define DEADLOCKS 5
#define GOES_ON_NS (10 * FLEET_SECOND) /* limit until the living ranks continue */
#define CHECKS_NS (30 * FLEET_SECOND)  /* limit until hosts respond, and between two starts */
#define ENDS_NS (5 * FLEET_SECOND)     /* limit until killed ranks are gone */
#define FRAMES_BYTES ((size_t)2 << 20) /* frames in transit */

/* ---- the network ---- */

static bool is_up(const struct fleet_frame *frame) {
    return frame->kind >= FRAME_FACTS;
}

static bool is_lost(const struct fleet_hosts *hosts, const struct fleet_frame *frame) {
    return frame->link <= hosts->broken[frame->unit][frame->part] && !frame->is_notice;
}

/* The time until which a frame that has arrived cannot be received. It is the same for all frames
 * of a link in one direction, so they keep their order. */
static int64_t held_ns(const struct world *world, const struct fleet_frame *frame) {
    const struct fleet_hosts *hosts = &world->hosts;
    const struct fleet_supervisor *supervisor = &hosts->supervisors[frame->unit];
    uint32_t machine = hosts->machine_of[frame->unit][frame->part];
    int64_t cut_ns = fleet_network_cut_ns(world, machine, supervisor->place);
    const struct fleet_agent *agent = fleet_network_agent_of(hosts, frame);
    if (is_lost(hosts, frame)) return 0;
    if (cut_ns) return cut_ns;
    if (is_up(frame)) return supervisor->stopped_ns;
    return agent ? agent->stopped_ns : 0;
}

/* Handles a connection to a host that is down: it gets no response, or the network reports the
 * failure. */
static void refuse(struct world *world, const struct fleet_frame *frame) {
    struct fleet_dice *dice = &world->hosts.dice;
    const struct fleet_frame lost = {
        .kind = FRAME_LOST, .unit = frame->unit, .part = frame->part, .link = frame->link};
    if (frame->kind != FRAME_CONNECT || !fleet_dice_below(dice, 4)) return;
    fleet_network_put(&world->hosts, lost,
                      world->now_ns + fleet_dice_time(dice, 0, 3 * FLEET_SECOND));
}

/* The frame at an offset, which moves to the next frame if this one cannot be received. Returns
 * NULL after the last frame that has arrived. */
static const struct fleet_frame *next_frame(const struct world *world, size_t *at_io,
                                            int64_t *held_ns_out) {
    const struct post_message *message = post_at(&world->hosts.frames, *at_io);
    if (!message || message->due_ns > world->now_ns) return NULL;
    const struct fleet_frame *frame = (const void *)&message->record;
    *held_ns_out = held_ns(world, frame);
    if (*held_ns_out > world->now_ns) *at_io += message->bytes;
    return frame;
}

static void fleet_hosts_deliver(struct world *world) {
    struct fleet_hosts *hosts = &world->hosts;
    const struct fleet_frame *next;
    size_t at = 0;
    int64_t until_ns;
    while ((next = next_frame(world, &at, &until_ns))) {
        const struct fleet_frame frame = *next;
        if (until_ns > world->now_ns) continue;
        post_drop(&hosts->frames, at);
        if (is_lost(hosts, &frame)) continue;
        if (is_up(&frame) || hosts->machines[hosts->machine_of[frame.unit][frame.part]].up)
            fleet_links_take(world, &frame);
        else
            refuse(world, &frame);
    }
}

/* The time at which the next frame can be received. */
static int64_t frame_wake_ns(const struct world *world) {
    int64_t wake_ns = MACHINE_NEVER, until_ns;
    size_t at = 0;
    while (next_frame(world, &at, &until_ns) && until_ns > world->now_ns)
        wake_ns = min_i64(wake_ns, until_ns);
    const struct post_message *next = post_at(&world->hosts.frames, at);
    return next ? min_i64(wake_ns, next->due_ns) : wake_ns;
}

/* ---- faults ---- */

static uint32_t fleet_hosts_any_unit(const struct world *world, struct fleet_dice *dice) {
    return fleet_dice_below(dice, world->unit_count);
}

static void kill_process(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    fleet_ranks_kill_living(world, unit, fleet_dice_below(dice, world->ranks));
}

static void stop_process(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    struct fleet_process *process =
        fleet_network_process(&world->hosts, unit, fleet_dice_below(dice, world->ranks));
    if (process) fleet_network_last(world, &process->stopped_ns, dice, 6 * FLEET_SECOND);
}

/* Makes a process hang: it computes forever without a result. */
static void hang_process(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    struct fleet_process *process =
        fleet_network_process(&world->hosts, unit, fleet_dice_below(dice, world->ranks));
    if (!process) return;
    process->spins = true;
    fleet_network_last(world, &process->stopped_ns, dice, 20 * FLEET_SECOND);
}

static struct fleet_agent *any_agent(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    struct fleet_agent *agents =
        world->hosts.agents[unit][fleet_dice_below(dice, world->hosts.part_count[unit])];
    for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++)
        if (agents[i].alive) return &agents[i];
    return NULL;
}

static void kill_agent(struct world *world, struct fleet_dice *dice) {
    struct fleet_agent *agent = any_agent(world, dice);
    if (agent) fleet_links_end_agent(world, agent, false);
}

static void stop_agent(struct world *world, struct fleet_dice *dice) {
    struct fleet_agent *agent = any_agent(world, dice);
    if (agent) fleet_network_last(world, &agent->stopped_ns, dice, 8 * FLEET_SECOND);
}

/* Fails a machine. The other ends of its connections detect that at once or are not notified. */
static void lose_machine(struct world *world, uint32_t machine, struct fleet_dice *dice) {
    struct fleet_hosts *hosts = &world->hosts;
    hosts->machines[machine].up = false;
    hosts->machines[machine].up_ns =
        world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 2, 8 * FLEET_SECOND);
    fleet_log_add(world->log, world->now_ns, "host goes", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE,
                  machine, 0);
    for (uint32_t unit = 0; unit < world->unit_count; unit++) {
        struct fleet_supervisor *supervisor = &hosts->supervisors[unit];
        for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
            for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++)
                if (hosts->machine_of[unit][part] == machine)
                    fleet_links_end_agent(world, &hosts->agents[unit][part][i],
                                          fleet_dice_below(dice, 2));
        if (supervisor->place != machine || !supervisor->alive) continue;
        fleet_links_end_supervisor(world, unit,
                                   hosts->machines[machine].up_ns +
                                       fleet_dice_time(dice, FLEET_SECOND / 2, 2 * FLEET_SECOND));
    }
}

static void kill_host(struct world *world, struct fleet_dice *dice) {
    uint32_t machine = fleet_dice_below(dice, FLEET_HOSTS_MAX);
    if (world->hosts.machines[machine].up) lose_machine(world, machine, dice);
}

static void kill_first_host(struct world *world, struct fleet_dice *dice) {
    uint32_t machine = world->hosts.machine_of[fleet_hosts_any_unit(world, dice)][0];
    if (world->hosts.machines[machine].up) lose_machine(world, machine, dice);
}

/* Kills two processes at once, or one if there are no more. */
static void kill_processes(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    uint32_t first = 1 + fleet_dice_below(dice, world->ranks);
    for (uint32_t rank = first; rank < world->ranks && rank < first + 2; rank++)
        fleet_ranks_kill_living(world, unit, rank);
}

static void cut_host(struct world *world, struct fleet_dice *dice) {
    fleet_ranks_cut_host(world, fleet_dice_below(dice, FLEET_HOSTS_MAX), dice);
}

static void part_hosts(struct world *world, struct fleet_dice *dice) {
    uint32_t machine = fleet_dice_below(dice, FLEET_HOSTS_MAX);
    uint32_t other = fleet_dice_below(dice, FLEET_HOSTS_MAX + 1);
    int64_t *until_ns = &world->hosts.cut_ns[machine][other];
    fleet_network_last(world, until_ns, dice, 20 * FLEET_SECOND);
    world->hosts.cut_ns[other][machine] = *until_ns;
    fleet_log_add(world->log, world->now_ns, "hosts are parted", FLEET_LOG_NOWHERE,
                  FLEET_LOG_NOWHERE, machine, other);
}

/* Breaks a link and loses all its frames. Each end may or may not notice that. */
static void fleet_hosts_break_link(struct world *world, struct fleet_dice *dice) {
    struct fleet_hosts *hosts = &world->hosts;
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    uint32_t part = fleet_dice_below(dice, hosts->part_count[unit]);
    uint32_t link = hosts->supervisors[unit].links[part].id;
    if (link <= hosts->broken[unit][part]) return;
    hosts->broken[unit][part] = link;
    world->report->links_broken++;
    fleet_log_add(world->log, world->now_ns, "link breaks", unit, FLEET_LOG_NOWHERE, part, link);
    for (uint32_t i = 0; i < 2; i++) {
        struct fleet_frame notice = {.kind = i ? FRAME_END : FRAME_LOST,
                                     .unit = unit,
                                     .part = part,
                                     .link = link,
                                     .is_notice = true};
        int64_t out_ns = world->now_ns + fleet_dice_time(dice, 0, 3 * FLEET_SECOND);
        if (fleet_dice_below(dice, 2)) fleet_network_send(world, notice, &out_ns);
    }
}

static struct fleet_machine *any_machine(struct world *world, struct fleet_dice *dice) {
    return &world->hosts.machines[fleet_dice_below(dice, FLEET_HOSTS_MAX)];
}

static void fill_memory(struct world *world, struct fleet_dice *dice) {
    fleet_network_last(world, &any_machine(world, dice)->full_ns, dice, 4 * FLEET_SECOND);
}

static void delay_answers(struct world *world, struct fleet_dice *dice) {
    fleet_network_last(world, &any_machine(world, dice)->late_ns, dice, 20 * FLEET_SECOND);
}

static void fail_starts(struct world *world, struct fleet_dice *dice) {
    fleet_network_last(world, &any_machine(world, dice)->fails_ns, dice, 4 * FLEET_SECOND);
}

static void slow_host(struct world *world, struct fleet_dice *dice) {
    fleet_network_last(world, &any_machine(world, dice)->slow_ns, dice, 8 * FLEET_SECOND);
}

/* Kills a supervisor, unless it runs on the machine that never fails. The agent on its host dies,
 * too. Each other agent is notified, or accepts the old supervisor for a while longer, alongside
 * the one that replaces it. */
static void kill_supervisor(struct world *world, struct fleet_dice *dice) {
    uint32_t unit = fleet_hosts_any_unit(world, dice);
    struct fleet_supervisor *supervisor = &world->hosts.supervisors[unit];
    int64_t up_ns = world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 2, 3 * FLEET_SECOND);
    if (!supervisor->alive || supervisor->place == FLEET_HOME) return;
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++) {
        const struct fleet_agent_link *link = &supervisor->links[part];
        struct fleet_frame end = {.kind = FRAME_END, .unit = unit, .part = part, .link = link->id};
        struct fleet_agent *agent = fleet_network_agent_of(&world->hosts, &end);
        if (!agent) continue;
        if (world->hosts.machine_of[unit][part] == supervisor->place)
            fleet_links_end_agent(world, agent, true);
        else if (fleet_dice_below(dice, 2))
            fleet_network_send(world, end, &supervisor->links[part].out_ns);
        else
            fleet_network_last(world, &agent->kept_ns, dice, 10 * FLEET_SECOND);
    }
    fleet_links_end_supervisor(world, unit, up_ns);
}

static void stop_supervisor(struct world *world, struct fleet_dice *dice) {
    struct fleet_supervisor *supervisor =
        &world->hosts.supervisors[fleet_hosts_any_unit(world, dice)];
    fleet_network_last(world, &supervisor->stopped_ns, dice, 6 * FLEET_SECOND);
}

static const struct fault_kind faults[] = {
    {12000, kill_process},    {24000, stop_process},
    {30000, hang_process},    {36000, kill_agent},
    {36000, stop_agent},      {45000, kill_host},
    {60000, kill_first_host}, {45000, cut_host},
    {15000, part_hosts},      {45000, slow_host},
    {60000, kill_supervisor}, {60000, stop_supervisor},
    {24000, kill_processes},  {24000, fleet_hosts_break_link},
    {45000, fill_memory},     {45000, delay_answers},
    {60000, fail_starts}};

/* Lets all frames in transit arrive. */
static void let_all_through(struct world *world) {
    struct post_message *message;
    for (size_t at = 0; (message = post_at(&world->hosts.frames, at)); at += message->bytes)
        message->due_ns = min_i64(message->due_ns, world->now_ns);
}

void fleet_hosts_heal(struct world *world) {
    struct fleet_hosts *hosts = &world->hosts;
    fault_timetable_end(&hosts->faults);
    hosts->struck_ns = world->now_ns;
    for (uint32_t i = 0; i <= FLEET_HOSTS_MAX; i++) {
        struct fleet_machine *machine = &hosts->machines[i];
        machine->off_ns = machine->slow_ns = 0;
        machine->full_ns = machine->late_ns = machine->fails_ns = 0;
        if (!machine->up) machine->up_ns = min_i64(machine->up_ns, world->now_ns + FLEET_SECOND);
        memset(hosts->cut_ns[i], 0, sizeof hosts->cut_ns[i]);
    }
    for (uint32_t unit = 0; unit < world->unit_count; unit++) {
        hosts->supervisors[unit].stopped_ns = 0;
        for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
            hosts->supervisors[unit].links[part].out_ns = 0;
        for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
            for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
                struct fleet_agent *agent = &hosts->agents[unit][part][i];
                agent->stopped_ns = agent->look_ns = agent->kept_ns = agent->out_ns = 0;
                for (uint32_t rank = 0; rank < world->ranks; rank++)
                    if (agent->processes[rank].stopped_ns != MACHINE_NEVER)
                        agent->processes[rank].stopped_ns = 0;
            }
    }
    let_all_through(world);
}

/* ---- invariants ---- */

/* Checks the incarnations of ranks. Several agents may be alive, from lost links. */
static void audit_lives(struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = &world->hosts;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        uint32_t lives = 0, life = hosts->supervisors[unit].life;
        for (uint32_t part = 0; part < hosts->part_count[unit]; part++)
            for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
                const struct fleet_agent *agent = &hosts->agents[unit][part][i];
                lives += agent->alive && agent->life == life && agent->processes[rank].alive;
            }
        if (lives > 1) world_breach(world, "a rank has two lives in one job");
        if (hosts->supervised_units[unit].without >> rank & 1 &&
            fleet_network_process(hosts, unit, rank))
            world_breach(world, "ranks go on without one that lives");
    }
}

/* Checks that ranks without a supervisor exit in time. One late frame may have prolonged their
 * wait. */
static void audit_orphan(struct world *world, uint32_t unit, uint32_t part,
                         struct fleet_agent *agent) {
    const struct fleet_supervisor *supervisor = &world->hosts.supervisors[unit];
    bool wanted = supervisor->alive && supervisor->links[part].id == agent->link &&
                  supervisor->hosts[part].is_linked;
    if (wanted || agent->kept_ns > world->now_ns || agent->stopped_ns > world->now_ns ||
        supervisor->stopped_ns > world->now_ns)
        agent->orphan_ns = 0;
    else if (!agent->orphan_ns)
        agent->orphan_ns = world->now_ns;
    int64_t most_ns = 2 * SUPERVISE_PATIENCE * agent->machine.timeout_ns + 2 * FLEET_SECOND;
    if (agent->orphan_ns && world->now_ns - agent->orphan_ns > most_ns)
        world_breach(world, "ranks outlive their supervisor's word");
}

/* True if the supervisor of the unit can reach all its agents. */
static bool is_received(struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = &world->hosts;
    const struct fleet_supervisor *it = &hosts->supervisors[unit];
    if (!it->alive || it->unit.state != SUPERVISE_RUNS || it->stopped_ns > world->now_ns)
        return false;
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++) {
        uint32_t machine = hosts->machine_of[unit][part];
        struct fleet_frame any = {.unit = unit, .part = part, .link = it->links[part].id};
        const struct fleet_agent *agent = fleet_network_agent_of(hosts, &any);
        if (!agent || agent->link <= hosts->broken[unit][part] ||
            agent->stopped_ns > world->now_ns || fleet_network_cut_ns(world, machine, it->place))
            return false;
        if (hosts->machines[machine].slow_ns > world->now_ns ||
            hosts->machines[it->place].slow_ns > world->now_ns)
            return false;
    }
    return true;
}

/* Checks a returning rank that hangs or is not there at all. The time counts from the moment at
 * which the supervisor could first detect that. */
static void audit_return(struct world *world, uint32_t unit, struct fleet_agent *agent,
                         uint32_t rank) {
    const struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    struct fleet_process *process = &agent->processes[rank];
    bool hangs = process->alive && process->returns && process->stopped_ns == MACHINE_NEVER;
    bool is_absent = !process->alive && it->members[rank].state == SUPERVISE_MEMBER_RETURNS &&
                     rank - agent->machine.first < agent->machine.count;
    int64_t timeouts = hangs && process->spins ? SUPERVISE_RETURN_PATIENCE : 1;
    if (agent->machine.number != it->unit.number || agent->life != it->life) return;
    if ((!hangs && !is_absent) || !is_received(world, unit)) process->seen_ns = world->now_ns;
    if (world->now_ns - process->seen_ns >
        (timeouts + 2) * world->hosts.timeout_ns + 2 * FLEET_SECOND)
        world_breach(world, hangs ? "a rank that hangs on its way back is not ended in time"
                                  : "a rank that is not there is waited for");
}

static bool needs_help(const struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = (struct fleet_hosts *)(uintptr_t)&world->hosts;
    if (!hosts->supervised_units[unit].serves || !fleet_network_process(hosts, unit, 0))
        return true;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct fleet_process *process = fleet_network_process(hosts, unit, rank);
        if (hosts->supervised_units[unit].without >> rank & 1) continue;
        if (!process || process->stopped_ns > world->now_ns) return true;
    }
    return fleet_network_holds(world, unit) && world->units[unit].open_count > 0;
}

/* The longest time that a state may last without a new fault. */
static int64_t most_ns(const struct world *world, const struct supervise_unit *unit) {
    int64_t timeout_ns = world->hosts.timeout_ns, slack_ns = 2 * timeout_ns + 2 * FLEET_SECOND;
    switch (unit->state) {
    case SUPERVISE_RUNS:
        if (!unit->ready) return 64 * timeout_ns + slack_ns; /* the ranks handle it */
        return slack_ns +
               (DEADLOCKS * timeout_ns > GOES_ON_NS ? DEADLOCKS * timeout_ns : GOES_ON_NS);
    case SUPERVISE_FAILS:
    case SUPERVISE_ENDS:
        return ENDS_NS + slack_ns;
    default:
        return CHECKS_NS + slack_ns;
    }
}

static void audit_trouble(struct world *world, uint32_t unit) {
    struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    bool needed = it->alive && (it->unit.state != SUPERVISE_RUNS || needs_help(world, unit));
    int64_t since_ns = world->hosts.struck_ns;
    if (it->unit.state_ns > since_ns) since_ns = it->unit.state_ns;
    if (!needed)
        it->trouble_ns = 0;
    else if (!it->trouble_ns || it->trouble_ns < since_ns)
        it->trouble_ns = world->now_ns;
    if (!needed || world->now_ns - it->trouble_ns <= most_ns(world, &it->unit)) return;
    fleet_log_add(world->log, world->now_ns, "no host helps", unit, FLEET_LOG_NOWHERE,
                  it->unit.state, world->hosts.supervised_units[unit].without);
    world_breach(world, it->unit.state == SUPERVISE_RUNS
                            ? "a unit that cannot go on is not seen in time"
                            : "a unit does not start again in time");
}

/* Checks the supervisor's reports about a running unit: it continues without the ranks that were
 * reported gone, and a lost host has no ranks left. */
static void audit_word(struct world *world, uint32_t unit) {
    const struct fleet_supervisor *it = &world->hosts.supervisors[unit];
    bool goes_on = it->alive && it->unit.state == SUPERVISE_RUNS && it->unit.ready;
    for (uint32_t rank = 0; goes_on && !it->unit.change_ns && rank < world->ranks; rank++)
        if (it->signs[rank].gone && !(world->hosts.supervised_units[unit].without >> rank & 1))
            world_breach(world, "a unit is said to go on without a rank, and does not");
    for (uint32_t part = 0; it->alive && part < world->hosts.part_count[unit]; part++)
        if (!it->hosts[part].is_linked && it->hosts[part].left)
            world_breach(world, "a host that is lost has ranks left");
}

static void fleet_hosts_audit(struct world *world, uint32_t unit) {
    audit_lives(world, unit);
    audit_trouble(world, unit);
    audit_word(world, unit);
    for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
        for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
            struct fleet_agent *agent = &world->hosts.agents[unit][part][i];
            if (!agent->alive) continue;
            audit_orphan(world, unit, part, agent);
            for (uint32_t rank = 0; rank < world->ranks; rank++)
                audit_return(world, unit, agent, rank);
        }
}

bool fleet_hosts_awaits(const struct world *world) {
    for (uint32_t unit = 0; unit < world->unit_count; unit++)
        for (uint32_t part = 0; part < world->hosts.part_count[unit]; part++)
            for (uint32_t i = 0; i < FLEET_AGENTS_EACH; i++) {
                const struct fleet_agent *agent = &world->hosts.agents[unit][part][i];
                for (uint32_t rank = 0; agent->alive && rank < world->ranks; rank++)
                    if (agent->processes[rank].alive && agent->processes[rank].returns) return true;
            }
    return false;
}

void fleet_hosts_verify(struct world *world) {
    for (uint32_t unit = 0; world->hosts.present && unit < world->unit_count; unit++) {
        const struct fleet_unit_host *host = &world->units[unit];
        const struct fleet_supervised_unit *supervised_unit = &world->hosts.supervised_units[unit];
        for (uint32_t rank = 0; host->up && supervised_unit->serves && rank < world->ranks;
             rank++) {
            bool dead = supervised_unit->without >> rank & 1;
            if (dead && !fleet_inside_abandoned(host, rank))
                world_breach(world, "a dead rank takes requests");
            if (!dead && fleet_inside_abandoned(host, rank))
                world_breach(world, "a rank that lives takes no requests");
        }
    }
}

/* ---- placement and runs ---- */

static void place_unit(struct world *world, uint32_t unit) {
    struct fleet_hosts *hosts = &world->hosts;
    struct place_part parts[FLEET_HOSTS_MAX];
    uint32_t slots[FLEET_HOSTS_MAX], first = fleet_dice_below(&hosts->dice, FLEET_HOSTS_MAX);
    for (uint32_t i = 0; i < FLEET_HOSTS_MAX; i++)
        slots[i] = 1 + fleet_dice_below(&hosts->dice, 2);
    hosts->part_count[unit] = place_ranks(slots, FLEET_HOSTS_MAX, world->ranks, parts);
    for (uint32_t part = 0; part < hosts->part_count[unit]; part++) {
        hosts->first_of[unit][part] = parts[part].first;
        hosts->ranks_of[unit][part] = parts[part].count;
        hosts->machine_of[unit][part] = (first + parts[part].host) % FLEET_HOSTS_MAX;
    }
    bool apart = fleet_dice_below(&hosts->dice, 2);
    hosts->supervisors[unit].place = apart ? FLEET_HOME : hosts->machine_of[unit][0];
    hosts->supervisors[unit].up_ns = fleet_dice_time(&hosts->dice, 0, FLEET_SECOND);
    hosts->supervised_units[unit].regroup_ns = MACHINE_NEVER;
    world->units[unit].up_ns = MACHINE_NEVER;
}

void fleet_hosts_open(struct world *world, struct arena *arena) {
    struct fleet_hosts *hosts = &world->hosts;
    hosts->present = post_open(&hosts->frames, arena, FRAMES_BYTES);
    check(hosts->present);
    hosts->dice = (struct fleet_dice){.seed = world->options.seed, .stream = STREAM};
    hosts->returns = (struct fleet_dice){.seed = world->options.seed, .stream = STREAM_RETURNS};
    hosts->timeout_ns = fleet_dice_time(&hosts->dice, 3 * FLEET_SECOND / 10, 2 * FLEET_SECOND);
    hosts->slots_needed = 1 + fleet_dice_below(&hosts->dice, world->ranks);
    hosts->is_chosen = fleet_dice_below(&hosts->dice, 2);
    for (uint32_t i = 0; i <= FLEET_HOSTS_MAX; i++)
        hosts->machines[i].up = true;
    for (uint32_t unit = 0; unit < world->unit_count; unit++)
        place_unit(world, unit);
    if (world->options.faults)
        fault_timetable_open(&hosts->faults, faults, ARRAY_COUNT(faults), world->options.seed,
                             STREAM_FAULTS);
}

void fleet_hosts_run(struct world *world) {
    if (!world->hosts.present) return;
    uint32_t struck = fault_timetable_strike(&world->hosts.faults, world, world->now_ns);
    if (struck) world->hosts.struck_ns = world->now_ns;
    world->report->host_faults += struck;
    for (uint32_t i = 0; i < FLEET_HOSTS_MAX; i++)
        world->hosts.machines[i].up |= world->hosts.machines[i].up_ns <= world->now_ns;
    fleet_hosts_deliver(world);
    for (uint32_t unit = 0; unit < world->unit_count; unit++) {
        bool looks = world->hosts.supervisors[unit].tick_ns <= world->now_ns;
        fleet_links_run(world, unit);
        if (looks) fleet_hosts_audit(world, unit);
    }
}

int64_t fleet_hosts_wake_ns(const struct world *world) {
    const struct fleet_hosts *hosts = &world->hosts;
    if (!hosts->present) return MACHINE_NEVER;
    int64_t wake_ns = fault_timetable_next_ns(&hosts->faults);
    wake_ns = min_i64(wake_ns, frame_wake_ns(world));
    for (uint32_t i = 0; i < FLEET_HOSTS_MAX; i++)
        if (!hosts->machines[i].up) wake_ns = min_i64(wake_ns, hosts->machines[i].up_ns);
    for (uint32_t unit = 0; unit < world->unit_count; unit++)
        wake_ns = min_i64(wake_ns, fleet_links_wake_ns(world, unit));
    return wake_ns;
}
