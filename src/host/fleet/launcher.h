/* SPDX-License-Identifier: Apache-2.0
 * Starts, lists and stops a fleet's units: as processes on this machine, as processes on a list of
 * hosts, or as Slurm jobs. A unit outlives the manager that started it: it runs in its own session
 * or as a Slurm job. The fleet's tag and the unit's number are in the unit's command line (fathom
 * unit --instance) and in the name of a Slurm job, so any later manager can find it. A launcher has
 * no other state that must survive a restart.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "contract/record_unit.h"

#define LAUNCH_JOB_BYTES 64

struct launch_request {
    uint32_t number;
    enum unit_role role;
    uint32_t nodes;          /* nodes that the unit spans; used only by Slurm */
    const char *instance;    /* value of --instance: 12 hexadecimal digits */
    const char *const *argv; /* the unit's command line, NULL-terminated */
    const char *log_path;    /* file to which the unit's output is appended */
};

struct launched_unit {
    uint32_t number;
    enum unit_role role;
    bool pending;               /* waits for nodes */
    char job[LAUNCH_JOB_BYTES]; /* human-readable: "pid 4711", "job 17 on n3" */
};

struct unit_launcher {
    void *self;
    const char *name;
    /* a unit that is still not listed this long after its start is considered gone */
    int64_t list_delay_max_ns;
    /* Starts a unit. On failure, the error gives the cause. A failed remote start (Slurm, remote
     * shell) may still have taken effect; the unit then appears in the list. */
    enum status (*start)(void *self, const struct launch_request *request, struct error *error);
    /* Calls `visit` for each running or pending unit of the fleet. On error, discard the units
     * reported. */
    enum status (*list)(void *self, void (*visit)(void *context, const struct launched_unit *unit),
                        void *context, struct error *error);
    /* Asks a unit to drain and exit, or kills it if `at_once`. Does not wait for it to exit.
     * Failures are at most logged. An unknown number is ignored. */
    void (*stop)(void *self, uint32_t number, bool at_once);
    void (*close)(void *self);
};

/* The first 6 of an instance's 12 hexadecimal digits are the fleet's tag; the last 6 are the unit's
 * number. */
#define FLEET_TAG_DIGITS 6

/* Computes a fleet's tag, such as "a1b2c3", from its name. */
void launcher_tag(const char *fleet, char tag_out[FLEET_TAG_DIGITS + 1]);

/* Returns the unit number in `instance`; 0 if the instance is invalid or belongs to another
 * fleet. */
uint32_t launcher_number(const char *tag, const char *instance);

/* Opens the launcher for processes on this machine. It recognizes units by the --instance in their
 * command lines. */
enum status launch_local_open(const char *tag, struct unit_launcher *launcher_out,
                              struct error *error) MUST_USE;

/* Opens the launcher for Slurm jobs, with the fleet's tag in their names. `options`: extra sbatch
 * options, NULL-terminated; must stay valid while the launcher is open. */
enum status launch_slurm_open(const char *tag, const char *const *options,
                              struct unit_launcher *launcher_out, struct error *error) MUST_USE;

struct launch_hosts_options {
    const char *const *hosts; /* [host_count] */
    uint32_t host_count;
    uint32_t units_per_host_max;
    /* remote shell command, for example {"ssh", NULL}; the host name and a script are appended */
    const char *const *remote_shell;
};

/* Opens the launcher for processes on several hosts, started through a remote shell. The strings in
 * `options` must stay valid while the launcher is open. */
enum status launch_hosts_open(const char *tag, const struct launch_hosts_options *options,
                              struct unit_launcher *launcher_out, struct error *error) MUST_USE;
