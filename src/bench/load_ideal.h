/* SPDX-License-Identifier: Apache-2.0
 * What a cache that never forgets would have of a load's prompts: the measure for a server's hit
 * rate on exactly these prompts. A prompt's hit is the longest beginning that it shares with one
 * that came before it, answered yet or not; its last token is always computed, since somebody has
 * to say what comes next. Answers are no part of it: a load's prompts do not repeat them.
 */
#ifndef BENCH_LOAD_IDEAL_H
#define BENCH_LOAD_IDEAL_H

#include "base/status.h"
#include "bench/load.h"

struct load_ideal {
    uint64_t prompt_tokens, output_tokens; /* of all requests */
    uint64_t cached_tokens;                /* hits, token by token */
    uint64_t block_cached_tokens;          /* hits of a cache that keeps whole blocks alone */
};

/* Of the requests in their order; the cache's blocks have cache_block tokens. STATUS_NO_MEMORY. */
enum status load_ideal_of(const struct load_request *requests, size_t count, uint32_t cache_block,
                          struct load_ideal *ideal_out, struct error *error);

#endif
