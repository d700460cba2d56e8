/* SPDX-License-Identifier: Apache-2.0
 * The twin: the product's own machines (gateways, units of several ranks, and all policies in
 * them) in virtual time, as discrete events of whole nanoseconds, on hardware that is a file of
 * numbers. Nothing here chooses what a policy chooses: the twin carries records between machines,
 * lets time pass for what would compute, travel or be stored, and counts.
 *
 * Engines compute nothing: a token is a number that depends on its request and place alone, so
 * whoever is told a token twice, or never, is seen. The same options and seed give the same run.
 */
#ifndef SIMULATE_TWIN_TWIN_H
#define SIMULATE_TWIN_TWIN_H

#include "base/arena.h"
#include "base/histogram.h"
#include "serving/unit/unit.h"
#include "simulate/hardware/step_clock.h"
#include "simulate/twin/twin_request.h"

#define TWIN_KINDS_MAX 8 /* of units in a fleet */

/* Units that are alike. Zero means the product's own default wherever that has one. */
struct twin_unit_kind {
    uint32_t count;
    enum unit_role role;
    const struct hardware *hardware;
    uint32_t ranks, ranks_per_node;
    uint32_t redundant_experts;
    bool balance_experts;
    uint32_t rows_max, requests_max; /* of a rank: running; held */
    uint32_t step_tokens_max;        /* of a rank */
    uint32_t page_count;             /* of a rank; 0: what its memory holds beside the weights */
    uint32_t context_tokens_max;
    uint32_t speculate;    /* enum speculate_mode */
    int overlap;           /* enum overlap_kind; -1: as serving/policy/choose_overlap does */
    uint32_t rank_balance; /* enum balance_method */
    bool bind_on_arrival, level_steps, prefix_cache, kv_storage;
    double tpot_target_ms; /* schedule_pace; 0: by stretch */
};

struct twin_ended;
struct twin_sample;
struct twin_fault; /* simulate/twin/twin_faults.h */

enum twin_storage { TWIN_STORAGE_NONE, TWIN_STORAGE_MEMORY, TWIN_STORAGE_DISK };

struct twin_options {
    const struct model_figures *model;
    struct twin_unit_kind kinds[TWIN_KINDS_MAX];
    uint32_t kind_count;
    uint32_t gateways; /* >= 1; each knows all units; requests are dealt in turn */
    uint32_t gateway_requests_max;
    uint32_t prefix_blocks; /* gateway_options; 0: none remembered */
    bool through_api;       /* true: parsed bodies with token ids, streams. false: block
                                     * hashes with lengths; answers are told whole */
    double storage_bytes;   /* of the disks that all units share; 0: none */
    double host_bytes;      /* of KV blocks in memory, a rank; 0: none */
    double expert_skew, expert_drift;
    struct twin_source source;
    int64_t settle_ns;  /* from the start: prompts are computed, and KV blocks travel, in
                                     * no time, so that the standing requests are where they belong;
                                     * answers take their time. Beyond warm_ns where answers
                                     * alone are looked at: then no TTFT means anything */
    int64_t warm_ns;    /* from the start: nothing is counted yet */
    int64_t measure_ns; /* behind it: counted. Then the run ends; 0: when all are answered */
    const bool *enough; /* once it is true the run ends, as if its time were over; NULL: never */
    const struct twin_fault *faults; /* [fault_count] by time; simulate/twin/twin_faults.h */
    uint32_t fault_count;
    uint64_t seed;
    /* Called with each request that has ended, in the order of their ends; NULL: nobody. */
    void *context;
    void (*ended)(void *context, const struct twin_ended *ended);
    /* Called with each request at its first token (end_ns 0); NULL: nobody. */
    void (*begun)(void *context, const struct twin_ended *so_far);
    /* Called each sample_ns of the measured time; NULL: nobody. */
    void (*sampled)(void *context, const struct twin_sample *sample);
    int64_t sample_ns;
};

/* A moment of the measured time. */
struct twin_sample {
    int64_t now_ns;
    const struct twin_report *so_far;    /* its sums; means are made at the end */
    double pages_share[UNIT_ROLE_COUNT]; /* of a role's KV pages that are held; 0: it has none */
    uint32_t open;                       /* requests that have begun and not ended */
};

/* One request's times as its client saw them. */
struct twin_ended {
    uint64_t number; /* of the request, from 1, as the source brought them */
    int64_t arrival_ns, first_ns, last_ns, end_ns; /* first_ns 0: there was no token */
    uint32_t prompt_tokens, answer_tokens, hit_tokens;
    uint32_t http_status;
    bool standing, failed; /* failed: refused, or cut off */
};

/* What a step gives a rank to do: prompts' tokens, the positions that they attend to, rows of
 * answers, the KV positions that these read. */
enum twin_load {
    TWIN_LOAD_TOKENS,
    TWIN_LOAD_ATTENDED,
    TWIN_LOAD_ROWS,
    TWIN_LOAD_CONTEXT,
    TWIN_LOAD_COUNT
};

struct twin_role_counts { /* of all units of one role, in the measured time */
    uint64_t units, ranks, nodes;
    uint64_t steps;
    double step_ns;                         /* summed over steps */
    double spent[STEP_SPENT_COUNT], idle_s; /* seconds, summed over ranks */
    uint64_t prompt_tokens,
        computed_tokens; /* prompt's tokens that went through; of them computed */
    uint64_t
        hit_tokens; /* of prompt_tokens, that stood somewhere when the request began: also those
                          * that were faster computed than loaded, as the product bills them */
    uint64_t device_hits, host_hits, disk_hits; /* tokens of prompts, by where they were obtained */
    uint64_t output_tokens;
    uint64_t answered_tokens; /* tokens of answers that went through, those computed again too */
    uint64_t rows, context;   /* summed over steps: answer rows, and KV positions that they read */
    uint64_t pages_held, pages_cached, pages_total; /* mean over time, of a rank */
    uint64_t preemptions, moves; /* requests that lost their pages; experts that came to a rank */
    double expert_balance;       /* mean over steps, largest rank over mean */
    double
        layer_balance[LIMIT_LAYERS]; /* the same of each layer, as experts lay when the run ended,
                                         * mean over units; without experts 1 */
    /* Of the fullest rank and of the mean one, summed over steps, each times its seconds: their
     * quotient is how uneven the ranks are. */
    double load_most[TWIN_LOAD_COUNT], load_mean[TWIN_LOAD_COUNT];
    uint64_t unit_computed_most; /* computed_tokens of the unit that has most */
};

struct twin_report {
    char breach[256]; /* empty: everything that must hold held */
    double measured_s;
    /* Requests, standing ones apart: that came in the measured time; that ended in it, whole, without
     * a token, in the middle. */
    uint64_t asked, answered, refused, failed;
    uint64_t prompt_tokens, hit_tokens, output_tokens; /* of answered ones, wherever computed */
    struct twin_role_counts roles[UNIT_ROLE_COUNT];
    struct histogram ttft, tpot, e2e; /* histogram_times; finer figures through `ended` */
    double user_speed_tokens; /* sum over tokens of 1 s / the time since the token before, and */
    double user_tokens;       /* how many: token-weighted mean speed is the quotient */
    double transfer_bytes, storage_read_bytes, storage_written_bytes;
    uint64_t records; /* received by machines, all in all */
    uint64_t events;
    uint64_t digest; /* of all records that machines received, and when: equal in equal runs */
};

/* Runs in `arena`, whose memory is twin_bytes(options). STATUS_INVALID names the option. */
size_t twin_bytes(const struct twin_options *options);
enum status twin_run(const struct twin_options *options, struct arena *arena,
                     struct twin_report *report_out, struct error *error) MUST_USE;

/* STATUS_CORRUPT: `what` ("the run") breaks what must hold, and the error says how. */
enum status twin_judge(const struct twin_report *report, const char *what,
                       struct error *error) MUST_USE;

#endif
