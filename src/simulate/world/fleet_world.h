/* SPDX-License-Identifier: Apache-2.0
 * A fleet in virtual time: one to three real gateways and real units of several ranks, an engine of
 * numbers (simulate/engine/fleet_engine) that obeys constraints (fleet_constraints), transfers of KV
 * blocks between ranks (fleet_carriers), a KV storage that all share (fleet_storage), clients with
 * expected answers (fleet_clients), a ledger that gateways wait for in some runs (fleet_ledger),
 * and a network that delays, cuts and loses messages. Units are combined, or have the roles prefill
 * and decode. In some runs their ranks run on hosts, which fail as well, and supervisors restart
 * them (simulate/world/fleet_hosts). In some runs a manager (serving/fleet) starts and ends units on
 * nodes, as the load requires. It and its launcher fail, too (simulate/world/fleet_managers). In some
 * runs units restart with other numerics, as in an upgrade of a fleet.
 *
 * In the fault phase, units die and are replaced, freeze, lose their connection without dying, fail
 * steps and are drained. A rank dies in the middle of a step, and the other ranks continue without
 * it. The network between two units is cut. Blocks in transit are lost, damaged, doubled and late.
 * The disk fails, its bits flip, and a dying process leaves torn blocks. A gateway dies, its
 * clients receive nothing more, and the other gateways continue. A unit and a gateway cannot reach
 * each other. The ledger's process is lost. Clients disconnect at any moment. After the fault phase
 * all work must end.
 *
 * Invariants, for every seed:
 * - Every client gets exactly one complete answer, or an error. An answer consists of the tokens,
 *   and the tool calls in them, of an undisturbed run of the numerics that it names. Hits and
 *   misses add up to the prompt.
 * - Every request has one usage record, at the price of its end. No client receives an end that the
 *   ledger could lose. Money and units' work are conserved (simulate/clients/fleet_ledger).
 * - No request reads another tenant's pages. At all times each page has one owner or is free, and
 *   no queue exceeds its limit.
 * - No account begins more requests than its limits allow (simulate/clients/fleet_accounts), or gets more
 *   than its share of the units while another account waits (simulate/clients/fleet_shares).
 * - The run ends. Then all tables and pages are free or cached, no transfer is open, and each
 *   gateway serves with each unit.
 *
 * The same seed gives the same run.
 */
#pragma once

#include "base/arena.h"
#include "contract/record_fleet.h"
#include "serving/supervision/supervise.h"
#include "simulate/kernel/fleet_log.h"

struct fleet_constraints; /* simulate/engine/fleet_constraints.h */

struct fleet_world_options {
    uint64_t seed;
    bool faults;
    bool gateway_dies;
    bool hosts;   /* units run on hosts, which may fail */
    bool manager; /* a manager starts and ends units by load (simulate/world/fleet_managers) */
    struct fleet_log *log;                 /* receives the last events */
    struct fleet_constraints *constraints; /* constraints for clients; NULL: none */
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
    char breach[256];   /* empty: all invariants held */
    bool apart, stores; /* units have roles; there is a KV storage */
    bool renewed;       /* units restart with other numerics */
    bool scarce;        /* the gateway could not store every answer's tokens */
    uint64_t digest;    /* digest of all records of the gateways */
    int64_t rest_ns;    /* time at which all work had ended */
    /* Counts, from here to the end. Clients; cut: received some tokens and an error */
    uint64_t asked, answered, refused, cut, left;
    uint64_t chats, bound;              /* among those answered; bound: by a constraint */
    uint64_t calls;                     /* tool calls that clients received */
    uint64_t bound_begun, late, forced; /* answers at engines, repeats included; masks; tokens */
    uint64_t refused_by[FLEET_REFUSALS];
    uint64_t abandoned; /* clients of a gateway that died */
    uint64_t deaths, freezes, cuts, failed_steps, drains, roles, rank_deaths, gateway_deaths;
    uint64_t network_cuts, disk_failures, parted, backs; /* parted: a unit from a gateway */
    uint64_t answered_renewed;                           /* answered by units with other numerics */
    uint64_t losses, resumed, handed_over;               /* by the gateway's counters */
    uint64_t arrived, not_arrived;                       /* transfers of KV blocks */
    uint64_t late_slices;                           /* arrived after their transfer had ended */
    uint64_t loaded, kept, dropped, refused_blocks; /* of the KV storage; refused: damaged */
    uint64_t in_step, in_step_lost;  /* rows that waited in steps for loads: complete, failed */
    uint64_t in_other_step;          /* rows among them with other rows in the step */
    uint64_t preempted;              /* requests, by the units that exist at the end */
    uint64_t entries, written_again; /* by the ledger's counters */
    uint64_t compared;               /* comparisons of two waiting accounts' shares */
    /* tallied: units with totals at the gateways that equal their own counts */
    uint64_t gateways, tallied;
    /* In runs with hosts: */
    uint64_t host_faults, launches, survived, hosts_lost, given_up, abandons;
    uint64_t again, ranks_given_up;
    uint64_t returned, worked_again; /* returned ranks; steps with rows of such ranks */
    uint64_t return_ends, return_hangs, return_cuts; /* while ranks returned */
    uint64_t stuck[SUPERVISE_VERDICT_COUNT];         /* verdicts of this kind */
    uint64_t links_broken, starts_failed;
    uint64_t refused_hosts; /* hosts that lacked memory, or did not reach another */
    uint64_t late_answers;  /* of agents, beyond the timeout */
    uint64_t doubled;       /* launches beside living ranks of an earlier supervisor */
    /* In runs with a manager: */
    uint64_t acts[FLEET_ACT_COUNT];
    uint64_t launched, launches_failed, stopped, ended_at_once;
    uint64_t manager_lives, manager_deaths, managers_refused, adopted, nodes_lost, lost_in_drain;
    uint64_t launcher_silences, blindings, stale_times, preemptions, wishes;
    uint64_t records_lost, records_doubled, jobs_hung;
};

/* Arena bytes that suffice for fleet_world_run. Few of them are touched. */
#define FLEET_WORLD_BYTES ((size_t)512 << 20)

/* Runs one simulation in `arena`, which it clears first. */
void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out);
