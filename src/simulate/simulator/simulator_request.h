/* SPDX-License-Identifier: Apache-2.0
 * A request of the load: its lengths, and the ids of the prompt blocks that it shares with other
 * requests. Its tokens follow from these (simulator_words.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct simulator_request {
    int64_t arrival_ns;     /* never less than that of the previous request */
    uint32_t prompt_tokens; /* >= 1 */
    uint32_t answer_tokens; /* >= 1: exact length, unless the answer ends earlier */
    /* Ids of the prompt's leading blocks, block_tokens tokens each. Equal leading ids mean equal
     * tokens. Later tokens are unique to the request. Valid until the next call of the source. */
    const uint64_t *blocks;
    uint32_t block_count, block_tokens;
    uint32_t stored_tokens; /* leading tokens that were computed before the run. The storage that
                             * all units share always has their KV blocks. 0 if the fleet has no
                             * such storage */
    /* 1: in the middle of its answer at the start of the run. Its prompt includes the tokens
     * generated before. It does not count for TTFT. */
    uint32_t standing;
    uint64_t tenant;
};

/* A source of requests, from a trace or drawn at random. `next` returns false if there are no
 * more. */
struct simulator_source {
    void *self;
    bool (*next)(void *self, struct simulator_request *request_out);
};
