/* SPDX-License-Identifier: Apache-2.0
 * A unit's ranks on its hosts, as its supervisor has them: an agent on each host, started when it is
 * needed and kept over starts of the unit; a check of all hosts; the launch of all ranks and their
 * meeting; their signs of life, and their ends. This machine alone is the case of one host, with
 * an agent that needs no remote shell. The supervisor judges.
 */
#ifndef HOST_PROCESS_AGENT_UNIT_HOSTS_H
#define HOST_PROCESS_AGENT_UNIT_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "host/process/agent/agent_frame.h"
#include "host/process/ranks/rank_health.h"
#include "serving/policy/place_ranks.h"
#include "serving/supervision/supervise.h"

struct event_base;
struct unit_hosts;

struct unit_host { /* where some of the unit's ranks are */
    const char *name;
    bool is_here; /* this machine */
    uint32_t first, count;
    uint32_t sharing; /* ranks on the host, these and those of other units */
    uint32_t before;  /* of those: of the units before this one */
};

struct unit_host_start {       /* parameters of a start for the ranks of a host */
    uint32_t host;             /* index */
    uint32_t ranks, cpus;      /* of the unit on the host; of the host, for ranks */
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

struct unit_hosts_options {
    struct event_base *base;
    const char *name;              /* of the unit, as no other supervisor's */
    const struct unit_host *hosts; /* [host_count] ranks ascending; copied, names are not */
    uint32_t host_count, rank_count;
    const char *const *remote_shell;  /* words before the host's name; NULL at the end */
    const char *const *agent_options; /* words behind `agent`; NULL at the end */
    struct agent_check check;         /* but for name, counts and timeout */
    int64_t timeout_ns;               /* of an agent that is silent; 0: none is ever lost for it */
    void *context;
    /* All agents have answered. An error names the first host that lacks something; all have been
     * named in a line of the log each. */
    void (*checked)(void *context, const struct error *error);
    /* The words of a start's command line as one piece, which is freed; NULL: no memory. The first,
     * the program, is each agent's own. */
    const char **(*words)(void *context, const struct unit_host_start *start);
    /* The process of rank 0 is known; may be NULL. */
    void (*launched)(void *context);
    /* A heartbeat of a rank in the start of that number. Returns false if that start is over. */
    bool (*sign)(void *context, uint32_t number, uint32_t rank,
                 const struct supervise_signs *signs);
    void (*ended)(void *context, uint32_t number, uint32_t rank, int status);
    /* An agent is lost, and with it what ran there. */
    void (*lost)(void *context, uint32_t host, const char *why);
};

enum status unit_hosts_open(const struct unit_hosts_options *options, struct unit_hosts **hosts_out,
                            struct error *error) MUST_USE;

/* Files, [count], for each agent's room; they live as long as the hosts. */
void unit_hosts_give_files(struct unit_hosts *hosts, const struct unit_host_file *files,
                           uint32_t count);

/* Starts agents where there are none, and has hosts checked that were not; `checked` is called from
 * the loop, or at once. */
void unit_hosts_check(struct unit_hosts *hosts);

/* Launches all ranks, of a start that has this number; all hosts were found to be right. */
enum status unit_hosts_launch(struct unit_hosts *hosts, uint32_t number,
                              struct error *error) MUST_USE;

/* Starts a rank of that start again, which has ended, to come back to the job. */
void unit_hosts_again(struct unit_hosts *hosts, uint32_t number, uint32_t rank);

/* The job's epoch: how often one of its ranks has ended or come back
 * (compute/exchange/job_rendezvous.h); and whether a rank is alive. */
uint32_t unit_hosts_epoch(const struct unit_hosts *hosts);
bool unit_hosts_has(const struct unit_hosts *hosts, uint32_t rank);

/* To a rank, or to AGENT_ALL_RANKS. */
void unit_hosts_signal(struct unit_hosts *hosts, uint32_t rank, int number);

/* Tells all ranks that one is gone, if it was there. */
void unit_hosts_report_gone(struct unit_hosts *hosts, uint32_t rank);

/* Gives up a host's agent. */
void unit_hosts_abandon(struct unit_hosts *hosts, uint32_t host);

/* [rank_count], of this start; a pid of 0: not there yet. */
const struct rank_line *unit_hosts_lines(const struct unit_hosts *hosts);

/* True: every agent was heard within the time. */
bool unit_hosts_received(const struct unit_hosts *hosts, int64_t ns);

/* A few times within the timeout. */
void unit_hosts_tick(struct unit_hosts *hosts, int64_t now_ns);

/* Reads what has arrived; for an owner after its loop has ended. */
void unit_hosts_tend(struct unit_hosts *hosts);

/* Ends agents and ranks. */
void unit_hosts_close(struct unit_hosts *hosts);

#endif
