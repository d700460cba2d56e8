/* SPDX-License-Identifier: Apache-2.0
 * The queue of requests that are not bound to a rank yet, in a unit with several ranks. It is
 * ordered by priority and then by arrival. It is not ordered by turn (serving/policy/schedule.h),
 * because turns put short requests first: the long ones would be bound last, when they can no
 * longer be balanced. The line stores each SUBMIT as received, and the data that is needed for
 * every rank before every step. It is limited in number and in bytes. serving/unit/rank_units
 * decides which request goes to which rank.
 */
#pragma once

#include "serving/unit/unit.h"

/* The block keys of a prompt, to look up at each rank. They are computed once, when the prompt
 * arrives. */
struct prompt_blocks {
    struct block_key *keys; /* [key_count] from pages_keys */
    uint32_t key_count;
    /* [near_count] for each rank, the estimated number of leading blocks in its pages and in the
     * memory of its KV storage, at that time */
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

/* Opens a line with capacity for as many requests as `ranks` ranks can hold. */
enum status waiting_line_open(struct waiting_line *line, struct arena *arena,
                              const struct unit_options *options, uint32_t ranks) MUST_USE;

/* Adds a request after those of the same priority, and copies `submit` and `blocks`. Returns false
 * if no slot or no memory is left. */
bool waiting_line_add(struct waiting_line *line, const struct record_submit *submit,
                      const struct prompt_blocks *blocks, int64_t turn, int64_t now_ns);

/* The request at position `place`, from 0; valid until the line changes. */
struct waiting_request *waiting_line_at(const struct waiting_line *line, uint32_t place);

/* The position of a request in the line, below `count`. */
uint32_t waiting_line_find(const struct waiting_line *line, struct request_id id);

void waiting_line_remove(struct waiting_line *line, uint32_t place);
