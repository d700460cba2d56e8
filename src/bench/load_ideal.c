/* SPDX-License-Identifier: Apache-2.0
 * A block is identified by the chain of ids up to it, hashed to 64 bits. For each chain the table
 * has the most tokens of its last block that have been seen, since a prompt may end within a block.
 */
#include "bench/load_ideal.h"

#include "base/hash.h"

#include <stdlib.h>

struct seen {
    uint64_t chain; /* 0: a free place */
    uint32_t tokens;
};

struct ideal_table {
    struct seen *places; /* [mask + 1] */
    size_t mask;
};

/* Never 0. */
static uint64_t load_ideal_extend(uint64_t chain, uint64_t id) {
    uint64_t next = hash_word(chain, hash_mix(id + 1));
    return next ? next : 1;
}

static struct seen *find(const struct ideal_table *table, uint64_t chain) {
    size_t at = (size_t)chain & table->mask;
    while (table->places[at].chain && table->places[at].chain != chain)
        at = (at + 1) & table->mask;
    return &table->places[at];
}

/* The number of leading tokens that were seen before. Afterwards all its blocks count as seen. */
static uint32_t load_ideal_hit_of(const struct ideal_table *table,
                                  const struct load_request *request) {
    uint32_t hit = 0, left = request->prompt_tokens;
    uint64_t chain = 0;
    for (uint32_t i = 0; i < request->block_count && left > 0; i++) {
        uint32_t own = left < request->block_tokens ? left : request->block_tokens;
        chain = load_ideal_extend(chain, request->blocks[i]);
        struct seen *seen = find(table, chain);
        uint32_t shared = seen->tokens < own ? seen->tokens : own;
        hit += shared; /* nothing after a block that was not seen in full */
        seen->chain = chain;
        if (seen->tokens < own) seen->tokens = own;
        left -= own;
    }
    return hit < request->prompt_tokens ? hit : request->prompt_tokens - 1;
}

enum status load_ideal_of(const struct load_request *requests, size_t count, uint32_t cache_block,
                          struct load_ideal *ideal_out, struct error *error) {
    size_t blocks = 0, room = 1024;
    for (size_t i = 0; i < count; i++)
        blocks += requests[i].block_count;
    while (room < 2 * blocks)
        room *= 2;
    struct ideal_table table = {calloc(room, sizeof *table.places), room - 1};
    if (!table.places)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %zu blocks of prompts", blocks);
    struct load_ideal ideal = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t hit = load_ideal_hit_of(&table, &requests[i]);
        ideal.prompt_tokens += requests[i].prompt_tokens;
        ideal.output_tokens += requests[i].output_tokens;
        ideal.cached_tokens += hit;
        ideal.block_cached_tokens += hit / cache_block * cache_block;
    }
    free(table.places);
    *ideal_out = ideal;
    return STATUS_OK;
}
