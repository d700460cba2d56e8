/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_faults.h"

#include "simulate/simulator/simulator_state.h"

enum { BEGINS, ENDS };

const char *simulator_faults_name(enum simulator_fault_kind kind) {
    static const char *const names[SIMULATOR_FAULT_KIND_COUNT] = {
        "unit-dies", "node-dies",  "rack-dies",  "units-cut",   "gateway-cut",
        "rank-slow", "disks-slow", "disks-fail", "experts-hot", "crowd"};
    return names[kind];
}

/* ---- the options' fleet ---- */

static bool simulator_faults_is_there(const struct simulator_options *options,
                                      const struct simulator_fault *fault) {
    const struct simulator_unit_kind *kind = simulator_kind_of(options, fault->unit);
    bool scaled =
        fault->kind == SIMULATOR_FAULT_RANK_SLOW || fault->kind == SIMULATOR_FAULT_DISKS_SLOW ||
        fault->kind == SIMULATOR_FAULT_EXPERTS_HOT || fault->kind == SIMULATOR_FAULT_CROWD;
    if (fault->at_ns < 0 || fault->lasts_ns < 0 || (scaled && !(fault->factor > 0))) return false;
    switch (fault->kind) {
    case SIMULATOR_FAULT_UNIT_DIES:
    case SIMULATOR_FAULT_NODE_DIES:
    case SIMULATOR_FAULT_EXPERTS_HOT:
        return kind != NULL;
    case SIMULATOR_FAULT_RACK_DIES:
        return fault->unit <= fault->other && simulator_kind_of(options, fault->other);
    case SIMULATOR_FAULT_UNITS_CUT:
        return kind && simulator_kind_of(options, fault->other) && fault->unit != fault->other;
    case SIMULATOR_FAULT_GATEWAY_CUT:
        return kind && fault->other < options->gateways;
    case SIMULATOR_FAULT_RANK_SLOW:
        return kind && fault->other < kind->ranks;
    default:
        return fault->kind < SIMULATOR_FAULT_KIND_COUNT;
    }
}

const struct simulator_fault *simulator_faults_wrong(const struct simulator_options *options) {
    for (uint32_t i = 0; i < options->fault_count; i++)
        if (!simulator_faults_is_there(options, &options->faults[i])) return &options->faults[i];
    return NULL;
}

/* ---- events ---- */

void simulator_faults_plan(struct simulator_world *world) {
    for (uint32_t i = 0; i < world->options->fault_count; i++)
        event_queue_add(&world->events, (struct event){.due_ns = world->options->faults[i].at_ns,
                                                       .kind = SIMULATOR_EVENT_FAULT,
                                                       .index = i,
                                                       .stamp = BEGINS});
}

/* Kills the unit. It restarts once, even if it has died twice. */
static void simulator_faults_die(struct simulator_world *world, struct simulator_unit *unit,
                                 bool noticed) {
    if (unit->up) simulator_units_kill(world, unit, noticed);
}

static void simulator_faults_start_again(struct simulator_world *world,
                                         struct simulator_unit *unit) {
    if (!unit->up) simulator_units_start(world, unit);
}

static void begin(struct simulator_world *world, const struct simulator_fault *fault) {
    struct simulator_unit *unit = &world->units[fault->unit];
    switch ((enum simulator_fault_kind)fault->kind) {
    case SIMULATOR_FAULT_UNIT_DIES:
        simulator_faults_die(world, unit, true);
        break;
    case SIMULATOR_FAULT_NODE_DIES:
        simulator_faults_die(world, unit, false);
        break;
    case SIMULATOR_FAULT_RACK_DIES:
        for (uint32_t i = fault->unit; i <= fault->other; i++)
            simulator_faults_die(world, &world->units[i], false);
        break;
    case SIMULATOR_FAULT_UNITS_CUT:
        simulator_transfer_cut(&world->transfers, fault->unit, fault->other,
                               fault->at_ns + fault->lasts_ns, world->now_ns);
        break;
    case SIMULATOR_FAULT_GATEWAY_CUT:
        simulator_units_cut(world, unit, fault->other);
        break;
    case SIMULATOR_FAULT_RANK_SLOW:
        unit->engine.slowness[fault->other] *= fault->factor;
        break;
    case SIMULATOR_FAULT_DISKS_SLOW:
        world->storage.slowness *= fault->factor;
        break;
    case SIMULATOR_FAULT_DISKS_FAIL:
        world->storage.failures++;
        break;
    case SIMULATOR_FAULT_EXPERTS_HOT:
        step_clock_heat(unit->clock, fault->factor, world->now_ns);
        break;
    default: /* crowds: simulator_clients_arrival changes the arrivals */
        break;
    }
}

static void end(struct simulator_world *world, const struct simulator_fault *fault) {
    struct simulator_unit *unit = &world->units[fault->unit];
    switch ((enum simulator_fault_kind)fault->kind) {
    case SIMULATOR_FAULT_UNIT_DIES:
    case SIMULATOR_FAULT_NODE_DIES:
        simulator_faults_start_again(world, unit);
        break;
    case SIMULATOR_FAULT_RACK_DIES:
        for (uint32_t i = fault->unit; i <= fault->other; i++)
            simulator_faults_start_again(world, &world->units[i]);
        break;
    case SIMULATOR_FAULT_UNITS_CUT:
        break; /* its time is stored */
    case SIMULATOR_FAULT_GATEWAY_CUT:
        simulator_units_connect(world, unit, fault->other);
        break;
    case SIMULATOR_FAULT_RANK_SLOW:
        unit->engine.slowness[fault->other] /= fault->factor;
        break;
    case SIMULATOR_FAULT_DISKS_SLOW:
        world->storage.slowness /= fault->factor;
        break;
    case SIMULATOR_FAULT_DISKS_FAIL:
        world->storage.failures--;
        break;
    case SIMULATOR_FAULT_EXPERTS_HOT:
        step_clock_heat(unit->clock, 1, world->now_ns);
        break;
    default:
        break;
    }
}

void simulator_faults_happen(struct simulator_world *world, const struct event *event) {
    const struct simulator_fault *fault = &world->options->faults[event->index];
    bool dies = fault->kind == SIMULATOR_FAULT_UNIT_DIES ||
                fault->kind == SIMULATOR_FAULT_NODE_DIES ||
                fault->kind == SIMULATOR_FAULT_RACK_DIES;
    if (event->stamp == ENDS) {
        end(world, fault);
        return;
    }
    begin(world, fault);
    if (dies && fault->lasts_ns == 0) return;
    event_queue_add(&world->events, (struct event){.due_ns = world->now_ns + fault->lasts_ns,
                                                   .kind = SIMULATOR_EVENT_FAULT,
                                                   .index = event->index,
                                                   .stamp = ENDS});
}
