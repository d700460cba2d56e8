/* SPDX-License-Identifier: Apache-2.0
 * Managers of a simulated fleet: in some lives units do not stand where they are, but are started and
 * ended on nodes, a unit on each, by the product's own manager (serving/fleet), as the load wants it. The
 * manager's process (fleet_managers.c) is invented after host/fleet/fleet_keeper.c: it looks at its
 * launcher and at all gateways, tells the machine, carries out what that says, and keeps a book for
 * whoever comes after it. The launcher (fleet_launcher.c) is invented after Slurm: a unit is a job that
 * waits for a node, starts, serves and ends, whoever lives to see it.
 *
 * What goes wrong, until the healing: the manager is killed, in the middle of carrying out too, and
 * another one comes; a second one is started beside it; the launcher does not answer for a long while;
 * one launch in three fails, before it begins or before it serves, and some never get a node; a node is
 * lost, of a unit that drains too; a job is preempted; gateways are not heard, or what is told of
 * them is old; operators drain, resume and pin.
 *
 * What must hold besides what always must: no number is given twice, and no manager starts beside another one;
 * nothing that runs stays unknown to a manager that sees; no unit is started on nodes that there are not;
 * none is stopped or ended at once that the manager sees serve, or has requests; a role that is needed
 * is not left without a unit that serves; promised nodes are given in time where nothing has failed; and
 * in the end the fleet is as its manager wants it.
 */
#ifndef SIMULATE_FLEET_MANAGERS_H
#define SIMULATE_FLEET_MANAGERS_H

#include "serving/fleet/fleet_manager.h"
#include "simulate/fleet_carriers.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_dice.h"

struct world;

enum {
    FLEET_JOBS_MAX = 4 * FLEET_UNITS_MAX, /* that run, wait for nodes, or will never get any */
    FLEET_KEPT_MAX =
        2 * FLEET_JOBS_MAX, /* units, those included that are gone and not seen so yet */
    FLEET_MANAGER_FAULTS = 10,
    FLEET_WISHES_MAX = 8,
    FLEET_NO_NODE = 255
};

struct fleet_unit_job { /* of the launcher: a unit */
    uint32_t number;    /* 0: none */
    uint32_t role;      /* enum unit_role, that it was started with */
    uint32_t node;      /* or FLEET_NO_NODE: it waits for one */
    bool never;         /* it gets none */
    bool fails;         /* it ends when it should begin to serve */
    int64_t begins_ns;
    int64_t unknown_ns; /* since when a manager that sees does not know it; 0: it does */
};

struct fleet_kept { /* what the manager's process knows of a unit */
    uint32_t number, role, sight, requests;
    bool held, is_there;
    int64_t ordered_ns;
    /* As gateways said last; sight FLEET_SEEN_COUNT: none knows it. */
    uint32_t seen, seen_role, seen_requests;
    bool alone; /* no others that serve could go on with what it has */
    char numerics[32];
    uint32_t connections[FLEET_GATEWAYS_MAX]; /* 0: that gateway does not know it */
    /* For what must hold: as the machine was told last. */
    uint32_t told, told_requests;
    uint32_t managed_role, managed_state; /* as the machine had them at the last look */
    bool was_ended;                       /* the machine has said so before */
};

struct fleet_kept_book { /* for whoever comes next */
    uint32_t last_number, count;
    uint32_t pinned[SCALE_SIDES];
    struct {
        uint32_t number, role;
        bool held;
    } units[FLEET_KEPT_MAX];
};

struct fleet_managers {
    bool present;
    struct fleet_dice dice, launches; /* what the fleet is like; what becomes of a launch */
    struct fleet_manager_options options;
    int64_t promise_from_ns, promise_until_ns; /* within a day */
    uint32_t promised;
    /* The process: */
    char *memory; /* of its present life */
    struct fleet_manager *manager;
    struct machine machine;
    int64_t up_ns, look_ns; /* when it begins, and looks next */
    int64_t begun_ns;
    uint32_t dies_after; /* actions of a look; 0: it does not */
    uint64_t starts;     /* that it has said */
    struct record_fleet_load load;
    bool has_load, launcher_known;
    uint32_t kept_count;
    struct fleet_kept kept[FLEET_KEPT_MAX];
    struct fleet_kept_book book;
    uint32_t wish_count;
    _Alignas(8) struct record_fleet_order wishes[FLEET_WISHES_MAX];
    /* The launcher: */
    struct fleet_unit_job jobs[FLEET_JOBS_MAX];
    uint32_t last_number;                 /* that was ever launched */
    int64_t node_ns[FLEET_UNITS_MAX];     /* until then the node is lost */
    int64_t silent_ns;                    /* until then it does not answer, */
    int64_t blind_ns[FLEET_GATEWAYS_MAX]; /* and a gateway is not heard, */
    int64_t stale_ns;                     /* and what is told of gateways stays as it was */
    struct {
        struct fleet_dice dice;
        int64_t due_ns;
    } faults[FLEET_MANAGER_FAULTS];
};

size_t fleet_managers_bytes(void);
void fleet_managers_open(struct world *world, struct arena *arena);
void fleet_managers_run(struct world *world);
int64_t fleet_managers_wake_ns(const struct world *world);
void fleet_managers_heal(struct world *world);

/* At most so long until the next client, who comes the sooner the nearer the day is to its noon. */
int64_t fleet_managers_apart_ns(const struct world *world, int64_t apart_ns);

/* The fleet is not as its manager wants it. */
bool fleet_managers_awaits(const struct world *world);
void fleet_managers_judge(struct world *world);

/* ---- fleet_launcher.c ---- */

void fleet_launcher_run(struct world *world);
int64_t fleet_launcher_wake_ns(const struct world *world);

/* False: it could not be launched at all. */
bool fleet_launcher_start(struct world *world, uint32_t number, uint32_t role);

/* `at_once`: without waiting for its requests. A number that is not there is none. */
void fleet_launcher_stop(struct world *world, uint32_t number, bool at_once);

/* A node is gone, with what stands on it, until then. */
void fleet_launcher_lose_node(struct world *world, uint32_t node, int64_t until_ns);

const struct fleet_unit_job *fleet_launcher_find(const struct world *world, uint32_t number);
uint32_t fleet_launcher_count(const struct world *world);

#endif
