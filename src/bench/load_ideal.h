/* SPDX-License-Identifier: Apache-2.0
 * The hits of a load's prompts in an ideal prefix cache, which never evicts. They are the reference
 * for the hit rate of a server on exactly these prompts. The hit of a prompt is the longest prefix
 * that it shares with an earlier prompt, even if the earlier one is not answered yet. The last
 * token of a prompt is always computed, because its logits give the next token. Answers do not
 * count as cached, because a load's prompts do not repeat them.
 */
#pragma once

#include "base/status.h"
#include "bench/load.h"

struct load_ideal {
    uint64_t prompt_tokens, output_tokens; /* of all requests */
    uint64_t cached_tokens;                /* tokens of all hits */
    uint64_t block_cached_tokens;          /* the same if only whole blocks hit */
};

/* Computes the hits of the requests, in their order. A block of the cache has cache_block tokens.
 * May return STATUS_NO_MEMORY. */
enum status load_ideal_of(const struct load_request *requests, size_t count, uint32_t cache_block,
                          struct load_ideal *ideal_out, struct error *error);
