/* SPDX-License-Identifier: Apache-2.0
 * Moves experts' weights between ranks: large pieces of memory, in the background of the exchange
 * of activations. A rank sends one piece and receives one piece at a time. All ranks work through
 * the same list in the same order, so no rank waits for a piece that is never sent.
 *
 * A piece is sent in chunks. The next chunk leaves when the previous one has left and the rate
 * limit allows. Last comes a checksum of what the sender read, which is compared with that of what
 * the receiver has. No call blocks: move_transport_progress advances each direction by at most a
 * chunk.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define MOVE_CHUNK_BYTES ((size_t)64 << 10)

enum move_state {
    MOVE_IN_PROGRESS,
    MOVE_COMPLETE, /* has been received, or sent */
    MOVE_CORRUPT,  /* received, but the checksums differ */
};

struct move_transport;

/* Within a job (job.h), on all ranks. */
enum status move_transport_open(struct move_transport **transport_out,
                                struct error *error) MUST_USE;
/* Forgets the pieces in progress, after the job has cancelled their messages. */
void move_transport_abandon(struct move_transport *transport);
/* No piece is in progress. */
void move_transport_close(struct move_transport *transport);

/* Limits the bytes per second that this rank sends or copies; 0: no limit. */
void move_transport_limit(struct move_transport *transport, uint64_t bytes_per_second);
/* Whether the limit allows this many bytes now; if so they are counted. */
bool move_transport_allows(struct move_transport *transport, size_t bytes);

/* Begin to send or to receive a piece. Until its state is other than MOVE_IN_PROGRESS the caller
 * must not change the memory, or not use it. Both ranks give the same number of bytes, at least 1.
 */
void move_transport_send(struct move_transport *transport, uint32_t to, const char *data,
                         size_t bytes);
void move_transport_receive(struct move_transport *transport, uint32_t from, char *data,
                            size_t bytes);

void move_transport_progress(struct move_transport *transport);

/* States of the last piece sent and of the last one received; MOVE_COMPLETE before the first. */
enum move_state move_transport_sent(const struct move_transport *transport);
enum move_state move_transport_received(const struct move_transport *transport);
/* Checksum of the last complete piece received (move_checksum.h). */
uint64_t move_transport_checksum(const struct move_transport *transport);

/* For tests: flips a bit of the next received piece before its checksum is computed. */
void move_transport_corrupt_next(struct move_transport *transport);
