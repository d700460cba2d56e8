/* SPDX-License-Identifier: Apache-2.0
 * Carries experts' weights on a move: large pieces of memory from one rank to another in the
 * background, while activations go their own way. A rank gives one piece at a time and takes one at
 * a time; the caller gives every rank the same list, in one order, so that no rank waits for a
 * piece that cannot come.
 *
 * A piece goes in chunks, the next one when the one before has left and the rate allows, and its
 * checksum goes behind: the giver's sum over what it read, compared with the taker's over what
 * came. Nothing here blocks: move_transport_progress moves both ways on by a chunk at most.
 */
#ifndef COMPUTE_EXCHANGE_MOVE_TRANSPORT_H
#define COMPUTE_EXCHANGE_MOVE_TRANSPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define MOVE_CHUNK_BYTES ((size_t)64 << 10)

enum move_state {
    MOVE_UNDER_WAY,
    MOVE_WHOLE,   /* has arrived, or has left */
    MOVE_DAMAGED, /* has arrived, but is not what was given */
};

struct move_transport;

/* Inside a job, on all ranks alike (compute/exchange/job.h). */
enum status move_transport_open(struct move_transport **transport_out,
                                struct error *error) MUST_USE;
/* Nothing is under way. */
/* Forgets all transfers in progress; the job has cancelled them. */
void move_transport_abandon(struct move_transport *transport);
void move_transport_close(struct move_transport *transport);

/* Limits the bytes per second that this rank sends, or copies; 0: no limit. */
void move_transport_limit(struct move_transport *transport, uint64_t bytes_per_second);
/* True if so many bytes may go now; they then count. */
bool move_transport_may(struct move_transport *transport, size_t bytes);

/* The memory stays as it is, or is the transport's to write, until its state is another than
 * MOVE_UNDER_WAY. Both sides name the same number of bytes, at least 1. */
void move_transport_give(struct move_transport *transport, uint32_t to, const char *data,
                         size_t bytes);
void move_transport_take(struct move_transport *transport, uint32_t from, char *data, size_t bytes);

void move_transport_progress(struct move_transport *transport);

/* States of the last piece given, and of the last one taken; MOVE_WHOLE before the first. */
enum move_state move_transport_given(const struct move_transport *transport);
enum move_state move_transport_taken(const struct move_transport *transport);
/* Checksum of the last piece taken, once it is whole (compute/exchange/move_checksum.h). */
uint64_t move_transport_taken_sum(const struct move_transport *transport);

/* A bit of the next piece taken is turned on its way: to see that it is noticed. */
void move_transport_damage_next(struct move_transport *transport);

#endif
