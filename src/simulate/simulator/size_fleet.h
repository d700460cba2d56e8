/* SPDX-License-Identifier: Apache-2.0
 * The candidate fleets of `fathom plan`: those that could serve a load within limits of TTFT and
 * TPOT, with a lower bound on the nodes that each needs. The bounds show which fleets need no
 * simulation.
 *
 * The capacity of a unit is computed by the step clock for a unit that is always full and balanced,
 * with experts as unevenly loaded as in the simulation. Requests arrive evenly, and none waits for
 * another. So a fleet needs at least (rate / capacity) units of each role, rounded up. In the
 * simulation requests arrive at random, so it can only need more.
 *
 *   decode    the most rows per rank such that a step takes TPOT x (tokens of a row), and their KV
 *             pages fit in memory with the weights
 *   prefill   full steps. Two consecutive steps must fit in the limit of TTFT, as a prompt that
 *             arrives just after a step began waits for that step and then takes one itself. A long
 *             prompt, computed chunk by chunk on one rank while all others rest, must fit, too
 *   combined  like decode, with as many prompt tokens in each step as its answers need
 */
#pragma once

#include "simulate/simulator/simulator.h"

#define SIZE_UNITS_MAX 512
#define SIZE_FLEETS_MAX 48
#define SIZE_SPEEDS 16 /* points of a curve */
#define SIZE_TEXT_BYTES 128
#define SIZE_WHY_BYTES 96

struct size_load { /* a steady load */
    double rate;   /* requests per second */
    double prompt_mean, prompt_cv, answer_mean;
    double hit_share; /* cached share of prompt tokens, if nothing is evicted */
    double dry_share; /* the same without storage */
    double kv_mean;   /* KV positions that an answer token reads */
    /* 99th percentile of the computed tokens of the prompts that TTFT counts; 0: unknown. */
    double long_prompt[2];   /* [storage] */
    uint32_t counted_prompt; /* TTFT counts only prompts of at most this length; 0: all */
    double counted_share;    /* share of these among all prompts */
};

struct size_options {
    const struct hardware *hardware;
    const struct model_figures *model;
    struct size_load load;
    double ttft_s, tpot_s; /* limits */
    double expert_skew, expert_drift;
    uint64_t seed;
};

struct size_unit { /* one candidate */
    enum unit_role role;
    uint32_t ranks, redundant_experts, rows, step_tokens;
    bool mtp, storage;
    enum overlap_kind overlap; /* the fastest according to the clock */
    double nodes;
    double step_s, tpot_s;
    double capacity; /* upper bound, in requests per second */
    double weight_bytes;
    uint32_t page_count;
    /* if it cannot serve the load: the factor by which it misses its limit; 0: not enough memory */
    double miss;
    char lost[SIZE_TEXT_BYTES]; /* why it cannot serve the load; "": it can */
};

enum size_curve { SIZE_APART, SIZE_APART_MTP, SIZE_COMBINED, SIZE_COMBINED_MTP, SIZE_CURVES };

/* The most output tokens/s per node for a given token rate of each user, by the clock; 0: none. */
struct size_pareto {
    double speeds[SIZE_SPEEDS]; /* tokens/s per user, ascending */
    double node_tokens[SIZE_CURVES][SIZE_SPEEDS];
};

struct size_search {
    struct size_unit units[SIZE_UNITS_MAX];
    uint32_t count;
    struct size_pareto pareto;
};

struct size_trial { /* result of simulating a fleet */
    double ttft_p99_s, tpot_p99_s;
    double ttft_all_p99_s;          /* includes prompts that TTFT does not count */
    double node_tokens, user_speed; /* output tokens/s per node; tokens/s per user */
    double hit_share;
    double begun_share;        /* requests with a first token in the measured time, per arrival */
    uint64_t answered, failed; /* failed: includes refused requests */
    double rows_share;         /* running rows over the most rows that decode units may run */
    double share;              /* share of the fleet's load that was simulated */
};

enum size_verdict { SIZE_BOUND, SIZE_HOLDS, SIZE_MISSES, SIZE_CANNOT };

struct size_fleet { /* kinds: [0] prefill and [1] decode, or [0] combined */
    struct size_unit kinds[2];
    uint32_t counts[2], kind_count;
    bool mtp, storage;
    double least_nodes; /* lower bound by the clock */
    double load;        /* the same in nodes, not rounded up */
    double nodes;       /* of the fleet as it is now */
    uint32_t trials;
    struct size_trial trial; /* the last one */
    enum size_verdict verdict;
    char why[SIZE_WHY_BYTES + 64];
};

/* `tokens`: of the longest prompt that a rank can compute within the limit of TTFT while all others
 * rest, after one step of its own size; 0: none. The other member is the least time for
 * load.long_prompt[1] in that way. */
struct size_reach {
    uint32_t tokens;
    double long_s;
};
enum status size_fleet_reach(const struct size_options *options, struct arena *arena,
                             struct size_reach *reach_out, struct error *error) MUST_USE;

/* Finds all candidates and the curves. `arena` is cleared for each clock. */
enum status size_fleet_search(const struct size_options *options, struct arena *arena,
                              struct size_search *search_out, struct error *error) MUST_USE;

/* Writes fleets_out[SIZE_FLEETS_MAX] and returns how many: fleets of the candidates, those with the
 * fewest nodes first, the best few of each family (apart or combined, MTP, storage). Then fleets
 * that cannot serve the load, with a reason (SIZE_CANNOT). */
uint32_t size_fleet_rank(const struct size_options *options, const struct size_search *search,
                         struct size_fleet *fleets_out);

/* Requests that a rank of the unit runs when the unit answers `rate` requests per second. */
enum status size_fleet_standing(const struct size_options *options, struct arena *arena,
                                const struct size_unit *unit, double rate, double *rows_out,
                                struct error *error) MUST_USE;

/* "3 prefill EP32+32 x 16k + 1 decode EP144+32 x 96": ranks, redundant experts, tokens or requests
 * of a rank's step. */
void size_fleet_name(const struct size_fleet *fleet, char out[SIZE_TEXT_BYTES]);
