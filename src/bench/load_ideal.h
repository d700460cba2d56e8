/* SPDX-License-Identifier: Apache-2.0
 * The hits of a cache that evicts nothing, for a load's prompts: the reference for a server's hit
 * rate on exactly these prompts. A prompt's hit is the longest prefix that it shares with an
 * earlier one, whether that is already answered or not. Its last token is always computed, since it
 * yields the next token. Answers do not count: a load's prompts do not repeat them.
 */
#pragma once

#include "base/status.h"
#include "bench/load.h"

struct load_ideal {
    uint64_t prompt_tokens, output_tokens; /* of all requests */
    uint64_t cached_tokens;                /* hits, token by token */
    uint64_t block_cached_tokens;          /* hits of a cache of whole blocks only */
};

/* Computes the hits of the requests in their order. The cache's blocks have cache_block tokens. May
 * return STATUS_NO_MEMORY. */
enum status load_ideal_of(const struct load_request *requests, size_t count, uint32_t cache_block,
                          struct load_ideal *ideal_out, struct error *error);
