/* SPDX-License-Identifier: Apache-2.0
 * What goes wrong in the twin, when, and for how long. Who dies is told of by its closed
 * connection, after the network's latency; who stands on a node that is gone, or behind a network
 * that is cut, only after TWIN_NOTICE_NS without a sign. Then its requests go on elsewhere, as
 * gateways see to it.
 */
#ifndef SIMULATE_TWIN_TWIN_FAULTS_H
#define SIMULATE_TWIN_TWIN_FAULTS_H

#include "base/arena.h"

#define TWIN_NOTICE_NS ((int64_t)2000000000)

enum twin_fault_kind {
    TWIN_FAULT_UNIT_DIES,   /* all its processes; behind it, it comes back empty. 0 ns: never */
    TWIN_FAULT_NODE_DIES,   /* a node of the unit, and so the unit */
    TWIN_FAULT_RACK_DIES,   /* nodes of all units from `unit` to `other`, and so these */
    TWIN_FAULT_UNITS_CUT,   /* no KV blocks pass between `unit` and `other` */
    TWIN_FAULT_GATEWAY_CUT, /* no records pass between `unit` and the gateway `other` */
    TWIN_FAULT_RANK_SLOW,   /* the unit's rank `other` takes `factor` times as long */
    TWIN_FAULT_DISKS_SLOW,  /* all disks do */
    TWIN_FAULT_DISKS_FAIL,  /* they neither read nor write */
    TWIN_FAULT_EXPERTS_HOT, /* a few experts of the unit's layers are chosen `factor` times as often
                             */
    TWIN_FAULT_CROWD,       /* requests come `factor` times as fast; those behind it come earlier */
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

/* NULL, or which of the options' faults names what is not there. */
const struct twin_fault *twin_faults_wrong(const struct twin_options *options);

/* All of them will happen. */
void twin_faults_plan(struct twin_world *world);

/* When a request comes that would come at that time if there were no crowds. */
int64_t twin_faults_arrival(const struct twin_options *options, int64_t arrival_ns);

/* One of them begins, or is over. */
void twin_faults_happen(struct twin_world *world, const struct event *event);

#endif
