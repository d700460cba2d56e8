/* SPDX-License-Identifier: Apache-2.0
 * The prefill load balancer: which DP rank computes a prompt. Its aim, in the words of DeepSeek's
 * inference system overview: "balance core-attention computation across GPUs; equalize input token
 * counts per GPU". The ranks of a unit step together, so the costliest rank of a step is the
 * step's time; both aims become one when tokens and attended positions are weighed by the time they
 * take:
 *
 *   cost(new, before) = token * new + attended * (new * before + new * (new + 1) / 2)
 *                       + read * before
 *
 * where `read` is what it takes to read a position's latent back and to expand it, once a chunk.
 *
 * Binding is late: a prompt waits in one queue until a rank is about to take work, so no rank's
 * guess at another's future can be wrong for long. Two decisions are here. balance_prefill binds
 * one prompt: to the rank where it would be done first, counting what is bound there already and
 * what that rank's cache saves of it. balance_prefill_level says how much a step may cost each
 * rank, so that a rank in the depths of a long context takes fewer tokens rather than making all
 * others wait.
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the lowest rank.
 */
#ifndef SERVING_POLICY_BALANCE_PREFILL_H
#define SERVING_POLICY_BALANCE_PREFILL_H

#include "serving/policy/balance.h"

/* Costs are nanoseconds where times are known, or else tokens: any unit, but the same one in all
 * that balance_prefill is given. */
struct prefill_costs {
    double token;    /* of a token, wherever it stands */
    double attended; /* of each position that a token attends to */
    double read;     /* of each position before a chunk */
};

/* Of a chunk of new_tokens behind `before` others; 0 for no new tokens. */
double prefill_costs_of(const struct prefill_costs *costs, uint32_t new_tokens, uint32_t before);

/* The fewest tokens that a chunk is cut to for the sake of others: attention to what is before them
 * then takes twice as long as reading that back. Whole blocks. */
uint32_t prefill_costs_chunk_min(const struct prefill_costs *costs);

struct prefill_rank {
    bool takes;          /* its next step has room */
    uint32_t pages_free; /* free or evictable */
    double bound_cost;   /* cost of what is bound to it and not computed yet */
};

/* What of the prompt need not be computed at a rank. */
struct prefill_hit {
    uint32_t cached_tokens; /* in its pages, or to be fetched */
    double fetch_cost;      /* what the fetch delays it, at that rank; 0: nothing to fetch */
};

struct prefill_need {
    uint32_t prompt_tokens;
    uint32_t page_count;
    bool patient; /* may wait for a busy rank if that is done with it earlier; not for ever: the
                   * caller ends its patience by age */
};

enum prefill_reason {
    PREFILL_BOUND,         /* the least loaded */
    PREFILL_BOUND_TO_HIT,  /* not the least loaded, but its cache makes up for it */
    PREFILL_WAITS_FOR_HIT, /* a busy rank will still be done with it earlier than any free one */
    PREFILL_WAITS_ROOM,    /* every rank's next step is full */
    PREFILL_WAITS_PAGES,   /* no rank with room in its step has so many pages */
    PREFILL_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *prefill_reason_name(enum prefill_reason reason);

struct prefill_choice {
    uint32_t rank; /* BALANCE_NO_RANK: it waits */
    uint32_t reason;
    double done_cost; /* what would be bound there with it: the cost that was smallest */
};

/* `hits`: [rank_count]. */
struct prefill_choice balance_prefill(const struct prefill_costs *costs,
                                      const struct prefill_need *need,
                                      const struct prefill_rank *ranks,
                                      const struct prefill_hit *hits, uint32_t rank_count);

/* What the next step may cost a rank: `full_ns[rank_count]` is what each would take with all the
 * tokens its budget allows, 0 for a rank without work. The mean over the ranks that have work, but
 * at least `least_ns`, what some rank takes anyway (the shortest chunk at the deepest context). */
double balance_prefill_level(const double *full_ns, uint32_t rank_count, double least_ns);

#endif
