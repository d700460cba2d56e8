/* SPDX-License-Identifier: Apache-2.0
 * Hosts of a simulated fleet: each unit's ranks are processes on some of them, an agent for each of
 * the unit's hosts launches them and tells of them, and a supervisor for each unit says what happens.
 * The supervisor's decisions are the product's (serving/policy/supervise_unit.h); agents, processes
 * and the network between them are invented here, after host/process/agent.h, unit_hosts.h and
 * compute/exchange/job.h. A supervisor stands on a machine that never fails, or on its unit's first
 * host. What a rank does when it lives is the unit's business (fleet_units).
 *
 * A rank that is started again while the others serve reads its weights and says that it is there; all
 * who live hear of it, come together anew and go on with it, on empty pages. On its way it may die, again
 * and again, hang for ever, or be cut off with its host.
 *
 * The network keeps the order of a connection's frames, delays them, and holds them while it is cut.
 *
 * What must hold: a unit that cannot go on is seen and started again in time; no rank has two lives in
 * one supervisor's job; nobody living is said to be gone, and nobody goes on without one who lives; who
 * goes on does so without all who are gone; no rank outlives its supervisor's word by long; a host that
 * is lost has no ranks left; a rank that is back takes requests, and a dead one none; one that hangs on
 * its way back is ended in time.
 */
#ifndef SIMULATE_FLEET_HOSTS_H
#define SIMULATE_FLEET_HOSTS_H

#include "serving/policy/supervise_unit.h"
#include "simulate/fleet_carriers.h"
#include "simulate/fleet_dice.h"

struct world;

enum {
    FLEET_HOSTS_MAX = 4,
    FLEET_HOME = FLEET_HOSTS_MAX, /* the machine that never fails */
    FLEET_AGENTS_EACH = 4, /* of a unit on a host: those that are left of earlier links, too */
    FLEET_FRAMES_MAX = 4096,
    FLEET_HOST_FAULTS = 13,
    FLEET_ALL_RANKS = FLEET_RANKS_MAX
};

enum fleet_frame_kind {
    FRAME_CONNECT, /* to the host: an agent begins */
    FRAME_CHECK,
    FRAME_LAUNCH,
    FRAME_ROSTER, /* all ranks of the start are there */
    FRAME_GONE,   /* the rank, as of that epoch, or */
    FRAME_BACK,   /* it is there again */
    FRAME_KILL,   /* the rank, or FLEET_ALL_RANKS */
    FRAME_AGAIN,  /* that rank */
    FRAME_PING,
    FRAME_END,   /* the supervisor's end of the link is closed */
    FRAME_FACTS, /* from here on: to the supervisor */
    FRAME_HERE,
    FRAME_SIGNS,
    FRAME_ENDED,
    FRAME_PONG,
    FRAME_LOST, /* the host's end of the link is closed */
};

struct fleet_frame {
    enum fleet_frame_kind kind;
    uint32_t unit, part; /* the unit's host */
    uint32_t link;
    uint32_t number,
        rank;       /* of a start; HERE, GONE, BACK, KILL, ENDED; CONNECT: the supervisor's life */
    uint32_t epoch; /* SIGNS: that the unit goes on in; GONE, BACK */
    uint32_t gone;  /* GONE, BACK: all ranks, as bits, that are */
    struct supervise_how how;
    struct supervise_signs signs[FLEET_RANKS_MAX]; /* SIGNS */
    int64_t due_ns;
    uint64_t order; /* of sending */
};

struct fleet_process {                   /* a rank in one start */
    bool alive, is_here, has_met, spins; /* spins: it is run while it stands still */
    bool returns;                        /* it is none of those that serve, yet */
    int64_t seen_ns;           /* since when its supervisor has been able to see that it hangs */
    uint32_t gone, epoch;      /* ranks, as bits, that it was told are, and as of when */
    int64_t here_ns, ready_ns; /* when it comes, and is ready */
    int64_t stopped_ns;        /* when it goes on; MACHINE_NEVER: somebody has to end it */
    int64_t end_ns;            /* when it ends by itself; MACHINE_NEVER */
    struct supervise_how how;  /* it does */
    uint64_t ran, tiles;
};

struct fleet_agent {
    bool alive;
    uint32_t link, life, number; /* of the supervisor; of the start */
    struct supervise_hearing hearing;
    int64_t signed_ns, tick_ns, out_ns;
    int64_t stopped_ns;
    int64_t orphan_ns; /* since when nobody has wanted it; 0: somebody does */
    struct fleet_process processes[FLEET_RANKS_MAX];
};

struct fleet_agent_link {
    uint32_t id; /* 0: none */
    bool has_spoken, is_lost, has_answered;
    struct supervise_hearing hearing;
    int64_t pinged_ns, out_ns;
};

struct fleet_supervisor {
    bool alive, is_checking;
    uint32_t life;
    uint32_t place;      /* its host */
    uint32_t here, gone; /* ranks, as bits, that have come to the meeting, and left */
    uint32_t told;       /* how often that has changed, which all ranks are told */
    uint32_t epoch;      /* as rank 0 said last */
    int64_t up_ns, tick_ns, stopped_ns; /* up_ns: when it begins; MACHINE_NEVER */
    int64_t trouble_ns;                 /* since when its unit has needed it; 0: it does not */
    struct fleet_agent_link links[FLEET_HOSTS_MAX];
    struct supervise_unit unit;
    struct supervise_host hosts[FLEET_HOSTS_MAX];
    struct supervise_rank ranks[FLEET_RANKS_MAX];
    struct supervise_signs signs[FLEET_RANKS_MAX];
    struct supervise_member members[FLEET_RANKS_MAX];
};

/* The ranks of a unit's last start, as they are with one another. */
struct fleet_crew {
    uint32_t life, number;
    bool serves;        /* all have met and are ready */
    bool is_cursed;     /* who is started again does not get as far as to be there */
    uint32_t without;   /* ranks, as bits, that it goes on without */
    uint32_t epoch;     /* since when */
    int64_t regroup_ns; /* when it does so; MACHINE_NEVER: those that live have not come together */
    int64_t regroup_by_ns;
};

struct fleet_machine {
    bool up;
    int64_t up_ns;  /* when it comes back */
    int64_t off_ns; /* until then its network is off */
    int64_t slow_ns;
};

struct fleet_host_fault {
    struct fleet_dice dice;
    int64_t due_ns;
};

struct fleet_hosts {
    bool present;
    struct fleet_dice dice, returns; /* returns: what becomes of ranks on their way back */
    int64_t timeout_ns;
    uint32_t slots_needed; /* living ranks that it takes for all experts */
    int64_t struck_ns;     /* the last fault of these hosts */
    uint32_t links;        /* ever opened */
    struct fleet_machine machines[FLEET_HOSTS_MAX + 1];
    int64_t cut_ns[FLEET_HOSTS_MAX + 1][FLEET_HOSTS_MAX + 1];
    struct fleet_supervisor supervisors[FLEET_UNITS_MAX];
    struct fleet_crew crews[FLEET_UNITS_MAX];
    uint32_t part_count[FLEET_UNITS_MAX];
    uint32_t ranks_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX];   /* of a part */
    uint32_t machine_of[FLEET_UNITS_MAX][FLEET_HOSTS_MAX]; /* of a part */
    struct fleet_agent agents[FLEET_UNITS_MAX][FLEET_HOSTS_MAX][FLEET_AGENTS_EACH];
    struct fleet_host_fault faults[FLEET_HOST_FAULTS];
    struct fleet_frame frames[FLEET_FRAMES_MAX]; /* in the order in which they arrive */
    uint32_t frame_count;
    uint64_t sent;
};

/* In lives that have hosts; before any unit begins. */
void fleet_hosts_open(struct world *world);

/* All that is due; and when something is next. */
void fleet_hosts_run(struct world *world);
int64_t fleet_hosts_wake_ns(const struct world *world);

/* No fault is left, nor comes any more. */
void fleet_hosts_heal(struct world *world);

/* A rank is on its way back. */
bool fleet_hosts_awaits(const struct world *world);

/* The unit's ranks cannot end a step: one of them has died or stands still, or the network between
 * two is cut. */
bool fleet_hosts_holds(const struct world *world, uint32_t unit);

/* The machine's network is off for a while. */
void fleet_hosts_cut(struct world *world, uint32_t machine, struct fleet_dice *dice);

/* A rank's process dies, if it lives. */
void fleet_hosts_kill_rank(struct world *world, uint32_t unit, uint32_t rank);

/* The unit has drained: its processes end. */
void fleet_hosts_finish(struct world *world, uint32_t unit);

/* At rest. */
void fleet_hosts_judge(struct world *world);

/* ---- the network (fleet_hosts.c) ---- */

/* Until when the two do not hear each other; 0: they do. */
int64_t fleet_hosts_cut_ns(const struct world *world, uint32_t machine, uint32_t other);

/* Of the frame only what its kind needs is set. */
void fleet_hosts_send(struct world *world, struct fleet_frame frame, int64_t *out_ns);

/* ---- fleet_agents.c ---- */

/* The living process of the unit's present start, but for one that returns; NULL. */
struct fleet_process *fleet_agents_process(struct fleet_hosts *hosts, uint32_t unit, uint32_t rank);

void fleet_agents_take(struct world *world, const struct fleet_frame *frame);
void fleet_agents_run(struct world *world, uint32_t unit);
int64_t fleet_agents_wake_ns(const struct world *world, uint32_t unit);

/* Its processes end with it. `quietly`: with the whole machine, and nobody is told. */
void fleet_agents_end(struct world *world, uint32_t unit, uint32_t part, struct fleet_agent *agent,
                      bool quietly);

/* ---- fleet_supervisors.c ---- */

void fleet_supervisors_begin(struct world *world, uint32_t unit);
void fleet_supervisors_end(struct world *world, uint32_t unit, int64_t up_ns);
void fleet_supervisors_take(struct world *world, const struct fleet_frame *frame);
void fleet_supervisors_run(struct world *world, uint32_t unit);
int64_t fleet_supervisors_wake_ns(const struct world *world, uint32_t unit);

#endif
