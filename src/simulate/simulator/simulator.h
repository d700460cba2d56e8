/* SPDX-License-Identifier: Apache-2.0
 * The simulator: the product's own machines (gateways, units of several ranks, and all policies in
 * them) in virtual time, as discrete events in whole nanoseconds, on hardware given by a file of
 * numbers. The simulator makes no policy decision: it forwards records between machines, lets time
 * pass for computation, transfers and storage, and counts.
 *
 * Engines compute nothing. A token is a number that depends on its request and position alone, so a
 * token that is delivered twice or never is detected. The same options and seed give the same run.
 */
#pragma once

#include "base/arena.h"
#include "serving/unit/unit.h"
#include "simulate/hardware/step_clock.h"
#include "simulate/simulator/simulator_request.h"

#define SIMULATOR_KINDS_MAX 8 /* kinds of units in a fleet */

/* Identical units. Zero means the product's own default if there is one. */
struct simulator_unit_kind {
    uint32_t count;
    enum unit_role role;
    const struct hardware *hardware;
    uint32_t ranks, ranks_per_node;
    uint32_t redundant_experts;
    bool balance_experts;
    uint32_t rows_max, requests_max; /* per rank: running; held */
    uint32_t step_tokens_max;        /* per rank */
    uint32_t page_count;             /* per rank; 0: what fits in its memory with the weights */
    uint32_t context_tokens_max;
    uint32_t speculate;    /* enum speculate_mode */
    int overlap;           /* enum overlap_kind; -1: chosen by serving/policy/choose_overlap */
    uint32_t rank_balance; /* enum balance_method */
    bool bind_on_arrival, level_steps, prefix_cache, kv_storage;
    double tpot_target_ms; /* schedule_pace; 0: by stretch */
};

struct simulator_ended;
struct simulator_sample;
struct simulator_fault; /* simulate/simulator/simulator_faults.h */

struct simulator_options {
    const struct model_figures *model;
    struct simulator_unit_kind kinds[SIMULATOR_KINDS_MAX];
    uint32_t kind_count;
    uint32_t gateways; /* >= 1; each is connected to all units; requests are assigned in turn */
    uint32_t gateway_requests_max;
    uint32_t prefix_blocks; /* gateway_options; 0: none remembered */
    bool through_api;       /* true: parsed bodies with token ids, streams. false: block hashes with
                             * lengths; answers are delivered whole */
    double storage_bytes;   /* of the disks that all units share; 0: none */
    double host_bytes;      /* of KV blocks in each rank's memory; 0: none */
    double expert_skew, expert_drift;
    struct simulator_source source;
    int64_t settle_ns;  /* from the start: prompts are computed, and KV blocks travel, in no time,
                         * so that the standing requests reach their units; answers take their time.
                         * It may exceed warm_ns if only answers are measured: then no TTFT is
                         * meaningful */
    int64_t warm_ns;    /* from the start: not counted */
    int64_t measure_ns; /* after warm_ns: counted. Then the run ends; 0: it ends when all are
                         * answered */
    const bool *enough; /* the run ends once it is true, as if its time were over; NULL: never */
    const struct simulator_fault
        *faults; /* [fault_count] sorted by time; simulate/simulator/simulator_faults.h */
    uint32_t fault_count;
    uint64_t seed;
    /* Called for each ended request, in the order of their ends; may be NULL. */
    void *context;
    void (*ended)(void *context, const struct simulator_ended *ended);
    /* Called for each request at its first token (end_ns 0); may be NULL. */
    void (*begun)(void *context, const struct simulator_ended *so_far);
    /* Called each sample_ns of the measured time; may be NULL. */
    void (*sampled)(void *context, const struct simulator_sample *sample);
    int64_t sample_ns;
};

/* The state at one time of the measured time. */
struct simulator_sample {
    int64_t now_ns;
    const struct simulator_report *so_far; /* sums so far; means are computed at the end */
    double pages_share[UNIT_ROLE_COUNT];   /* held share of a role's KV pages; 0: it has none */
    uint32_t open;                         /* requests that have begun and not ended */
};

/* The times of one request as its client saw them. */
struct simulator_ended {
    uint64_t number; /* of the request, from 1, in the order of the source */
    int64_t arrival_ns, first_ns, last_ns, end_ns; /* first_ns 0: there was no token */
    uint32_t prompt_tokens, answer_tokens, hit_tokens;
    bool standing, failed; /* failed: refused or cut */
};

struct simulator_role_counts { /* all units of one role, in the measured time */
    uint64_t units, ranks, nodes;
    uint64_t steps;
    double step_ns;                         /* summed over steps */
    double spent[STEP_SPENT_COUNT], idle_s; /* seconds, summed over ranks */
    uint64_t prompt_tokens,
        computed_tokens; /* prompt tokens that were processed; the computed part of them */
    uint64_t
        hit_tokens; /* part of prompt_tokens: cached somewhere when the request began, including
                     * those that were computed faster than loaded, as the product bills them */
    uint64_t device_hits, host_hits, disk_hits; /* prompt tokens by their source */
    uint64_t output_tokens;
    uint64_t answered_tokens; /* answer tokens that were processed, including recomputed ones */
    uint64_t rows, context;   /* summed over steps: answer rows, and KV positions that they read */
    uint64_t pages_held, pages_cached, pages_total; /* mean over time, of a rank */
    uint64_t preemptions, moves; /* requests that lost their pages; experts that moved to a rank */
    double expert_balance;       /* mean over steps, largest rank over mean */
    double
        layer_balance[LIMIT_LAYERS]; /* the same for each layer, for the placement at the end of the
                                      * run, mean over units; 1 without experts */
};

struct simulator_report {
    char breach[256]; /* empty: all invariants held */
    double measured_s;
    /* Requests without standing ones: arrived in the measured time; ended in it whole, without a
     * token, or in the middle. */
    uint64_t asked, answered, refused, failed;
    uint64_t prompt_tokens, hit_tokens, output_tokens; /* of answered ones, on any unit */
    struct simulator_role_counts roles[UNIT_ROLE_COUNT];
    double user_speed_tokens; /* sum over tokens of 1 s / (time since the previous token), and */
    double user_tokens;       /* the number of them: the quotient is the token-weighted mean
                               * speed */
    double transfer_bytes, storage_read_bytes, storage_written_bytes;
    uint64_t records; /* received by all machines */
    uint64_t events;
    uint64_t digest; /* of all records that machines received, and of their times: equal in equal
                      * runs */
};

/* Runs in `arena`, which has simulator_bytes(options). STATUS_INVALID names the option. */
size_t simulator_bytes(const struct simulator_options *options);
enum status simulator_run(const struct simulator_options *options, struct arena *arena,
                          struct simulator_report *report_out, struct error *error) MUST_USE;

/* Returns STATUS_CORRUPT if `what` ("the run") breaks an invariant, and the error says how. */
enum status simulator_verify(const struct simulator_report *report, const char *what,
                             struct error *error) MUST_USE;
