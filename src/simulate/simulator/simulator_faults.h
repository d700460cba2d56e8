/* SPDX-License-Identifier: Apache-2.0
 * The faults of a simulation, with their times. Gateways detect the death of a unit by its closed
 * connection, after the network latency. They detect a lost node or a cut network only after
 * SIMULATOR_NOTICE_NS without a heartbeat. Then they continue the requests on other units.
 */
#pragma once

#include "base/arena.h"

#define SIMULATOR_NOTICE_NS ((int64_t)2000000000)

enum simulator_fault_kind {
    SIMULATOR_FAULT_UNIT_DIES,   /* all its processes; it restarts empty after lasts_ns; 0: never */
    SIMULATOR_FAULT_NODE_DIES,   /* a node of the unit dies, and so does the unit */
    SIMULATOR_FAULT_RACK_DIES,   /* the same for all units from `unit` to `other` */
    SIMULATOR_FAULT_UNITS_CUT,   /* no KV blocks can pass between `unit` and `other` */
    SIMULATOR_FAULT_GATEWAY_CUT, /* no records can pass between `unit` and the gateway `other` */
    SIMULATOR_FAULT_RANK_SLOW,   /* the unit's rank `other` takes `factor` times as long */
    SIMULATOR_FAULT_DISKS_SLOW,  /* all disks take `factor` times as long */
    SIMULATOR_FAULT_DISKS_FAIL,  /* no disk can be read or written */
    SIMULATOR_FAULT_EXPERTS_HOT, /* a few experts of the unit are chosen `factor` times as often */
    SIMULATOR_FAULT_CROWD, /* requests arrive `factor` times as fast; later ones arrive earlier */
    SIMULATOR_FAULT_KIND_COUNT
};

struct simulator_fault {
    int64_t at_ns, lasts_ns;
    uint32_t kind; /* enum simulator_fault_kind */
    uint32_t unit, other;
    double factor;
};

struct simulator_options;
struct simulator_world;
struct event;

/* "unit-dies", "node-dies", "rack-dies", "units-cut", "gateway-cut", "rank-slow", "disks-slow",
 * "disks-fail", "experts-hot", "crowd" */
const char *simulator_faults_name(enum simulator_fault_kind kind);

/* Returns the first fault of the options that names something that does not exist, or NULL. */
const struct simulator_fault *simulator_faults_wrong(const struct simulator_options *options);

/* Schedules all faults. */
void simulator_faults_plan(struct simulator_world *world);

/* Begins or ends a fault. */
void simulator_faults_happen(struct simulator_world *world, const struct event *event);
