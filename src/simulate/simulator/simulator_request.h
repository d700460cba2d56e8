/* SPDX-License-Identifier: Apache-2.0
 * A request of the load: its lengths, and the prompts that it shares a prefix with. Its tokens
 * follow from these.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct simulator_request {
    int64_t arrival_ns;     /* never before the previous request's */
    uint32_t prompt_tokens; /* >= 1 */
    uint32_t answer_tokens; /* >= 1: exact length, unless the answer ends earlier */
    /* The prompt's leading tokens, block_tokens to an id: equal leading ids mean equal tokens. The
     * tokens after them are the request's own. Valid until the next call of the source. */
    const uint64_t *blocks;
    uint32_t block_count, block_tokens;
    uint32_t stored_tokens; /* the first tokens that were computed before the run: the storage that
                             * all units share has their KV blocks, whatever was stored since. 0 if
                             * the fleet has no such storage */
    /* 1: part of the fleet's state at the start (a request in the middle of its answer, with a
     * prompt that includes the tokens so far). It does not count for TTFT. */
    uint32_t standing;
    uint64_t tenant;
};

/* A source of requests: a trace, or a mix of drawn ones. Returns false if there are no more. */
struct simulator_source {
    void *self;
    bool (*next)(void *self, struct simulator_request *request_out);
};
