/* SPDX-License-Identifier: Apache-2.0
 * The prefill load balancer: chooses the DP rank that computes a prompt. Its goal, as stated in
 * DeepSeek's inference system overview: "balance core-attention computation across GPUs; equalize
 * input token counts per GPU". The ranks of a unit step together, so the most expensive rank
 * determines the time of a step. If tokens and attended positions are weighted by the time that
 * they take, the two goals become one:
 *
 *   cost(new, before) = token * new + attended * (new * before + new * (new + 1) / 2)
 *                       + read * before
 *
 * `read` is the time to read back the latent KV of a position and to expand it, once per chunk.
 *
 * Binding is late: a prompt waits in one queue until a rank is about to take work, so no wrong
 * estimate of a rank's future lasts long. There are two decisions. balance_prefill binds one prompt
 * to the rank that would finish it first, given the work already bound there and the part of the
 * prompt in that rank's prefix cache. balance_prefill_level limits the cost of a step on each rank,
 * so that a rank deep in a long context takes fewer tokens and does not delay all others.
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the lowest rank.
 */
#pragma once

#include "serving/policy/balance/balance.h"

/* Costs are in nanoseconds if times are known, otherwise in tokens. Any unit is possible if all
 * input of balance_prefill uses the same one. */
struct prefill_costs {
    double token;    /* cost of a token, independent of its position */
    double attended; /* cost of each position that a token attends to */
    double read;     /* cost of each position before a chunk, once per chunk */
};

/* The cost of a chunk of new_tokens tokens after `before` others; 0 without new tokens. */
double balance_prefill_costs_of(const struct prefill_costs *costs, uint32_t new_tokens,
                                uint32_t before);

/* The minimum length to which a chunk is shortened for the sake of other ranks, in whole blocks. At
 * this length, attention to the context takes twice as long as reading the context back. */
uint32_t balance_prefill_costs_chunk_min(const struct prefill_costs *costs);

struct prefill_rank {
    bool accepts;        /* its next step has free tokens */
    uint32_t pages_free; /* free or evictable */
    double bound_cost;   /* cost of bound work that is not computed yet */
};

/* The part of the prompt that a rank need not compute. */
struct prefill_hit {
    uint32_t cached_tokens; /* in its pages, or to be fetched */
    double fetch_cost;      /* delay of the fetch at that rank; 0: nothing to fetch */
};

struct prefill_need {
    uint32_t prompt_tokens;
    uint32_t page_count;
    /* the prompt may wait for a busy rank that would finish it earlier; the caller limits the wait
     * by age */
    bool patient;
};

enum prefill_reason {
    PREFILL_BOUND,         /* the least loaded rank */
    PREFILL_BOUND_TO_HIT,  /* a more loaded rank with enough cached blocks to finish earlier */
    PREFILL_WAITS_FOR_HIT, /* a busy rank will finish it earlier than any free rank */
    PREFILL_WAITS_ROOM,    /* every rank's next step is full */
    PREFILL_WAITS_PAGES,   /* no rank with free tokens in its step has enough pages */
    PREFILL_REASON_COUNT
};

/* The reason as short lower-case text, for logs and traces. */
const char *balance_prefill_reason_name(enum prefill_reason reason);

struct prefill_choice {
    uint32_t rank; /* BALANCE_NO_RANK: it waits */
    uint32_t reason;
    double done_cost; /* the smallest cost: the rank's bound work including this prompt */
};

/* Chooses a rank for one prompt. ranks[rank_count], hits[rank_count]. */
struct prefill_choice balance_prefill(const struct prefill_costs *costs,
                                      const struct prefill_need *need,
                                      const struct prefill_rank *ranks,
                                      const struct prefill_hit *hits, uint32_t rank_count);

/* The cost limit of the next step for each rank. `full_ns[rank_count]` is the time of each rank
 * with all tokens that its budget allows, 0 for a rank without work. Returns the mean over the
 * ranks with work, but at least `least_ns`, the cost that some rank cannot avoid (the shortest
 * chunk at the deepest context). */
double balance_prefill_level(const double *full_ns, uint32_t rank_count, double least_ns);
