/* SPDX-License-Identifier: Apache-2.0
 * The simulator of fleets at scale. It runs the product's own state machines (gateways, units of
 * several ranks, and all their policies) in virtual time, as discrete events in whole nanoseconds,
 * on hardware that a file describes. The simulator makes no policy decision. It forwards records
 * between the machines, lets time pass for computation, transfers and storage, and counts.
 *
 * Engines compute nothing. A token is a number that depends only on its request and its position,
 * so a token that is delivered twice or never is detected. Equal options and seeds give equal runs.
 */
#pragma once

#include "base/arena.h"
#include "base/number.h"
#include "serving/unit/unit.h"
#include "simulate/hardware/step_clock.h"
#include "simulate/simulator/simulator_request.h"

#define SIMULATOR_KINDS_MAX 8 /* kinds of units in a fleet */

/* A number of identical units. Zero means the product's default where there is one. */
struct simulator_unit_kind {
    uint32_t count;
    enum unit_role role;
    const struct hardware *hardware;
    uint32_t ranks, ranks_per_node;
    uint32_t redundant_experts;
    bool balance_experts;
    uint32_t rows_max, requests_max; /* per rank: running; accepted */
    uint32_t step_tokens_max;        /* per rank */
    uint32_t page_count; /* per rank; 0: as many as fit in its memory with the weights */
    uint32_t context_tokens_max;
    uint32_t speculate;    /* enum speculate_mode */
    int overlap;           /* enum overlap_kind; -1: chosen by serving/policy/choose_overlap */
    uint32_t rank_balance; /* enum balance_method */
    bool bind_on_arrival, level_steps, prefix_cache, kv_storage;
    double tpot_target_ms; /* for schedule_pace; 0: by stretch */
};

struct simulator_ended;
struct simulator_sample;
struct simulator_fault; /* simulate/simulator/simulator_faults.h */

struct simulator_options {
    const struct model_figures *model;
    struct simulator_unit_kind kinds[SIMULATOR_KINDS_MAX];
    uint32_t kind_count;
    uint32_t gateways; /* >= 1; each connects to all units; requests go to them in turn */
    uint32_t gateway_requests_max;
    uint32_t prefix_blocks; /* of gateway_options; 0: gateways remember no prefixes */
    bool through_api; /* true: requests are JSON bodies with token ids, answers are streams. false:
                       * requests are block hashes and lengths, answers arrive whole */
    double storage_bytes; /* size of the disks that all units share; 0: none */
    double host_bytes;    /* host memory of each rank for KV blocks; 0: none */
    double expert_skew, expert_drift;
    struct simulator_source source;
    int64_t settle_ns;  /* for this time from the start, prompts and transfers of KV blocks take no
                         * time, so that the standing requests reach their units; answers do take
                         * time. It may exceed warm_ns if only answers are measured; TTFT is then
                         * meaningless */
    int64_t warm_ns;    /* this time from the start is not counted */
    int64_t measure_ns; /* counted time after warm_ns, until the end of the run; 0: the run ends
                         * when all requests are answered */
    const bool *enough; /* the run ends early once *enough is true; may be NULL */
    const struct simulator_fault
        *faults; /* [fault_count], sorted by time (simulate/simulator/simulator_faults.h) */
    uint32_t fault_count;
    uint64_t seed;
    /* Called for each request when it ends; may be NULL. */
    void *context;
    void (*ended)(void *context, const struct simulator_ended *ended);
    /* Called for each request at its first token, with end_ns 0; may be NULL. */
    void (*begun)(void *context, const struct simulator_ended *so_far);
    /* Called every sample_ns during the measured time; may be NULL. */
    void (*sampled)(void *context, const struct simulator_sample *sample);
    int64_t sample_ns;
};

/* The state at one moment of the measured time. */
struct simulator_sample {
    int64_t now_ns;
    const struct simulator_report *so_far; /* sums; means are computed only at the end */
    double pages_share[UNIT_ROLE_COUNT];   /* share of a role's KV pages in use; 0: it has none */
    uint32_t open;                         /* requests in progress */
};

/* The times of one request as its client saw them. */
struct simulator_ended {
    uint64_t number;                               /* from 1, in the order of the source */
    int64_t arrival_ns, first_ns, last_ns, end_ns; /* first_ns 0: it got no token */
    uint32_t prompt_tokens, answer_tokens, hit_tokens;
    bool standing, failed; /* failed: refused or cut */
};

struct simulator_role_counts { /* all units of one role, in the measured time */
    uint64_t units, ranks, nodes;
    uint64_t steps;
    double step_ns;                         /* summed over steps */
    double spent[STEP_SPENT_COUNT], idle_s; /* seconds, summed over ranks */
    uint64_t prompt_tokens,
        computed_tokens; /* processed prompt tokens; the computed ones among them */
    uint64_t
        hit_tokens; /* part of prompt_tokens: cached anywhere when the request began. They include
                     * tokens that were recomputed faster than loaded, as the product bills them */
    uint64_t device_hits, host_hits, disk_hits; /* cached prompt tokens by level */
    uint64_t output_tokens;
    uint64_t answered_tokens; /* processed answer tokens, including recomputed ones */
    uint64_t rows, context;   /* summed over steps: answer rows, KV positions that they read */
    uint64_t pages_held, pages_cached, pages_total; /* means over time, per rank */
    uint64_t preemptions, moves; /* requests that lost their pages; moved experts */
    double expert_balance;       /* largest rank over mean, averaged over steps */
    double layer_balance
        [LIMIT_LAYERS]; /* the same for each layer with the placement at the end of the run,
                         * averaged over units; 1 for layers without experts */
};

struct simulator_report {
    char breach[256]; /* empty: all invariants held */
    double measured_s;
    /* Requests, without standing ones: arrived in the measured time; ended in it completely,
     * without a token, or in the middle. */
    uint64_t asked, answered, refused, failed;
    uint64_t prompt_tokens, hit_tokens, output_tokens; /* of answered requests */
    struct simulator_role_counts roles[UNIT_ROLE_COUNT];
    double user_speed_tokens; /* sum over tokens of 1 s / (time since the previous token) */
    double user_tokens;       /* number of these tokens; the quotient is the mean speed,
                               * weighted by tokens */
    double transfer_bytes, storage_read_bytes, storage_written_bytes;
    uint64_t records; /* received by all machines */
    uint64_t events;
    uint64_t digest; /* hash of all records that machines received and of their times, equal in
                      * equal runs */
};

/* The kind of the unit `index`; NULL if there is no such unit. */
static inline const struct simulator_unit_kind *
simulator_kind_of(const struct simulator_options *options, uint32_t index) {
    for (uint32_t i = 0; i < options->kind_count; i++) {
        if (index < options->kinds[i].count) return &options->kinds[i];
        index -= options->kinds[i].count;
    }
    return NULL;
}
static inline uint32_t simulator_unit_count(const struct simulator_options *options) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < options->kind_count; i++)
        count += options->kinds[i].count;
    return count;
}

/* The largest context_tokens_max of all kinds. */
static inline uint32_t simulator_context_tokens(const struct simulator_options *options) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < options->kind_count; i++)
        most = max_u32(most, options->kinds[i].context_tokens_max);
    return most;
}

/* Runs a simulation in `arena`, which has simulator_bytes(options). STATUS_INVALID names the
 * option. */
size_t simulator_bytes(const struct simulator_options *options);
enum status simulator_run(const struct simulator_options *options, struct arena *arena,
                          struct simulator_report *report_out, struct error *error) MUST_USE;

/* Returns STATUS_CORRUPT with an error if an invariant was violated. `what` names the run in it. */
enum status simulator_verify(const struct simulator_report *report, const char *what,
                             struct error *error) MUST_USE;
