/* SPDX-License-Identifier: Apache-2.0
 * Starts the units of `fathom serve` with several ranks or units, and the ranks of `fathom unit`.
 * Each is a `fathom unit` process under host/process/agent/supervisor. It gets the options of its
 * parent, and its packed weights outlive it.
 */
#pragma once

#include "command/rank_job.h"
#include "contract/record_unit.h"
#include "host/loop.h"
#include "programs/log_options.h"

struct unit_supervisor;

#define UNIT_SUPERVISOR_UNITS_MAX 64

struct unit_supervisor_values {
    double rank_timeout;
    const char *hosts, *hostfile, *remote_shell, *interface;
};

/* Rows for an option table of struct `owner` with a member struct unit_supervisor_values
 * `unit_supervisor`. */
#define UNIT_SUPERVISOR_OPTIONS(owner)                                                             \
    OPTION_ROW(                                                                                    \
        "hosts", OPTION_LIST, NULL,                                                                \
        "hosts of the ranks, with the number on each: a:8,b:8; units fill the hosts in this "      \
        "order. Default: the nodes of the Slurm allocation, or this machine (docs/cluster.md)",    \
        .offset = offsetof(owner, unit_supervisor.hosts), .group = OPTION_GROUP_RANKS),            \
        OPTION_ROW("hostfile", OPTION_TEXT, NULL,                                                  \
                   "--hosts from a file: a line for each host, 'a slots=8' or 'a:8'",              \
                   .offset = offsetof(owner, unit_supervisor.hostfile),                            \
                   .group = OPTION_GROUP_RANKS),                                                   \
        OPTION_ROW(                                                                                \
            "remote-shell", OPTION_TEXT, NULL,                                                     \
            "command that starts a program on a host; the host's name and the program with its "   \
            "arguments follow it. Default: ssh -o BatchMode=yes; in a Slurm allocation srun",      \
            .offset = offsetof(owner, unit_supervisor.remote_shell),                               \
            .needs = RANK_JOB_UNIT_SUPERVISOR_NEEDED, .group = OPTION_GROUP_RANKS),                \
        OPTION_ROW("interface", OPTION_TEXT, NULL,                                                 \
                   "network interface of each host for the ranks' exchange and KV blocks, such "   \
                   "as eth1 or ib0; default: any for the exchange, the first for KV blocks",       \
                   .offset = offsetof(owner, unit_supervisor.interface),                           \
                   .needs = RANK_JOB_UNIT_SUPERVISOR_NEEDED, .group = OPTION_GROUP_RANKS),         \
        OPTION_ROW("rank-timeout", OPTION_NUMBER, "2",                                             \
                   "seconds without progress after which a rank counts as stuck and is killed, "   \
                   "times the ranks that share a CPU; with your own launcher five times as long, " \
                   "and then the unit ends; 0: never",                                             \
                   .offset = offsetof(owner, unit_supervisor.rank_timeout),                        \
                   .needs = RANK_JOB_UNIT_SUPERVISOR_NEEDED, .maximum = 1e6,                       \
                   .group = OPTION_GROUP_RANKS)

struct supervised_unit {
    uint32_t ranks;
    enum unit_role role;
    const char *kv_listen; /* address at which other units reach its KV pages; NULL: none */
};

struct unit_supervisor_options {
    const struct option_table *table; /* the units inherit its values */
    const void *values;
    const struct unit_supervisor_values *unit_supervisor;
    const struct rank_job_values *job;
    const struct supervised_unit *units; /* [unit_count] */
    uint32_t unit_count;
    const struct log_values *log;
    const char *model;     /* a directory; NULL: the embedded model */
    const char *device;    /* of ranks; "cpu": none */
    bool force;            /* a host that lacks memory is no reason to refuse it */
    uint64_t kv_bytes;     /* KV pages of each unit */
    uint64_t threads;      /* per rank; 0: an even share of the CPUs */
    int64_t finish_ns_max; /* units' time to finish requests; 0: there are none */
    const char *address;   /* NULL: `wire` in the supervisor's folder */
};

/* Checks that this machine has the device if ranks run here. Ranks on other hosts check it
 * themselves. */
enum status unit_supervisor_check_device(const struct unit_supervisor_values *values,
                                         const char *device, struct error *error) MUST_USE;

/* If the supervisor gives up, it ends the loop. */
enum status unit_supervisor_open(const struct unit_supervisor_options *options, struct loop *loop,
                                 struct unit_supervisor **unit_supervisor_out,
                                 struct error *error) MUST_USE;
/* Sets the address and keys for the units' connections. They live as long as the supervisor. */
void unit_supervisor_wire(const struct unit_supervisor *unit_supervisor, struct wire_options *wire);
/* The number of the unit that the process `pid` runs, in the supervisor's order; 0: none.
 * `context`: a struct unit_supervisor. */
uint32_t unit_supervisor_job_of(void *context, int64_t pid);
/* Starts the units. They are supervised as long as the loop runs. */
void unit_supervisor_start(struct unit_supervisor *unit_supervisor);
/* Lets the units finish, and waits until they end. */
void unit_supervisor_close(struct unit_supervisor *unit_supervisor);
