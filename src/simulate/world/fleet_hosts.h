/* SPDX-License-Identifier: Apache-2.0
 * The hosts of a simulated fleet. The ranks of a unit are processes on some of the hosts. On each
 * host of the unit an agent launches them and reports on them, and a supervisor for each unit
 * decides. Supervisors, agents and the epochs of ranks are the product's state machines
 * (serving/supervision, base/rank_epochs.h). The links between them, the processes, and the network
 * of the ranks are models of host/process/agent/agent_link.h, rank_launch.h and
 * compute/exchange/job.h. A supervisor runs on a
 * machine that never fails, or on the first host of its unit. The work of living ranks is simulated
 * in fleet_units.
 *
 * A rank that is restarted while the others serve reads its weights and reports that it is ready.
 * All living ranks receive that report, regroup, and continue with it, on empty pages. Until then
 * it may die again, hang forever, or be cut off with its host.
 *
 * The network delays the frames of a connection but keeps their order, and holds them while it is
 * cut. A link may break: its frames are lost, and each end may or may not notice that.
 *
 * Invariants: a unit that cannot continue is detected and restarted in time. No rank has two
 * incarnations in one supervisor's job. No living rank is reported gone, and no unit continues
 * without a living rank. A unit that continues does so without all ranks that are gone. After its
 * supervisor is lost, a rank ends soon. A lost host has no ranks left. A returned rank receives
 * requests, and a dead one receives none. A rank that hangs while it returns is killed in time, and
 * the unit does not wait for a rank that is not there. A host that is still checking what it has is
 * not taken for lost.
 */
#pragma once

#include "base/rank_epochs.h"
#include "serving/supervision/supervise_agent.h"
#include "serving/supervision/supervise_unit.h"
#include "simulate/kernel/fault_timetable.h"
#include "simulate/kernel/post.h"
#include "simulate/pages/fleet_carriers.h"

struct world;

enum {
    FLEET_HOSTS_MAX = 4,
    FLEET_HOME = FLEET_HOSTS_MAX, /* index of the machine that never fails */
    FLEET_AGENTS_EACH = 8 /* agents of a unit on a host, including those left from earlier links */
};

enum fleet_frame_kind {
    FRAME_CONNECT, /* to the host: an agent begins */
    FRAME_ORDER,   /* `order`, for the agent */
    FRAME_MEMBERS, /* all living ranks have joined an epoch */
    FRAME_GONE,    /* a rank is gone as of an epoch */
    FRAME_BACK,    /* a rank is back as of an epoch */
    FRAME_END,     /* the supervisor has closed its end of the link */
    FRAME_FACTS,   /* from here on: frames to the supervisor */
    FRAME_REACHED,
    FRAME_JOIN,
    FRAME_SIGNS,
    FRAME_ENDED,
    FRAME_PONG,
    FRAME_LOST, /* the host has closed its end of the link */
};

struct fleet_frame {
    struct record record; /* for kernel/post; only its size is used */
    enum fleet_frame_kind kind;
    uint32_t unit, part; /* the unit, and the index of the host in it */
    uint32_t link;
    uint32_t number; /* SIGNS, ENDED: the start; CONNECT: the supervisor's incarnation */
    uint32_t rank;   /* JOIN, GONE, BACK, ENDED */
    uint32_t epoch;  /* SIGNS: of the unit; MEMBERS, GONE, BACK, JOIN */
    uint32_t gone;   /* MEMBERS, GONE, BACK: bit mask of all gone ranks */
    bool is_right;   /* FACTS, REACHED */
    bool is_notice;  /* END, LOST: one end of a broken link notices the break */
    struct supervise_order order; /* ORDER; REACHED: the order that it answers */
    struct supervise_how how;
    struct supervise_signs signs[FLEET_RANKS_MAX]; /* SIGNS */
};

struct fleet_process {                   /* one rank in one start */
    bool alive, is_here, has_met, spins; /* spins: uses CPU time while it hangs */
    bool returns;                        /* restarted, but does not serve yet */
    int64_t seen_ns;                     /* its supervisor can detect from then on that it hangs */
    /* bit mask of the ranks that were reported to it as gone, and the epoch of that report */
    uint32_t gone, epoch;
    bool has_joined, meets;    /* it has joined that epoch; all living ranks have */
    int64_t here_ns, ready_ns; /* when it has started, and when it is ready */
    int64_t stopped_ns;        /* stopped until then; MACHINE_NEVER: until it is killed */
    int64_t end_ns;            /* when it exits, or MACHINE_NEVER */
    struct supervise_how how;  /* how it ends */
    uint64_t ran, tiles;
};

struct fleet_agent {
    bool alive;
    uint32_t unit, part;
    uint32_t link, life; /* of its supervisor: the link, and the incarnation */
    struct supervise_agent machine;
    int64_t tick_ns, out_ns;
    int64_t stopped_ns, look_ns; /* look_ns: it checks what its host has until then */
    int64_t kept_ns;             /* it still accepts its replaced supervisor until then */
    int64_t orphan_ns;           /* since when no supervisor needs it; 0: one does */
    struct fleet_process processes[FLEET_RANKS_MAX];
};

struct fleet_agent_link {
    uint32_t id;   /* 0: none */
    bool is_right; /* the host has what the unit needs */
    int64_t out_ns;
};

struct fleet_supervisor {
    bool alive;
    uint32_t life;
    uint32_t place; /* its host */
    struct rank_epochs epochs;
    uint32_t epoch;                     /* the epoch that rank 0 reported last */
    int64_t up_ns, tick_ns, stopped_ns; /* up_ns: when it starts, or MACHINE_NEVER */
    int64_t trouble_ns;                 /* since when its unit needs it; 0: it does not */
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
    bool is_cursed;   /* restarted ranks never join */
    uint32_t without; /* bit mask of the ranks that are gone */
    uint32_t epoch;   /* epoch of `without` */
    /* when the ranks regroup; MACHINE_NEVER: not all living ranks are ready */
    int64_t regroup_ns;
    int64_t regroup_by_ns;
};

struct fleet_machine {
    bool up;
    int64_t up_ns;  /* when it returns */
    int64_t off_ns; /* its network is down until then */
    int64_t slow_ns;
    int64_t full_ns, late_ns; /* its memory is full; its agents check slowly what it has */
    int64_t fails_ns;         /* it cannot start processes until then */
};

struct fleet_hosts {
    bool present;
    struct fleet_dice dice, returns; /* returns: for returning ranks */
    int64_t timeout_ns;
    uint32_t slots_needed; /* living ranks needed to hold all experts */
    int64_t struck_ns;     /* last fault of the hosts */
    uint32_t links;        /* opened so far */
    bool is_chosen; /* ranks use a configured interface, over which hosts must reach each other */
    uint32_t broken[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* the last link that broke */
    struct fleet_machine machines[FLEET_HOSTS_MAX + 1];
    int64_t cut_ns[FLEET_HOSTS_MAX + 1][FLEET_HOSTS_MAX + 1];
    struct fleet_supervisor supervisors[FLEET_UNITS_MAX];
    struct fleet_supervised_unit supervised_units[FLEET_UNITS_MAX];
    uint32_t part_count[FLEET_UNITS_MAX];
    uint32_t first_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* first rank of a unit on its n-th host */
    uint32_t ranks_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* number of ranks there */
    uint32_t machine_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* index of that host */
    struct fleet_agent agents[FLEET_UNITS_MAX][FLEET_HOSTS_MAX][FLEET_AGENTS_EACH];
    struct fault_timetable faults;
    struct post frames; /* those that have arrived but cannot be received yet stay at its front */
};

/* Opens the hosts, in runs that have them. Must be called before any unit starts. */
void fleet_hosts_open(struct world *world, struct arena *arena);

/* Handles everything that is due. fleet_hosts_wake_ns returns the time of the next event. */
void fleet_hosts_run(struct world *world);
int64_t fleet_hosts_wake_ns(const struct world *world);

/* Ends all faults. No new ones begin. */
void fleet_hosts_heal(struct world *world);

/* True if a rank is returning. */
bool fleet_hosts_awaits(const struct world *world);

/* Checks the state at the end of a run. */
void fleet_hosts_verify(struct world *world);

/* ---- the network (fleet_network.c) ---- */

/* The time until which two machines cannot reach each other; 0: they can. */
int64_t fleet_network_cut_ns(const struct world *world, uint32_t machine, uint32_t other);

uint32_t fleet_network_machine_of(const struct world *world, const struct fleet_agent *agent);

/* Puts a frame that arrives at due_ns in transit. */
void fleet_network_put(struct fleet_hosts *hosts, struct fleet_frame frame, int64_t due_ns);

/* Sends a copy of the frame. Only the fields that its kind needs must be set. */
void fleet_network_send(struct world *world, struct fleet_frame frame, int64_t *out_ns);

/* The agent at the end of the frame's link, or NULL if it is not alive. */
struct fleet_agent *fleet_network_agent_of(const struct fleet_hosts *hosts,
                                           const struct fleet_frame *frame);

/* True if the agent launched the current start of the unit. */
bool fleet_network_launched(const struct fleet_supervised_unit *supervised_unit,
                            const struct fleet_agent *agent);

/* The living process of a rank in the current start of its unit, or NULL. `process`: NULL also if
 * it is returning. */
struct fleet_process *fleet_network_incarnation(struct fleet_hosts *hosts, uint32_t unit,
                                                uint32_t rank);
struct fleet_process *fleet_network_process(struct fleet_hosts *hosts, uint32_t unit,
                                            uint32_t rank);

/* True if only living ranks remain, all of them run, and all are connected to each other. */
bool fleet_network_is_whole(const struct world *world, uint32_t unit, uint32_t without);

/* True if the ranks of the unit cannot finish a step, because one has died or hangs, or the network
 * between two of them is cut. */
bool fleet_network_holds(const struct world *world, uint32_t unit);

/* Makes a process exit soon with this status. */
void fleet_network_leave(struct world *world, struct fleet_process *process, int number);

/* Ends the processes of a unit that has drained. */
void fleet_network_finish(struct world *world, uint32_t unit);

/* Draws the end of a fault. A fault that is already active is not shortened. */
void fleet_network_last(struct world *world, int64_t *until_ns, struct fleet_dice *dice,
                        int64_t most_ns);

/* ---- supervisors and agents (fleet_links.c) ---- */

void fleet_links_begin_supervisor(struct world *world, uint32_t unit);
void fleet_links_end_supervisor(struct world *world, uint32_t unit, int64_t up_ns);

/* Ends an agent and its processes. `quietly`: the whole machine fails, so no peer is notified. */
void fleet_links_end_agent(struct world *world, struct fleet_agent *agent, bool quietly);

void fleet_links_take(struct world *world, const struct fleet_frame *frame);
void fleet_links_run(struct world *world, uint32_t unit);
int64_t fleet_links_wake_ns(const struct world *world, uint32_t unit);

/* ---- processes (fleet_ranks.c) ---- */

/* Start all ranks of the agent, or restart one. */
bool fleet_ranks_start(struct world *world, struct fleet_agent *agent);
bool fleet_ranks_restart(struct world *world, struct fleet_agent *agent, uint32_t rank);

/* Kill a process, or all processes of the agent. The first returns false if it was not alive. */
bool fleet_ranks_kill(struct world *world, struct fleet_agent *agent, uint32_t rank);
void fleet_ranks_kill_all(struct world *world, struct fleet_agent *agent);

/* Takes the machine off the network for a while, with the connections of rank 0 to gateways. */
void fleet_ranks_cut_host(struct world *world, uint32_t machine, struct fleet_dice *dice);

/* Kills a rank's process if it lives. */
void fleet_ranks_kill_living(struct world *world, uint32_t unit, uint32_t rank);

struct supervise_signs fleet_ranks_sign(const struct world *world, struct fleet_agent *agent,
                                        uint32_t rank);

/* The epoch of the unit that rank 0 reports. */
uint32_t fleet_ranks_epoch(const struct world *world, const struct fleet_agent *agent);

/* The argument `changes` of supervise_agent_look. */
uint32_t fleet_ranks_count_changes(const struct world *world, const struct fleet_agent *agent);

/* Delivers a MEMBERS, GONE or BACK to the ranks of the agent. */
void fleet_ranks_take(struct world *world, struct fleet_agent *agent,
                      const struct fleet_frame *frame);

enum fleet_process_event { FLEET_PROCESS_GOES_ON, FLEET_PROCESS_ENDED, FLEET_PROCESS_JOINED };
enum fleet_process_event fleet_ranks_run_process(struct world *world, struct fleet_agent *agent,
                                                 uint32_t rank);
void fleet_ranks_run(struct world *world, uint32_t unit);
int64_t fleet_ranks_wake_ns(const struct world *world, uint32_t unit);
