/* SPDX-License-Identifier: Apache-2.0
 * Starts a fleet's units and lists those that run: as this machine's processes, on a list of hosts,
 * or with Slurm. A unit outlives the manager that started it: it has no parent to die with. Its
 * fleet's mark and its number are in its options (fathom unit --instance), so any later manager
 * finds it;
 * what a launcher remembers besides may be lost.
 */
#ifndef HOST_FLEET_LAUNCHER_H
#define HOST_FLEET_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "contract/record_unit.h"

#define LAUNCH_JOB_BYTES 64
#define LAUNCH_WORDS_MAX 128 /* of a unit's command line */

struct launch_order {
    uint32_t number;
    enum unit_role role;
    uint32_t nodes;
    const char *instance;     /* the option's value: 12 hexadecimal digits */
    const char *const *words; /* the unit's command line, NULL at the end */
    const char *log_path;     /* what it prints goes to its end */
};

struct launch_seen {
    uint32_t number;
    enum unit_role role;
    bool waits;                 /* for nodes */
    char job[LAUNCH_JOB_BYTES]; /* as a person names it: "pid 4711", "job 17 on n3" */
};

struct unit_launcher {
    void *self;
    const char *name;
    int64_t shows_ns; /* what was started is seen after so long at the latest, while it lives */
    /* An error says why nothing was started. */
    enum status (*start)(void *self, const struct launch_order *order, struct error *error);
    /* Calls `seen` for each unit of the fleet that is there. An error: who is there is not known now. */
    enum status (*look)(void *self, void (*seen)(void *context, const struct launch_seen *unit),
                        void *context, struct error *error);
    /* `at_once`: without waiting for its requests. A number that is not there is none. */
    void (*stop)(void *self, uint32_t number, bool at_once);
    void (*close)(void *self);
};

#define FLEET_MARK_DIGITS 6 /* of the 12 of an instance; the others are the unit's number */

/* "a1b2c3" of a fleet's name. */
void launcher_mark(const char *fleet, char mark_out[FLEET_MARK_DIGITS + 1]);

/* The number in an instance of the fleet with that mark; 0: it is another's, or none. */
uint32_t launcher_number(const char *mark, const char *instance);

/* The launcher of processes of this machine; their command line names an instance of the fleet. */
enum status launch_local_open(const char *mark, struct unit_launcher *launcher_out,
                              struct error *error) MUST_USE;

/* The launcher of Slurm jobs with the fleet's mark in their names. `options` are further ones for
 * sbatch, NULL at the end, and live as long. */
enum status launch_slurm_open(const char *mark, const char *const *options,
                              struct unit_launcher *launcher_out, struct error *error) MUST_USE;

struct launch_hosts_options {
    const char *const *hosts; /* [host_count] */
    uint32_t host_count;
    uint32_t host_units;             /* units of one host at most */
    const char *const *remote_shell; /* words before a host's name; NULL at the end */
};

/* Launches the processes of several hosts, by a remote shell. The options' texts must outlive it. */
enum status launch_hosts_open(const char *mark, const struct launch_hosts_options *options,
                              struct unit_launcher *launcher_out, struct error *error) MUST_USE;

#endif
