/* SPDX-License-Identifier: Apache-2.0
 * Two worlds for the load balancers: the ranks of a prefill unit, then those of a decode unit, fed
 * with a trace of requests in virtual time. The choices are the real ones of policy/; a step takes
 * what simulate/hardware.h says. Which blocks are cached is known for the whole service (the disk
 * tier never forgets); a rank keeps the last ones it computed in its own pages, and fetches others.
 *
 * Everything lies in the caller's arena. The same input gives the same report.
 */
#ifndef SIMULATE_RANKS_H
#define SIMULATE_RANKS_H

#include "base/arena.h"
#include "base/limits.h"
#include "serving/policy/balance.h"

struct stage_table; /* simulate/hardware/stage_table.h */

#define RANKS_BLOCK_TOKENS 512 /* of a trace's prompt blocks */

struct ranks_request {
    int64_t arrival_ns;
    uint32_t prompt_tokens; /* >= 1 */
    uint32_t output_tokens; /* >= 1 */
    uint32_t block_count;   /* leading blocks of the prompt that have a number */
    const uint32_t *blocks; /* [block_count] equal numbers, equal tokens up to their end */
};

struct ranks_options {
    enum balance_method method;
    bool full_steps; /* prefill: ranks take all tokens that fit; false: their steps are levelled */
    uint32_t rank_count;
    uint32_t block_ids;                 /* numbers of blocks lie below */
    uint32_t step_tokens;               /* prefill: a rank's tokens in a step */
    uint32_t device_tokens;             /* prefill: a rank's pages keep about so many */
    uint32_t requests_max;              /* decode: of a rank */
    uint64_t rank_tokens;               /* decode: KV tokens that a rank's pages hold */
    double fetch_token_ns;              /* prefill: a cached token that lies elsewhere */
    const struct stage_table *measured; /* the machine's times; NULL: the published H800's */
    int64_t patience_ns;                /* prefill: how long a prompt may be passed over */
};

/* Spreads are taken while requests come, once a tenth of them has, weighed by the steps' time. */
struct ranks_report {
    double spread[2]; /* max over ranks / mean. Prefill: attention, tokens; decode: KV, requests */
    double measured_ns;
    double busy_s;          /* time in steps */
    uint64_t steps, tokens; /* computed; decode: put out */
    uint64_t cached_tokens; /* prefill: hits, those that a prompt's first chunk finds */
    uint64_t moved;         /* decode: requests that had to leave a rank */
};

/* Adds a step of `ns` in which the ranks' loads had these maxima and sums. */
void ranks_note(struct ranks_report *report, double ns, uint32_t rank_count, const double most[2],
                const double sum[2]);

/* Fills ready_ns_out[count]: when each prompt was done. STATUS_NO_MEMORY: the arena is too small.
 */
enum status ranks_prefill(const struct ranks_options *options, const struct ranks_request *requests,
                          uint32_t count, struct arena *arena, int64_t *ready_ns_out,
                          struct ranks_report *report_out) MUST_USE;

/* Requests come at ready_ns. Fills tpot_ns_out[count]: time from the first to the last token over
 * the tokens after the first; 0 for answers of one token. */
enum status ranks_decode(const struct ranks_options *options, const struct ranks_request *requests,
                         uint32_t count, const int64_t *ready_ns, struct arena *arena,
                         double *tpot_ns_out, struct ranks_report *report_out) MUST_USE;

#endif
