/* SPDX-License-Identifier: Apache-2.0
 * Executes the orders of a unit's supervision machine (serving/supervision/supervise_unit.h) on the
 * unit's hosts, and passes events back to it. It manages an agent on each host, started on demand
 * and kept over restarts of the unit, the check of all hosts, the launch and the rendezvous of all
 * ranks, their heartbeats and their ends. A unit on this machine alone has one host, and an agent
 * without a remote shell.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "host/process/agent/agent_frame.h"
#include "host/process/agent/unit_machines.h"
#include "host/process/ranks/rank_health.h"
#include "serving/supervision/supervise_unit.h"

struct event_base;
struct unit_hosts;

struct unit_host { /* a host with some of the unit's ranks */
    const char *name;
    bool is_here;     /* this machine */
    uint32_t sharing; /* ranks on the host, including those of other units */
    uint32_t before;  /* ranks on the host of units before this one */
};

struct unit_host_start {     /* parameters of a start of a unit, for its ranks on one host */
    uint32_t unit;           /* its number, 1.. */
    uint32_t ranks, cpus;    /* the unit's ranks on the host; the host's CPUs for ranks */
    bool is_here, is_spread; /* the host is this machine; the unit has several hosts */
    bool has_role;           /* the unit reported a role in its last run */
    enum unit_role role;
    const char *room;          /* the agent's folder, shared by all starts */
    const char *folder;        /* existing folder for files of this start */
    const char *address;       /* address of the host's interface */
    const char *first_address; /* the same of the host with rank 0 */
    uint32_t first_port;       /* a port that was free there */
};

struct unit_host_file {
    const char *name;
    struct bytes text;
};

struct unit_hosts_options { /* of all units of a supervisor */
    struct event_base *base;
    const char *const *remote_shell;  /* words before a host's name; NULL at the end */
    const char *const *agent_options; /* words after `fathom agent`; NULL at the end */
    struct agent_check check;         /* what ranks need on a host: interface, model, memory */
    struct unit_machines *machines;   /* of all hosts; NULL: two names may be of one machine */
    void *context;
    /* Returns the words of a start's command line in one allocation, which is freed; NULL at the
     * end. Each agent replaces the first word by its own program. */
    const char **(*command)(void *context, const struct unit_host_start *start);
};

struct unit_hosts_unit {            /* one of the supervisor's units */
    uint32_t number;                /* 1.. */
    const char *name;               /* unique among all supervisors; copied */
    struct supervise_unit *machine; /* with its hosts and ranks */
    const struct unit_host *hosts;  /* [machine->host_count], with names; must stay valid */
    void *context;
    /* Receives the orders that are for the owner: GIVE_UP, and most reports. */
    void (*report)(void *context, const struct supervise_order *order);
};

enum status unit_hosts_open(const struct unit_hosts_options *options,
                            const struct unit_hosts_unit *unit, struct unit_hosts **hosts_out,
                            struct error *error) MUST_USE;

/* Sets files, [count], for each agent's room. They must outlive the hosts. */
void unit_hosts_give_files(struct unit_hosts *hosts, const struct unit_host_file *files,
                           uint32_t count);

/* Executes the unit's orders. Call it after each event passed to the unit. */
void unit_hosts_obey(struct unit_hosts *hosts);

/* Returns the time in ns until the next call. */
int64_t unit_hosts_tick(struct unit_hosts *hosts);

/* Lines of the health table, [rank_count], of this start; pid 0: not started yet. */
const struct rank_line *unit_hosts_lines(const struct unit_hosts *hosts);

/* The reason why the last check failed or the last host was lost; "": neither. */
const char *unit_hosts_why(const struct unit_hosts *hosts);

/* Processes received frames after the event loop of the owner has ended. */
void unit_hosts_tend(struct unit_hosts *hosts);

/* Ends agents and ranks. */
void unit_hosts_close(struct unit_hosts *hosts);
