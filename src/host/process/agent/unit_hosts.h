/* SPDX-License-Identifier: Apache-2.0
 * Executes the orders of a unit's supervisor (serving/supervision/supervise_unit.h) on the unit's
 * hosts, and passes it what comes of them: an agent on each host, started when it is needed and
 * kept over starts of the unit; a check of all hosts; the launch of all ranks and their meeting;
 * their signs of life, and their ends. This machine alone is the case of one host, with an agent
 * that needs no remote shell.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "host/process/agent/agent_frame.h"
#include "host/process/ranks/rank_health.h"
#include "serving/supervision/supervise_unit.h"

struct event_base;
struct unit_hosts;

struct unit_host { /* where some of the unit's ranks are */
    const char *name;
    bool is_here;     /* this machine */
    uint32_t sharing; /* ranks on the host, these and those of other units */
    uint32_t before;  /* of those: of the units before this one */
};

struct unit_host_start {     /* parameters of a start of a unit, for its ranks on one host */
    uint32_t unit;           /* its number, 1.. */
    uint32_t ranks, cpus;    /* of the unit on the host; of the host, for ranks */
    bool is_here, is_spread; /* the host is this machine; the unit has several */
    bool has_role;           /* it said so when it ran last: */
    enum unit_role role;
    const char *room;          /* the agent's, over all starts */
    const char *folder;        /* for this start's own files; it exists */
    const char *address;       /* of the host's interface */
    const char *first_address; /* of the host with rank 0 */
    uint32_t first_port;       /* that was free there */
};

struct unit_host_file {
    const char *name;
    struct bytes text;
};

struct unit_hosts_options { /* of all units of a supervisor */
    struct event_base *base;
    const char *const *remote_shell;  /* words before a host's name; NULL at the end */
    const char *const *agent_options; /* words behind `fathom agent`; NULL at the end */
    struct agent_check check;         /* what ranks need on a host: interface, model, memory */
    void *context;
    /* The words of a start's command line as one piece, which is freed; NULL at the end. The first,
     * the program, is each agent's own. */
    const char **(*command)(void *context, const struct unit_host_start *start);
};

struct unit_hosts_unit {            /* one of them */
    uint32_t number;                /* 1.. */
    const char *name;               /* as no other supervisor's; copied */
    struct supervise_unit *machine; /* its hosts and ranks are set */
    const struct unit_host *hosts;  /* [machine->host_count], the owner's, as are the names */
    void *context;
    /* An order that is not the hosts': GIVE_UP, and most reports. */
    void (*report)(void *context, const struct supervise_order *order);
};

enum status unit_hosts_open(const struct unit_hosts_options *options,
                            const struct unit_hosts_unit *unit, struct unit_hosts **hosts_out,
                            struct error *error) MUST_USE;

/* Files, [count], for each agent's room; they live as long as the hosts. */
void unit_hosts_give_files(struct unit_hosts *hosts, const struct unit_host_file *files,
                           uint32_t count);

/* Executes the unit's orders; called after each event that the owner passes to the unit. */
void unit_hosts_obey(struct unit_hosts *hosts);

/* Returns the time in ns until the next call. */
int64_t unit_hosts_tick(struct unit_hosts *hosts);

/* [rank_count], of this start; a pid of 0: not there yet. */
const struct rank_line *unit_hosts_lines(const struct unit_hosts *hosts);

/* Why the last check failed or the last host was lost; "": neither. */
const char *unit_hosts_why(const struct unit_hosts *hosts);

/* Reads what has arrived; for an owner after its loop has ended. */
void unit_hosts_tend(struct unit_hosts *hosts);

/* Ends agents and ranks. */
void unit_hosts_close(struct unit_hosts *hosts);
