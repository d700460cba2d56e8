/* SPDX-License-Identifier: Apache-2.0
 * Runs a fleet: looks at gateways and at the launcher, tells the manager (serving/fleet), and carries
 * out what it says. Nothing that it started ends with it. One thread; it looks once a second, or as
 * often as the manager decides where that is oftener, and each look may take seconds where a gateway or
 * Slurm does not answer.
 */
#ifndef HOST_FLEET_FLEET_KEEPER_H
#define HOST_FLEET_FLEET_KEEPER_H

#include "host/fleet/fleet_file.h"
#include "host/fleet/fleet_folder.h"
#include "host/fleet/gateway_watch.h"
#include "host/fleet/launcher.h"

struct fleet_keeper;

/* A unit, and what the launcher and gateways know of it. */
struct kept_unit {
    uint32_t number;
    uint32_t role;     /* enum unit_role, as it was last seen or ordered */
    uint32_t sight;    /* enum fleet_sight */
    uint32_t launched; /* enum fleet_sight, as its launcher has it */
    uint32_t requests;
    bool held;
    bool alone;         /* no other unit could continue its requests */
    bool is_there;      /* its launcher has it */
    int64_t ordered_ns; /* by clock_now_ns; when it was launched, or this manager began */
    char job[LAUNCH_JOB_BYTES];
};

/* Takes the fleet over: GONE where another manager has it. */
enum status fleet_keeper_open(const struct fleet_file *file, struct fleet_keeper **keeper_out,
                              struct error *error) MUST_USE;
void fleet_keeper_close(struct fleet_keeper *keeper);

/* One look, and what follows from it. */
void fleet_keeper_look(struct fleet_keeper *keeper);

/* Look after look, until `*ends` is set. */
void fleet_keeper_run(struct fleet_keeper *keeper, const volatile int *ends);

#endif
