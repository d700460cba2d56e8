/* SPDX-License-Identifier: Apache-2.0
 * Simulates a fleet in virtual time. One to three gateways and several units, each of several
 * ranks, run the production code. The rest is simulated: engines that compute hashes and obey
 * constraints (simulate/engine/fleet_engine, fleet_constraints), transfers of KV blocks between
 * ranks (fleet_carriers), a KV storage shared by all units (fleet_storage), clients that know the
 * expected answers (fleet_clients), and a network that delays, cuts and loses messages. Units serve
 * both roles, or are prefill and decode units. In some runs, gateways wait for a ledger
 * (fleet_ledger). In some, the hosts of ranks fail as well, and supervisors restart the ranks
 * (simulate/world/fleet_hosts). In some, a manager (serving/fleet) starts and stops units on nodes
 * as the load requires. Both the manager and its launcher may fail (simulate/world/fleet_managers).
 * In some, units restart with other numerics, as in a rolling upgrade.
 *
 * In the fault phase, units die and are replaced, freeze, lose connections without dying, fail
 * steps and are drained. A rank dies during a step, and the other ranks continue without it. The
 * network between two units is cut. KV blocks in transit are lost, damaged, duplicated and late.
 * The disk fails, its bits flip, and a dying process leaves torn blocks. A gateway dies: its
 * clients receive nothing more, and the other gateways continue. A unit and a gateway cannot reach
 * each other. The ledger process dies. Clients disconnect at any moment. After the fault phase, all
 * work must end.
 *
 * Invariants for every seed:
 *   - Every client gets exactly one complete answer, or an error. An answer consists of the tokens,
 *     and the tool calls in them, of an undisturbed run with the numerics that it names. Cache
 *     hits and misses add up to the prompt.
 *   - Every request has one usage record, priced when it ended. A client receives the end of an
 *     answer only after the ledger can no longer lose its usage record. Money and the work of units
 *     are conserved (simulate/clients/fleet_ledger).
 *   - No request reads pages of another tenant. At all times each page has one owner or is free,
 *     and no queue exceeds its limit.
 *   - No account begins more requests than its limits allow (simulate/clients/fleet_accounts), or
 *     gets more than its fair share of the units while another account waits
 *     (simulate/clients/fleet_shares).
 *   - The run ends. Then all table slots are free, all pages are free or cached, no transfer is
 *     open, and each gateway serves with each unit.
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
    bool hosts;            /* units run on hosts that may fail */
    bool manager;          /* a manager scales the units by load (simulate/world/fleet_managers) */
    struct fleet_log *log; /* receives the last events */
    struct fleet_constraints *constraints; /* for the answers of clients; NULL: none */
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
    char breach[256]; /* empty: all invariants held */
    bool has_roles;   /* units are prefill and decode units */
    bool has_storage; /* there is a KV storage */
    bool renewed;     /* units restart with other numerics */
    bool scarce;      /* gateways could not store the tokens of every answer */
    uint64_t digest;  /* hash of all records of the gateways */
    int64_t rest_ns;  /* when all work had ended */
    /* All fields from here on are counts. Clients: */
    uint64_t asked, answered, refused;
    uint64_t cut;                /* received some tokens and then an error */
    uint64_t left;               /* disconnected */
    uint64_t chats, constrained; /* of the answered ones */
    uint64_t calls;              /* tool calls received */
    uint64_t constrained_starts; /* constrained answers that engines started, repeats included */
    uint64_t late, forced;       /* late masks; forced tokens */
    uint64_t refused_by[FLEET_REFUSALS];
    uint64_t abandoned; /* their gateway died */
    uint64_t deaths, freezes, cuts, failed_steps, drains, roles, rank_deaths, gateway_deaths;
    uint64_t network_cuts, disk_failures;
    uint64_t partitions;                   /* of one unit from one gateway */
    uint64_t undrains;                     /* operator commands to end a drain */
    uint64_t answered_renewed;             /* answered with the other numerics */
    uint64_t losses, resumed, handed_over; /* counted by gateways */
    uint64_t arrived, not_arrived;         /* transfers of KV blocks */
    uint64_t late_slices;                  /* slices that arrived after their transfer had ended */
    uint64_t loaded, kept, dropped, refused_blocks; /* blocks of the KV storage; refused: damaged */
    uint64_t in_step, in_step_lost; /* rows that waited in a step for a load: complete, failed */
    uint64_t in_shared_step;        /* rows among these in steps with other rows */
    uint64_t preempted;             /* requests; counted by the units that exist at the end */
    uint64_t entries, rewritten;    /* records of the ledger */
    uint64_t compared;              /* comparisons of the shares of two waiting accounts */
    /* totals_match: units with totals at the gateways equal to their own counters */
    uint64_t gateways, totals_match;
    /* In runs with hosts: */
    uint64_t host_faults, launches, survived, hosts_lost, given_up, abandons;
    uint64_t restarts, ranks_given_up; /* ranks restarted alone; ranks not restarted any longer */
    uint64_t returned, worked_again;   /* ranks that returned; steps with rows of these ranks */
    uint64_t return_ends, return_hangs, return_cuts; /* faults while a rank was returning */
    uint64_t stuck[SUPERVISE_VERDICT_COUNT];         /* by verdict */
    uint64_t links_broken, starts_failed;
    uint64_t refused_hosts; /* they lacked memory, or could not reach another host */
    uint64_t late_answers;  /* of agents, after the timeout */
    uint64_t doubled;       /* launches while ranks of an earlier supervisor lived */
    /* In runs with a manager: */
    uint64_t acts[FLEET_ACT_COUNT];
    uint64_t launched, launches_failed, stopped, ended_at_once;
    uint64_t manager_lives, manager_deaths, managers_refused, adopted, nodes_lost, lost_in_drain;
    uint64_t launcher_silences, blindings, stale_times, preemptions, commands;
    uint64_t records_lost, records_doubled, jobs_hung;
};

/* Arena bytes that suffice for fleet_world_run. It touches few of them. */
#define FLEET_WORLD_BYTES ((size_t)512 << 20)

/* Runs one simulation in `arena`, which is cleared first. */
void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out);
