/* SPDX-License-Identifier: Apache-2.0
 * Freight: large pieces of memory from one rank to another in the background, while activations go
 * their own way. A rank gives one piece at a time and takes one at a time; whoever lists them gives
 * every rank the same list, in one order, so that nobody waits for a piece that cannot come.
 *
 * A piece goes in chunks, the next one when the one before has left and the rate allows, and its
 * checksum goes behind: the giver's sum over what it read, compared with the taker's over what
 * came. Nothing here blocks: freight_progress moves both ways on by a chunk at most.
 */
#ifndef COMPUTE_EXCHANGE_FREIGHT_H
#define COMPUTE_EXCHANGE_FREIGHT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define FREIGHT_CHUNK_BYTES ((size_t)64 << 10)

enum freight_state {
    FREIGHT_UNDER_WAY,
    FREIGHT_WHOLE,   /* has arrived, or has left */
    FREIGHT_DAMAGED, /* has arrived, but is not what was given */
};

struct freight;

/* Inside a job, on all ranks alike (compute/exchange/ranks.h). */
enum status freight_open(struct freight **freight_out, struct error *error) MUST_USE;
/* Nothing is under way. */
void freight_close(struct freight *freight);

/* What this rank may give, or copy, a second; 0: as fast as it goes. */
void freight_limit(struct freight *freight, uint64_t bytes_per_second);
/* True if so many bytes may go now; they then count. */
bool freight_may(struct freight *freight, size_t bytes);

/* The memory stays as it is, or is the freight's to write, until its state is another than
 * FREIGHT_UNDER_WAY. Both sides name the same number of bytes, at least 1. */
void freight_give(struct freight *freight, uint32_t to, const char *data, size_t bytes);
void freight_take(struct freight *freight, uint32_t from, char *data, size_t bytes);

void freight_progress(struct freight *freight);

/* Of the last piece given, and taken; FREIGHT_WHOLE before the first. */
enum freight_state freight_given(const struct freight *freight);
enum freight_state freight_taken(const struct freight *freight);
/* Of all bytes of the last piece taken, once it is whole. */
uint64_t freight_taken_sum(const struct freight *freight);

/* A bit of the next piece taken is turned on its way: to see that it is noticed. */
void freight_damage_next(struct freight *freight);

/* The checksum: every single changed word of 8 bytes changes it. It is summed up as chunks go, and
 * the engine alone, which has no XXH3 (base/checksum.h), has it too. */
struct freight_sum {
    uint64_t lanes[4];
    uint64_t bytes;
};
void freight_sum_begin(struct freight_sum *sum);
/* All pieces but the last have a multiple of 32 bytes. */
void freight_sum_add(struct freight_sum *sum, const char *data, size_t bytes);
uint64_t freight_sum_end(const struct freight_sum *sum);

#endif
