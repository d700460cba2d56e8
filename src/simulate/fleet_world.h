/* SPDX-License-Identifier: Apache-2.0
 * A fleet in virtual time: one to three real gateways and real units of several ranks, an engine of
 * numbers (simulate/fleet_engine), which obeys constraints (fleet_constraints), the ways of KV blocks
 * between ranks (fleet_carriers), a KV storage that all share (fleet_storage), clients who know what
 * they must be told (fleet_clients), a ledger that in some lives gateways wait for (fleet_ledger), and
 * a network that delays, cuts and loses. Units are combined, or of prefill and of decode. In some lives
 * their ranks stand on hosts, which fail as well, and supervisors start them again (simulate/fleet_hosts).
 *
 * Until the healing, units die at any moment and come back as others, freeze, lose their connection
 * without dying, fail steps and are drained; a rank of a unit dies in the middle of a step, and the
 * others go on without it; the network between two units is cut; blocks on their way are lost,
 * damaged, doubled and late; the disk fails, bits flip on it, and who dies leaves torn blocks; a
 * gateway dies, and its clients are told nothing more, while others go on; a unit and a gateway do not
 * reach each other; the ledger's process is lost; clients leave at any moment. After it everything
 * must come to rest.
 *
 * In some lives a manager (serving/fleet) starts and ends units on nodes, as the load wants it; it and
 * its launcher fail, too (simulate/fleet_managers).
 *
 * In some lives units come back with other numerics, as when a fleet is renewed.
 *
 * What must hold, whatever the seed: every client is answered once and whole, by the tokens of an
 * undisturbed run of the numerics that the answer names and the calls of tools in them, or is told why not; hits and misses are the prompt;
 * every request has one entry, at the price of its end, and nobody has seen an end that the ledger
 * could lose; money and units' work are conserved (simulate/fleet_ledger); nobody reads another
 * tenant's pages; at all times each page has one owner or is free, and no queue is longer than it may
 * be; no account begins more than it may (simulate/fleet_accounts), nor gets more of the units than its
 * share while another one waits (simulate/fleet_shares); all tables and pages are free or cached at the
 * end, no transfer is open, and each gateway serves with each unit; and the end comes. The same seed
 * gives the same life.
 */
#ifndef SIMULATE_FLEET_WORLD_H
#define SIMULATE_FLEET_WORLD_H

#include "base/arena.h"
#include "contract/record_fleet.h"
#include "serving/policy/supervise.h"
#include "simulate/fleet_log.h"

struct fleet_constraints; /* simulate/fleet_constraints.h */

struct fleet_world_options {
    uint64_t seed;
    bool faults;
    bool gateway_dies;
    bool hosts;   /* units stand on hosts, and these fail, too */
    bool manager; /* it starts and ends units as the load wants it (simulate/fleet_managers) */
    struct fleet_log *log;                 /* of the last things that happened */
    struct fleet_constraints *constraints; /* that clients ask for; NULL: none */
};

enum fleet_refusal {
    FLEET_QUEUE_FULL,
    FLEET_NO_MEMORY,
    FLEET_RATE,
    FLEET_UNPAID,
    FLEET_NO_UNIT,
    FLEET_FAILED,
    FLEET_LEDGER,
    FLEET_OVERLOADED,
    FLEET_NUMERICS_GONE,
    FLEET_REFUSALS
};

struct fleet_world_report {
    char breach[256];                             /* empty: all that must hold did */
    uint32_t asked, answered, refused, cut, left; /* clients; cut: some tokens, and a reason */
    uint32_t chats, bound;                        /* of those answered; bound: by a constraint */
    uint64_t calls;                               /* of tools, that they were told */
    uint64_t bound_begun, late, forced; /* answers at engines, perhaps again; masks; tokens */
    uint32_t refused_by[FLEET_REFUSALS];
    uint32_t abandoned; /* clients, by a gateway that died */
    uint32_t deaths, freezes, cuts, failed_steps, drains, roles, rank_deaths, gateway_deaths;
    uint32_t network_cuts, disk_failures, parted, backs; /* parted: a unit from a gateway */
    bool apart, stores;                                  /* units have roles; a KV storage */
    bool renewed;                                        /* units come back with other numerics */
    uint32_t answered_renewed;                           /* of those answered, by such units */
    bool scarce;                           /* the gateway could not keep every answer's tokens */
    uint64_t losses, resumed, handed_over; /* by the gateway's account */
    uint64_t arrived, not_arrived;         /* transfers of KV blocks */
    uint64_t late_slices;                  /* that came when nobody expected them any more */
    uint64_t loaded, kept, dropped, refused_blocks; /* of the KV storage; refused: damaged */
    uint64_t in_step, in_step_lost;  /* rows that waited in steps for loads: whole, in vain */
    uint64_t in_step_beside;         /* of all these: with other rows in the step */
    uint64_t preempted, recomputed;  /* tokens; by the units' that were there at the end */
    uint64_t entries, written_again; /* by the ledger's account */
    uint64_t compared;               /* shares of two accounts that wait */
    uint32_t host_faults, launches, survived, hosts_lost, given_up, abandons; /* where hosts are */
    uint32_t again, ranks_given_up;
    uint32_t returned, worked_again; /* ranks that came back; steps that had rows of such ones */
    uint32_t return_ends, return_hangs, return_cuts; /* on their way */
    uint32_t stuck[SUPERVISE_VERDICT_COUNT];         /* seen as such */
    /* Where there is a manager: */
    uint32_t acts[FLEET_ACT_COUNT];
    uint32_t launched, launches_failed, stopped, ended_at_once, units_most;
    uint32_t manager_lives, manager_deaths, managers_refused, adopted, nodes_lost, lost_in_drain;
    uint32_t launcher_silences, blindings, stale_times, preemptions, wishes;
    uint32_t gateways, tallied; /* tallied: units whose gateways' tallies came to its counts */
    uint64_t digest;            /* of all that the gateway said */
    int64_t rest_ns;            /* when nothing was left to do */
};

/* Arena bytes that suffice for fleet_world_run. */
size_t fleet_world_bytes(void);

/* Lives one life in `arena`, which it clears first. */
void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out);

#endif
