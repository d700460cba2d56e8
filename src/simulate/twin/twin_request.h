/* SPDX-License-Identifier: Apache-2.0
 * A request as the twin's load brings it: lengths, and which other prompts it begins like. What
 * its tokens are follows from these.
 */
#ifndef SIMULATE_TWIN_TWIN_REQUEST_H
#define SIMULATE_TWIN_TWIN_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

struct twin_request {
    int64_t arrival_ns;     /* never before the one before */
    uint32_t prompt_tokens; /* >= 1 */
    uint32_t answer_tokens; /* >= 1: exactly so many, if nothing ends it earlier */
    /* The prompt's leading tokens, block_tokens to an id: equal leading ids, equal tokens. What is
     * behind them is the request's own. Valid until the next call of the source. */
    const uint64_t *blocks;
    uint32_t block_count, block_tokens;
    uint32_t stored_tokens; /* its first so many tokens were computed before the run began: the
                             * storage that all units share has their KV blocks, whatever it was
                             * told to keep since. 0 where the fleet has no such storage */
    /* 1: it belongs to the fleet's state at the start (a request in the middle of its answer, as
     * one whose prompt has what was said already). It counts for no TTFT. */
    uint32_t standing;
    uint64_t tenant;
};

/* Where requests come from: a trace, a mix of drawn ones. False: there are no more. */
struct twin_source {
    void *self;
    bool (*next)(void *self, struct twin_request *request_out);
};

#endif
