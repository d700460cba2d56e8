/* SPDX-License-Identifier: Apache-2.0
 * The faults of a simulation, with their times. Gateways see the death of a unit by its closed
 * connection, after the network's latency. They notice a lost node or a cut network only after
 * TWIN_NOTICE_NS without a sign. Then they continue its requests on other units.
 */
#ifndef SIMULATE_TWIN_TWIN_FAULTS_H
#define SIMULATE_TWIN_TWIN_FAULTS_H

#include "base/arena.h"

#define TWIN_NOTICE_NS ((int64_t)2000000000)

enum twin_fault_kind {
    TWIN_FAULT_UNIT_DIES,   /* all its processes; it restarts empty afterwards. 0 ns: never */
    TWIN_FAULT_NODE_DIES,   /* a node of the unit, and so the unit */
    TWIN_FAULT_RACK_DIES,   /* nodes of all units from `unit` to `other`, and so these */
    TWIN_FAULT_UNITS_CUT,   /* no KV blocks pass between `unit` and `other` */
    TWIN_FAULT_GATEWAY_CUT, /* no records pass between `unit` and the gateway `other` */
    TWIN_FAULT_RANK_SLOW,   /* the unit's rank `other` takes `factor` times as long */
    TWIN_FAULT_DISKS_SLOW,  /* all disks take `factor` times as long */
    TWIN_FAULT_DISKS_FAIL,  /* all disks fail to read and write */
    TWIN_FAULT_EXPERTS_HOT, /* a few experts of the unit's layers are chosen `factor` times as often
                             */
    TWIN_FAULT_CROWD,       /* requests arrive `factor` times as fast; later ones arrive earlier */
    TWIN_FAULT_KIND_COUNT
};

struct twin_fault {
    int64_t at_ns, lasts_ns;
    uint32_t kind; /* enum twin_fault_kind */
    uint32_t unit, other;
    double factor;
};

struct twin_options;
struct twin_world;
struct event;

/* "unit-dies", "node-dies", "rack-dies", "units-cut", "gateway-cut", "rank-slow", "disks-slow",
 * "disks-fail", "experts-hot", "crowd" */
const char *twin_faults_name(enum twin_fault_kind kind);

/* NULL, or the first of the options' faults that names something that does not exist. */
const struct twin_fault *twin_faults_wrong(const struct twin_options *options);

/* Schedules all faults. */
void twin_faults_plan(struct twin_world *world);

/* The arrival time of a request that would arrive at that time without crowds. */
int64_t twin_faults_arrival(const struct twin_options *options, int64_t arrival_ns);

/* Begins or ends a fault. */
void twin_faults_happen(struct twin_world *world, const struct event *event);

#endif
