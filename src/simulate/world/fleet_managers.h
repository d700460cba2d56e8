/* SPDX-License-Identifier: Apache-2.0
 * The fleet managers of a simulated fleet. In some runs the product's keeper and manager
 * (serving/fleet) start and end units as the load requires, one unit on each node. fleet_managers.c
 * models host/fleet/fleet_runner.c in virtual time: it polls the launcher and all gateways,
 * performs the actions of the keeper, and saves the book for the next manager. The launcher
 * (fleet_launcher.c) is modelled on Slurm: a unit is a job that waits for a node, starts, serves
 * and ends, whether or not a manager runs.
 *
 * Faults until the end of the fault phase: the manager is killed, even while it executes actions,
 * and another one starts. A second manager is started while one runs. The launcher does not answer
 * for a long time. One launch in three fails before it begins or before it serves, and some never
 * get a node. A job remains listed as running after its unit has ended, until it is cancelled. A
 * node is lost, even that of a draining unit. A job is preempted. Gateways are unreachable, or
 * their reports are old. A report to the manager or one of its actions is lost or duplicated.
 * (Starts are not duplicated, because the host orders each once.) Operators drain, resume and pin.
 *
 * Invariants in addition to those of fleet_world.h: no number is assigned twice, and no two
 * managers run at once. A manager with a working launcher finds every running job. No unit is
 * started on a node that does not exist. No unit is stopped or killed while it is reported to be
 * serving or to have requests. A required role keeps at least one serving unit. Promised nodes are
 * released in time if nothing has failed. At the end the fleet has the size that its manager wants.
 */
#pragma once

#include "serving/fleet/fleet_keeper.h"
#include "simulate/clients/fleet_clients.h"
#include "simulate/kernel/fault_timetable.h"
#include "simulate/pages/fleet_carriers.h"

struct world;

enum {
    FLEET_JOBS_MAX = 4 * FLEET_UNITS_MAX, /* running, waiting for a node, or never getting one */
    FLEET_WISHES_MAX = 8,
    FLEET_NO_NODE = 255
};

struct fleet_unit_job { /* a job of the launcher: one unit */
    uint32_t number;    /* 0: none */
    uint32_t role;      /* enum unit_role at its start */
    uint32_t node;      /* FLEET_NO_NODE: waiting for a node */
    bool never;         /* it never gets a node */
    bool fails;         /* it exits instead of starting to serve */
    bool hangs;         /* its unit has ended, but the launcher lists it as running */
    int64_t begins_ns;
    int64_t unknown_ns; /* since when a working manager has not found it; 0: it has */
    bool was_ended;     /* by the current manager */
};

struct fleet_managers {
    bool present;
    struct fleet_dice dice, launches; /* for properties of the fleet; for outcomes of launches */
    struct fleet_manager_options options;
    int64_t promise_from_ns, promise_until_ns; /* times of the day */
    uint32_t promised;
    /* The process: */
    char *memory;                /* of its current incarnation */
    struct fleet_keeper *keeper; /* NULL: no manager runs */
    struct fleet_manager *manager;
    struct machine machine; /* of the keeper */
    int64_t up_ns, look_ns; /* when it starts, and when it polls next */
    int64_t begun_ns;
    uint64_t starts; /* starts that it has ordered */
    bool launcher_responds;
    uint32_t view_count; /* the manager's units at the last poll */
    struct managed_unit view[MANAGED_UNITS_MAX];
    struct fleet_book book; /* all units that managers have started */
    uint32_t wish_count;
    _Alignas(8) struct record_fleet_command wishes[FLEET_WISHES_MAX];
    /* The launcher: */
    struct fleet_unit_job jobs[FLEET_JOBS_MAX];
    uint32_t last_number;                 /* of the last job launched */
    int64_t node_ns[FLEET_UNITS_MAX];     /* the node is lost until then */
    int64_t silent_ns;                    /* the launcher does not answer until then */
    int64_t blind_ns[FLEET_GATEWAYS_MAX]; /* the gateway is unreachable until then */
    int64_t stale_ns;                     /* reports of gateways are old until then */
    struct fault_timetable faults;
};

void fleet_managers_open(struct world *world, struct arena *arena);
void fleet_managers_run(struct world *world);
int64_t fleet_managers_wake_ns(const struct world *world);
void fleet_managers_heal(struct world *world);

/* True if the fleet does not have the size that its manager wants. */
bool fleet_managers_awaits(const struct world *world);
void fleet_managers_verify(struct world *world);

/* ---- fleet_launcher.c ---- */

void fleet_launcher_run(struct world *world);
int64_t fleet_launcher_wake_ns(const struct world *world);

/* Returns false if the job could not be launched. */
bool fleet_launcher_start(struct world *world, uint32_t number, uint32_t role);

/* `at_once` ends the unit without waiting for its requests. An unknown number is ignored. */
void fleet_launcher_stop(struct world *world, uint32_t number, bool at_once);

/* Loses a node and the job on it, until until_ns. */
void fleet_launcher_lose_node(struct world *world, uint32_t node, int64_t until_ns);

/* The job of that number, or NULL. Number 0: an entry without a job. */
struct fleet_unit_job *fleet_launcher_find(const struct world *world, uint32_t number);
uint32_t fleet_launcher_count(const struct world *world);
