/* SPDX-License-Identifier: Apache-2.0
 * A fleet in virtual time: one to three real gateways and real units of several ranks, an engine of
 * numbers (simulate/fleet_engine) that obeys constraints (fleet_constraints), transfers of KV
 * blocks between ranks (fleet_carriers), a KV storage that all share (fleet_storage), clients that
 * know the expected answers (fleet_clients), a ledger that gateways wait for in some runs
 * (fleet_ledger), and a network that delays, cuts and loses. Units are combined, or have the roles
 * prefill and decode. In some runs their ranks run on hosts, which fail as well, and supervisors
 * restart them (simulate/fleet_hosts). In some runs a manager (serving/fleet) starts and ends units
 * on nodes, as the load requires. It and its launcher fail, too (simulate/fleet_managers). In some
 * runs units return with other numerics, as when a fleet is renewed.
 *
 * Faults, until the healing: units die and are replaced, freeze, lose their connection without
 * dying, fail steps and are drained. A rank dies in the middle of a step, and the other ranks go on
 * without it. The network between two units is cut. Blocks in transit are lost, damaged, doubled
 * and late. The disk fails, its bits flip, and a dying process leaves torn blocks. A gateway dies,
 * its clients receive nothing more, and the other gateways go on. A unit and a gateway do not reach
 * each other. The ledger's process is lost. Clients leave at any moment. After the healing
 * everything must come to rest.
 *
 * Invariants, for every seed:
 * - Every client gets exactly one whole answer, or the reason why not. An answer consists of the
 *   tokens, and the tool calls in them, of an undisturbed run of the numerics that it names. Hits
 *   and misses add up to the prompt.
 * - Every request has one entry, at the price of its end. No client sees an end that the ledger
 *   could lose. Money and units' work are conserved (simulate/fleet_ledger).
 * - No request reads another tenant's pages. At all times each page has one owner or is free, and
 *   no queue exceeds its limit.
 * - No account begins more than it may (simulate/fleet_accounts), or gets more of the units than
 *   its share while another one waits (simulate/fleet_shares).
 * - The run ends. Then all tables and pages are free or cached, no transfer is open, and each
 *   gateway serves with each unit.
 *
 * The same seed gives the same run.
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
    bool hosts;            /* units run on hosts, which fail, too */
    bool manager;          /* it starts and ends units by load (simulate/fleet_managers) */
    struct fleet_log *log; /* of the last events */
    struct fleet_constraints *constraints; /* for clients to ask for; NULL: none */
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
    char breach[256];                             /* empty: all invariants held */
    uint32_t asked, answered, refused, cut, left; /* clients; cut: received some tokens and a
                                                   * reason */
    uint32_t chats, bound;                        /* among those answered; bound: by a constraint */
    uint64_t calls;                               /* tool calls that clients received */
    uint64_t bound_begun, late, forced; /* answers at engines, repeats included; masks; tokens */
    uint32_t refused_by[FLEET_REFUSALS];
    uint32_t abandoned; /* clients of a gateway that died */
    uint32_t deaths, freezes, cuts, failed_steps, drains, roles, rank_deaths, gateway_deaths;
    uint32_t network_cuts, disk_failures, parted, backs; /* parted: a unit from a gateway */
    bool apart, stores;                                  /* units have roles; there is a KV
                                                          * storage */
    bool renewed;                                        /* units return with other numerics */
    uint32_t answered_renewed;                           /* among those answered: by such units */
    bool scarce;                           /* the gateway could not store every answer's tokens */
    uint64_t losses, resumed, handed_over; /* by the gateway's counters */
    uint64_t arrived, not_arrived;         /* transfers of KV blocks */
    uint64_t late_slices;                  /* arrived after their transfer had ended */
    uint64_t loaded, kept, dropped, refused_blocks; /* of the KV storage; refused: damaged */
    uint64_t in_step, in_step_lost;  /* rows that waited in steps for loads: whole, in vain */
    uint64_t in_other_step;          /* those of them that had other rows in the step */
    uint64_t preempted, recomputed;  /* tokens, by the units that are there at the end */
    uint64_t entries, written_again; /* by the ledger's counters */
    uint64_t compared;               /* comparisons of two waiting accounts' shares */
    /* in runs with hosts */
    uint32_t host_faults, launches, survived, hosts_lost, given_up, abandons;
    uint32_t again, ranks_given_up;
    uint32_t returned, worked_again; /* returned ranks; steps with rows of such ranks */
    uint32_t return_ends, return_hangs, return_cuts; /* while ranks returned */
    uint32_t stuck[SUPERVISE_VERDICT_COUNT];         /* verdicts of this kind */
    /* In runs with a manager: */
    uint32_t acts[FLEET_ACT_COUNT];
    uint32_t launched, launches_failed, stopped, ended_at_once, units_most;
    uint32_t manager_lives, manager_deaths, managers_refused, adopted, nodes_lost, lost_in_drain;
    uint32_t launcher_silences, blindings, stale_times, preemptions, wishes;
    uint32_t gateways, tallied; /* tallied: units for which the gateways' tallies equal its own
                                 * counts */
    uint64_t digest;            /* of all records of the gateways */
    int64_t rest_ns;            /* when nothing was left to do */
};

/* Arena bytes that suffice for fleet_world_run. */
size_t fleet_world_bytes(void);

/* Runs one simulation in `arena`, which it clears first. */
void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out);

#endif
