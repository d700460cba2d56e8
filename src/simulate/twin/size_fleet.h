/* SPDX-License-Identifier: Apache-2.0
 * Which fleets could carry a load within limits of TTFT and TPOT, and how many nodes each needs at
 * least: what `fathom plan` runs in the twin, and what it need not run.
 *
 * A unit's capacity is what the step clock says of it when it is kept full and level, its experts
 * as unevenly loaded as in the twin: requests come as steadily as can be, and no request waits
 * for another. So a fleet needs at least (rate / capacity) units of each role, rounded up; the
 * twin, where requests come at random, can only need more.
 *
 *   decode    the most rows of a rank such that a step takes TPOT x (tokens of a row), and their
 *             KV pages fit beside the weights
 *   prefill   full steps; one behind another must fit the limit of TTFT, since a prompt that comes
 *             right behind a step's begin waits for that step and then takes one; and so must a long
 *             prompt, computed chunk by chunk on a rank while all others rest
 *   combined  as decode, with as many prompt tokens in each step as its answers need
 */
#ifndef SIMULATE_TWIN_SIZE_FLEET_H
#define SIMULATE_TWIN_SIZE_FLEET_H

#include "simulate/twin/twin.h"

#define SIZE_UNITS_MAX 512
#define SIZE_FLEETS_MAX 48
#define SIZE_SPEEDS 16 /* points of a curve */
#define SIZE_TEXT_BYTES 128
#define SIZE_WHY_BYTES 96

struct size_load { /* a steady one */
    double rate;   /* requests a second */
    double prompt_mean, prompt_cv, answer_mean;
    double hit_share; /* of prompt tokens, where nothing is forgotten */
    double dry_share; /* the same without storage */
    double kv_mean;   /* positions that an answer's token reads */
    /* Of a hundred prompts that TTFT counts one has more tokens to compute; 0: not known. */
    double long_prompt[2];   /* [storage] */
    uint32_t counted_prompt; /* TTFT counts prompts of up to so many tokens; 0: all */
    double counted_share;    /* of all prompts */
};

struct size_options {
    const struct hardware *hardware;
    const struct model_figures *model;
    struct size_load load;
    double ttft_s, tpot_s; /* limits */
    double expert_skew, expert_drift;
    uint64_t seed;
};

struct size_unit { /* a candidate */
    enum unit_role role;
    uint32_t ranks, redundant_experts, rows, step_tokens;
    bool mtp, storage;
    enum overlap_kind overlap; /* the fastest one, by the clock */
    double nodes;
    double step_s, tpot_s;
    double capacity; /* requests a second, at most */
    double weight_bytes;
    uint32_t page_count;
    double miss;                /* where it can carry nothing: so many times its limit; 0: no fit */
    char lost[SIZE_TEXT_BYTES]; /* why it can carry nothing; "": it can */
};

enum size_curve { SIZE_APART, SIZE_APART_MTP, SIZE_COMBINED, SIZE_COMBINED_MTP, SIZE_CURVES };

/* The most output tokens/s of a node at a speed of each user, by the clock alone; 0: none. */
struct size_pareto {
    double speeds[SIZE_SPEEDS]; /* tokens/s a user, ascending */
    double node_tokens[SIZE_CURVES][SIZE_SPEEDS];
};

struct size_search {
    struct size_unit units[SIZE_UNITS_MAX];
    uint32_t count;
    struct size_pareto pareto;
};

struct size_trial { /* what the twin said of a fleet */
    double ttft_p99_s, tpot_p99_s;
    double ttft_all_p99_s;          /* also of prompts that do not count */
    double node_tokens, user_speed; /* output tokens/s of a node; tokens/s of a user */
    double hit_share;
    double begun_share;        /* first tokens in the measured time, for each request that came */
    uint64_t answered, failed; /* failed: refused ones as well */
    double rows_share;         /* of the rows that decode units may run: how many ran */
    double share;              /* of the fleet's load that the twin ran */
};

enum size_verdict { SIZE_BOUND, SIZE_HOLDS, SIZE_MISSES, SIZE_CANNOT };

struct size_fleet { /* kinds: [0] prefill and [1] decode, or [0] combined */
    struct size_unit kinds[2];
    uint32_t counts[2], kind_count;
    bool mtp, storage;
    double least_nodes; /* by the clock */
    double load;        /* of them, in nodes: what is not rounded up */
    double nodes;       /* as it is now */
    uint32_t trials;
    struct size_trial trial; /* the last one */
    enum size_verdict verdict;
    char why[SIZE_WHY_BYTES + 64];
};

/* Tokens of the longest prompt that a rank can compute within the limit of TTFT while all others
 * rest, behind one step like its own; and how long, so, load.long_prompt[1] takes at least.
 * 0 tokens: no prompt can. */
struct size_reach {
    uint32_t tokens;
    double long_s;
};
enum status size_fleet_reach(const struct size_options *options, struct arena *arena,
                             struct size_reach *reach_out, struct error *error) MUST_USE;

/* All candidates, and the curves. `arena` is cleared for each clock. */
enum status size_fleet_search(const struct size_options *options, struct arena *arena,
                              struct size_search *search_out, struct error *error) MUST_USE;

/* Fleets of the candidates, those that need the fewest nodes first; the best few of each family
 * (apart or combined, MTP, storage). Then those of which nothing can carry the load, with a reason
 * (SIZE_CANNOT). fleets_out[SIZE_FLEETS_MAX]; returns how many. */
uint32_t size_fleet_rank(const struct size_options *options, const struct size_search *search,
                         struct size_fleet *fleets_out);

/* Requests that a rank of the unit runs when the unit answers `rate` a second. */
enum status size_fleet_standing(const struct size_options *options, struct arena *arena,
                                const struct size_unit *unit, double rate, double *rows_out,
                                struct error *error) MUST_USE;

/* "3 prefill EP32+32 x 16k + 1 decode EP144+32 x 96": ranks, redundant experts, tokens or requests of a
 * rank's step */
void size_fleet_name(const struct size_fleet *fleet, char out[SIZE_TEXT_BYTES]);

#endif
