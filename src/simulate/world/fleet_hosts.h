/* SPDX-License-Identifier: Apache-2.0
 * Hosts of a simulated fleet. Each unit's ranks are processes on some of the hosts. An agent on
 * each of the unit's hosts launches them and reports on them, and a supervisor for each unit
 * decides. Supervisors and agents are the product's machines (serving/supervision). Links, processes
 * and the network between them are models of host/process/agent/agent_link.h, rank_launch.h and
 * compute/exchange/job.h. A supervisor runs on a machine that never fails, or on its unit's first
 * host. The work of a living rank is in fleet_units.
 *
 * A rank that is restarted while the others serve reads its weights and reports that it is ready.
 * All living ranks receive the report, regroup, and continue with it, on empty pages. Until then it
 * may die repeatedly, hang for ever, or be cut off with its host.
 *
 * The network keeps the order of a connection's frames, delays them, and holds them while it is
 * cut. A link may break: its frames are lost, and each of its ends notices that or does not.
 *
 * Invariants: a unit that cannot continue is detected and restarted in time. No rank has two
 * incarnations in one supervisor's job. No living rank is reported gone, and no unit continues
 * without a living rank. A unit that continues does so without all ranks that are gone. No rank
 * outlives the loss of its supervisor by long. A lost host has no ranks left. A returned rank
 * receives requests, and a dead one receives none. A rank that hangs while it returns is killed in
 * time, and one that is not there is not waited for. A host that looks what it has is not taken for
 * lost.
 */
#pragma once

#include "serving/supervision/supervise_agent.h"
#include "serving/supervision/supervise_unit.h"
#include "simulate/kernel/fault_timetable.h"
#include "simulate/pages/fleet_carriers.h"

struct world;

enum {
    FLEET_HOSTS_MAX = 4,
    FLEET_HOME = FLEET_HOSTS_MAX, /* the machine that never fails */
    FLEET_AGENTS_EACH = 8, /* agents of a unit on a host, including those left from earlier links */
    FLEET_FRAMES_MAX = 4096
};

enum fleet_frame_kind {
    FRAME_CONNECT, /* to the host: an agent begins */
    FRAME_ORDER,   /* `order`, for the agent */
    FRAME_MEMBERS, /* all ranks of the start have joined */
    FRAME_GONE,    /* the rank is gone as of that epoch */
    FRAME_BACK,    /* the rank is back */
    FRAME_END,     /* the supervisor's end of the link is closed */
    FRAME_FACTS,   /* from here on: frames to the supervisor */
    FRAME_REACHED,
    FRAME_JOIN,
    FRAME_SIGNS,
    FRAME_ENDED,
    FRAME_PONG,
    FRAME_LOST, /* the host's end of the link is closed */
};

struct fleet_frame {
    enum fleet_frame_kind kind;
    uint32_t unit, part; /* unit, and index of the host in the unit */
    uint32_t link;
    uint32_t number; /* SIGNS, ENDED: of a start; CONNECT: the supervisor's incarnation */
    uint32_t rank;   /* JOIN, GONE, BACK, ENDED */
    uint32_t epoch;  /* SIGNS: epoch of the unit; GONE, BACK: epoch of the change */
    uint32_t gone;   /* GONE, BACK: bits of all gone ranks */
    bool is_right;   /* FACTS, REACHED */
    bool is_notice;  /* END, LOST: an end of a broken link notices that */
    struct supervise_order order; /* ORDER; REACHED: the order that it answers */
    struct supervise_how how;
    struct supervise_signs signs[FLEET_RANKS_MAX]; /* SIGNS */
    int64_t due_ns;
    uint64_t sent; /* order of sending */
};

struct fleet_process {                   /* one rank in one start */
    bool alive, is_here, has_met, spins; /* spins: it uses CPU time while it hangs */
    bool returns;                        /* it was restarted and does not serve yet */
    int64_t seen_ns; /* time from which its supervisor can detect that it hangs */
    /* bits of the ranks reported to it as gone, and the epoch of that report */
    uint32_t gone, epoch;
    int64_t here_ns, ready_ns; /* times of its start and of being ready */
    int64_t stopped_ns;        /* time at which it continues; MACHINE_NEVER: only a kill ends it */
    int64_t end_ns;            /* time of its exit; MACHINE_NEVER: none */
    struct supervise_how how;  /* the way it ends */
    uint64_t ran, tiles;
};

struct fleet_agent {
    bool alive;
    uint32_t unit, part;
    uint32_t link, life; /* the supervisor's link and incarnation */
    struct supervise_agent machine;
    int64_t tick_ns, out_ns;
    int64_t stopped_ns, look_ns; /* look_ns: it looks what its host has until then */
    int64_t kept_ns;             /* its supervisor, which was replaced, is heard until then */
    int64_t orphan_ns;           /* time since which no supervisor needs it; 0: one does */
    struct fleet_process processes[FLEET_RANKS_MAX];
};

struct fleet_agent_link {
    uint32_t id;   /* 0: none */
    bool is_right; /* what the host has */
    int64_t out_ns;
};

struct fleet_supervisor {
    bool alive;
    uint32_t life;
    uint32_t place;      /* its host */
    uint32_t here, gone; /* bits of the ranks that have joined the rendezvous, and that have left */
    uint32_t reported;   /* number of changes so far, each sent to all ranks */
    uint32_t epoch;      /* the epoch that rank 0 reported last */
    int64_t up_ns, tick_ns, stopped_ns; /* up_ns: time of its start; MACHINE_NEVER: none */
    int64_t trouble_ns;                 /* time since which its unit needs it; 0: not needed */
    struct fleet_agent_link links[FLEET_HOSTS_MAX];
    struct supervise_unit unit;
    struct supervise_host hosts[FLEET_HOSTS_MAX];
    struct supervise_rank ranks[FLEET_RANKS_MAX];
    struct supervise_signs signs[FLEET_RANKS_MAX];
    struct supervise_member members[FLEET_RANKS_MAX];
};

/* The ranks of a unit's last start as a group. */
struct fleet_supervised_unit {
    uint32_t life, number;
    bool serves;      /* all ranks have joined and are ready */
    bool is_cursed;   /* a restarted rank never joins */
    uint32_t without; /* bits of the ranks that are gone */
    uint32_t epoch;   /* epoch of `without` */
    /* time of the regrouping; MACHINE_NEVER: the living ranks are not ready for it */
    int64_t regroup_ns;
    int64_t regroup_by_ns;
};

struct fleet_machine {
    bool up;
    int64_t up_ns;  /* time of its return */
    int64_t off_ns; /* its network is off until then */
    int64_t slow_ns;
    int64_t full_ns, late_ns; /* its memory is full; its agents look for long what it has */
    int64_t fails_ns;         /* it starts no process */
};

struct fleet_hosts {
    bool present;
    struct fleet_dice dice, returns; /* returns: random numbers for returning ranks */
    int64_t timeout_ns;
    uint32_t slots_needed; /* living ranks needed to hold all experts */
    int64_t struck_ns;     /* time of the last fault of these hosts */
    uint32_t links;        /* number of links ever opened */
    bool is_chosen;        /* ranks use a chosen interface: hosts must reach each other over it */
    uint32_t broken[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* the last link that broke */
    struct fleet_machine machines[FLEET_HOSTS_MAX + 1];
    int64_t cut_ns[FLEET_HOSTS_MAX + 1][FLEET_HOSTS_MAX + 1];
    struct fleet_supervisor supervisors[FLEET_UNITS_MAX];
    struct fleet_supervised_unit supervised_units[FLEET_UNITS_MAX];
    uint32_t part_count[FLEET_UNITS_MAX];
    uint32_t first_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX];   /* first rank of a part */
    uint32_t ranks_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX];   /* number of ranks of a part */
    uint32_t machine_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* machine of a part */
    struct fleet_agent agents[FLEET_UNITS_MAX][FLEET_HOSTS_MAX][FLEET_AGENTS_EACH];
    struct fault_timetable faults;
    struct fleet_frame frames[FLEET_FRAMES_MAX]; /* ordered by arrival */
    uint32_t frame_count;
    uint64_t sent;
};

/* Opens the hosts in runs that have them, before any unit begins. */
void fleet_hosts_open(struct world *world);

/* Handles all that is due. Returns the time of the next event. */
void fleet_hosts_run(struct world *world);
int64_t fleet_hosts_wake_ns(const struct world *world);

/* Ends all faults; no new ones occur. */
void fleet_hosts_heal(struct world *world);

/* True if a rank is returning. */
bool fleet_hosts_awaits(const struct world *world);

/* True if the unit's ranks cannot end a step: one has died or hangs, or the network between two is
 * cut. */
bool fleet_hosts_holds(const struct world *world, uint32_t unit);

/* Turns the machine's network off for a while. */
void fleet_hosts_cut(struct world *world, uint32_t machine, struct fleet_dice *dice);

/* Kills a rank's process if it lives. */
void fleet_hosts_kill_rank(struct world *world, uint32_t unit, uint32_t rank);

/* Ends the processes of a drained unit. */
void fleet_hosts_finish(struct world *world, uint32_t unit);

/* Checks the end of the run. */
void fleet_hosts_verify(struct world *world);

/* ---- the network (fleet_hosts.c) ---- */

/* The time until which the two cannot reach each other; 0: they can. */
int64_t fleet_hosts_cut_ns(const struct world *world, uint32_t machine, uint32_t other);

uint32_t fleet_hosts_machine_of(const struct world *world, const struct fleet_agent *agent);

/* Sets only the fields of the frame that its kind needs. */
void fleet_hosts_send(struct world *world, struct fleet_frame frame, int64_t *out_ns);

/* The agent at the end of the frame's link; NULL: it is not alive. */
struct fleet_agent *fleet_hosts_agent_of(struct fleet_hosts *hosts,
                                         const struct fleet_frame *frame);

/* ---- supervisors and agents (fleet_links.c) ---- */

void fleet_links_begin_supervisor(struct world *world, uint32_t unit);
void fleet_links_end_supervisor(struct world *world, uint32_t unit, int64_t up_ns);

/* Ends an agent and its processes. `quietly`: the whole machine fails, and no peer is notified. */
void fleet_links_end_agent(struct world *world, struct fleet_agent *agent, bool quietly);

/* A rank's process has ended, or has joined. */
void fleet_links_rank_ended(struct world *world, struct fleet_agent *agent, uint32_t rank,
                            struct supervise_how how);
void fleet_links_rank_joined(struct world *world, struct fleet_agent *agent, uint32_t rank);

void fleet_links_take(struct world *world, const struct fleet_frame *frame);
void fleet_links_run(struct world *world, uint32_t unit);
int64_t fleet_links_wake_ns(const struct world *world, uint32_t unit);

/* ---- processes (fleet_ranks.c) ---- */

/* The living process of the unit's current start; NULL if there is none, or it is returning. */
struct fleet_process *fleet_ranks_process(struct fleet_hosts *hosts, uint32_t unit, uint32_t rank);

/* Starts all ranks of the agent, or one again. */
bool fleet_ranks_start(struct world *world, struct fleet_agent *agent);
bool fleet_ranks_restart(struct world *world, struct fleet_agent *agent, uint32_t rank);

/* Kills all processes without a report to the agent, or reports each. */
void fleet_ranks_kill_all(struct world *world, struct fleet_agent *agent);
void fleet_ranks_kill(struct world *world, struct fleet_agent *agent, uint32_t one);

struct supervise_signs fleet_ranks_sign(const struct world *world, struct fleet_agent *agent,
                                        uint32_t rank);

/* The epoch that rank 0 reports. */
uint32_t fleet_ranks_epoch(const struct world *world, const struct fleet_agent *agent);

/* The `changes` of supervise_agent_look. */
uint32_t fleet_ranks_count_changes(const struct world *world, const struct fleet_agent *agent);

/* MEMBERS, GONE or BACK arrives at the ranks. */
void fleet_ranks_take(struct world *world, struct fleet_agent *agent,
                      const struct fleet_frame *frame);

void fleet_ranks_run_processes(struct world *world, struct fleet_agent *agent);
void fleet_ranks_run(struct world *world, uint32_t unit);
int64_t fleet_ranks_wake_ns(const struct world *world, uint32_t unit);
