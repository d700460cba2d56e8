/* SPDX-License-Identifier: Apache-2.0
 * The requests that have come to a unit of several ranks and belong to none yet, by priority and
 * then in the order of their arrival. Not by their turns (serving/policy/schedule.h), in which
 * short ones come first: the long ones would be dealt out last, and could no longer be spread
 * evenly. Keeps each SUBMIT as it came, and what every rank is asked for before every step. Bounded
 * in number and in bytes. Who leaves for which rank is serving/unit/rank_units' business.
 */
#ifndef SERVING_UNIT_WAITING_LINE_H
#define SERVING_UNIT_WAITING_LINE_H

#include "serving/unit/unit.h"

/* What is looked for at the ranks; made once, when the prompt comes. */
struct prompt_blocks {
    struct block_key *keys; /* [key_count] unit_keys */
    uint32_t key_count;
    uint32_t *near; /* [near_count] leading blocks that each rank had then, in its pages and its
                     * storage's memory together, as far as is known */
    uint32_t near_count; /* ranks; 0: no storage keeps blocks in memory */
};

struct waiting_request {
    struct record_submit *submit; /* in arena, whole */
    struct prompt_blocks blocks;  /* keys and near in arena */
    int64_t turn;
    int64_t arrived_ns;
    uint32_t reason; /* why it was last left waiting: enum prefill_reason */
    struct arena arena;
};

struct waiting_line {
    struct waiting_request *requests; /* [capacity] slots */
    uint32_t *order; /* [capacity] slots in the line's order, the first `count`; then free ones */
    uint32_t count, capacity;
    struct pool pool;
};

/* Arena bytes that suffice for waiting_line_open. */
size_t waiting_line_bytes(const struct unit_options *options, uint32_t ranks);

/* Opens a line for as many requests as so many ranks can hold. */
enum status waiting_line_open(struct waiting_line *line, struct arena *arena,
                              const struct unit_options *options, uint32_t ranks) MUST_USE;

/* The request stands behind those of the same priority; `submit` and `blocks` are copied. False: no
 * place, or no memory. */
bool waiting_line_add(struct waiting_line *line, const struct record_submit *submit,
                      const struct prompt_blocks *blocks, int64_t turn, int64_t now_ns);

/* The one at a place, 0 the first; until the next call that changes the line. */
struct waiting_request *waiting_line_at(const struct waiting_line *line, uint32_t place);

/* The place of a request that is in the line: < count. */
uint32_t waiting_line_find(const struct waiting_line *line, struct request_id id);

void waiting_line_remove(struct waiting_line *line, uint32_t place);

#endif
