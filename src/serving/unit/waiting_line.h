/* SPDX-License-Identifier: Apache-2.0
 * The requests of a unit of several ranks that have no rank yet, by priority and then by arrival.
 * They are not in the order of their turns (serving/policy/schedule.h), which puts short requests
 * first: the long ones would be distributed last, and could no longer be balanced. The line stores
 * each SUBMIT as received, and the data needed for every rank before every step. It is limited in
 * number and in bytes. serving/unit/rank_units decides which request leaves for which rank.
 */
#pragma once

#include "serving/unit/unit.h"

/* The blocks to look up at the ranks; computed once, when the prompt arrives. */
struct prompt_blocks {
    struct block_key *keys; /* [key_count] from pages_keys */
    uint32_t key_count;
    /* [near_count] estimated leading blocks of each rank at that time, in its pages and its
     * storage's memory together */
    uint32_t *near;
    uint32_t near_count; /* number of ranks; 0: no storage has blocks in memory */
};

struct waiting_request {
    struct record_submit *submit; /* in arena, complete */
    struct prompt_blocks blocks;  /* keys and near in arena */
    int64_t turn;
    int64_t arrived_ns;
    uint32_t reason; /* enum prefill_reason of its last wait */
    struct arena arena;
};

struct waiting_line {
    struct waiting_request *requests; /* [capacity] slots */
    /* [capacity] the first `count` are slots in the order of the line, then the free ones */
    uint32_t *order;
    uint32_t count, capacity;
    struct pool pool;
};

/* Arena bytes that waiting_line_open needs. */
size_t waiting_line_bytes(const struct unit_options *options, uint32_t ranks);

/* Opens a line for as many requests as `ranks` ranks can hold. */
enum status waiting_line_open(struct waiting_line *line, struct arena *arena,
                              const struct unit_options *options, uint32_t ranks) MUST_USE;

/* Adds the request after those of the same priority; copies `submit` and `blocks`. Returns false if
 * no slot or no memory is left. */
bool waiting_line_add(struct waiting_line *line, const struct record_submit *submit,
                      const struct prompt_blocks *blocks, int64_t turn, int64_t now_ns);

/* The request at position `place`, from 0; valid until the line changes. */
struct waiting_request *waiting_line_at(const struct waiting_line *line, uint32_t place);

/* The position of a request in the line, below `count`. */
uint32_t waiting_line_find(const struct waiting_line *line, struct request_id id);

void waiting_line_remove(struct waiting_line *line, uint32_t place);
