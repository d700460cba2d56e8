/* SPDX-License-Identifier: Apache-2.0
 * Starts a fleet's units and lists running ones: as processes of this machine, on a list of hosts,
 * or with Slurm. A unit outlives the manager that started it, because it is not a child of the
 * manager. Its options contain the fleet's mark and its number (fathom unit --instance), so that
 * any later manager finds it. Other state of a launcher may be lost.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "contract/record_unit.h"

#define LAUNCH_JOB_BYTES 64

struct launch_order {
    uint32_t number;
    enum unit_role role;
    uint32_t nodes;
    const char *instance;     /* value of --instance: 12 hexadecimal digits */
    const char *const *words; /* the unit's command line, NULL at the end */
    const char *log_path;     /* file to which the unit's output is appended */
};

struct launch_seen {
    uint32_t number;
    enum unit_role role;
    bool waits;                 /* waits for nodes */
    char job[LAUNCH_JOB_BYTES]; /* for people: "pid 4711", "job 17 on n3" */
};

struct unit_launcher {
    void *self;
    const char *name;
    int64_t shows_ns; /* time after which a started unit appears in `look` */
    /* Starts a unit. The error names the cause if nothing was started. */
    enum status (*start)(void *self, const struct launch_order *order, struct error *error);
    /* Calls `seen` for each unit of the fleet. After an error the set of units is unknown. */
    enum status (*look)(void *self, void (*seen)(void *context, const struct launch_seen *unit),
                        void *context, struct error *error);
    /* Stops a unit; `at_once`: without waiting for its requests. An unknown number is ignored. */
    void (*stop)(void *self, uint32_t number, bool at_once);
    void (*close)(void *self);
};

/* the first of an instance's 12 digits; the others are the unit's number */
#define FLEET_MARK_DIGITS 6

/* Computes the mark of a fleet from its name, such as "a1b2c3". */
void launcher_mark(const char *fleet, char mark_out[FLEET_MARK_DIGITS + 1]);

/* The number in an instance of the fleet with that mark; 0 if it is of another fleet, or
 * invalid. */
uint32_t launcher_number(const char *mark, const char *instance);

/* The launcher of processes on this machine; their command lines contain an instance of the
 * fleet. */
enum status launch_local_open(const char *mark, struct unit_launcher *launcher_out,
                              struct error *error) MUST_USE;

/* The launcher of Slurm jobs with the fleet's mark in their names. `options` are additional options
 * of sbatch, NULL at the end; the caller keeps them while the launcher is open. */
enum status launch_slurm_open(const char *mark, const char *const *options,
                              struct unit_launcher *launcher_out, struct error *error) MUST_USE;

struct launch_hosts_options {
    const char *const *hosts; /* [host_count] */
    uint32_t host_count;
    uint32_t host_units;             /* limit of units per host */
    const char *const *remote_shell; /* command that precedes the name of a host; NULL at the end */
};

/* The launcher of processes on several hosts, by a remote shell. The caller keeps the options'
 * texts while the launcher is open. */
enum status launch_hosts_open(const char *mark, const struct launch_hosts_options *options,
                              struct unit_launcher *launcher_out, struct error *error) MUST_USE;
