/* SPDX-License-Identifier: Apache-2.0
 * An invented KV storage below the pages of one or several invented units: it answers when it is
 * told to, in any order, forgets blocks if it is to, and spoils what it will write to as soon as it
 * is asked. Units that share it load what others have kept.
 */
#pragma once

#include "world.h"

enum { STORED_MAX = 4000, PENDING_MAX = 64 };

struct stored {
    struct block_key key;
    struct kv_row rows[KV_BLOCK_TOKENS];
};

struct pending { /* what a unit has said and is not done */
    struct world *world;
    struct record *record;
    struct kv_row kept[24][KV_BLOCK_TOKENS]; /* what a keep's pages held when asked */
};

struct storage {
    struct stored blocks[STORED_MAX];
    uint32_t count;
    struct pending pending[PENDING_MAX];
    uint32_t pending_count;
    uint64_t seed, draws;
    double late_odds; /* for the tests: that nothing is done in a turn */
    double idle_odds; /* that a row waits for it in vain */
    double lose_odds; /* that a load ends before a block, that a keep is not taken */
    int64_t block_ns; /* that a load says it took for each; 0: something */
    uint32_t finds, fresh_finds, loads, loaded, keeps, dropped;
};

struct storage *storage_open(uint64_t seed);

double storage_draw(struct storage *storage);

/* Takes a FIND, a LOAD, a PARK or a KEEP. */
void storage_take(struct storage *storage, struct world *world, const struct record *record);

/* The request's load, if it is under way: world->await of a world whose context is the storage. */
void storage_await(struct world *world, uint32_t number);
void storage_await_of(struct storage *storage, struct world *world, uint32_t number);

/* Does pending[slot], and answers. */
void storage_do(struct storage *storage, uint32_t slot);
