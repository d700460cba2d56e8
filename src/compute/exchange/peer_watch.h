/* SPDX-License-Identifier: Apache-2.0
 * Looks after the ranks of this host for which this rank waits. On a busy machine another process
 * takes a rank's CPU in the middle of a stage, for milliseconds, and all other ranks wait. So each
 * rank counts signs of life in memory that the others of its host map (heartbeat_thread): finished
 * shares of its loops, and polls while it waits. A rank that waits for one without signs looks
 * whether it has a CPU, and if not trades places with it: each moves to the other's CPU, so that
 * the other rank continues and this one waits behind the other process. Private to
 * src/compute/exchange.
 */
#pragma once

#include "base/shared_file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A wait for a peer. All zeros at first. */
struct peer_wait {
    uint32_t peer;
    uint64_t signs;  /* of the peer, at its last sign */
    int64_t look_ns; /* when its CPU is looked at next */
    int64_t step_ns; /* until the look after that */
};

/* Notes the signs of a peer. True: it has been silent for so long that a look at its CPU is due;
 * looks at one silence become rarer. */
bool peer_watch_is_due(struct peer_wait *wait, uint32_t peer, uint64_t signs, int64_t now_ns);

/* Opens this process's memory for its signs, in the form that others map. */
enum status peer_watch_open(uint32_t rank_count, struct error *error) MUST_USE;
void peer_watch_close(void);
/* The address for the other ranks; its name is 0 if the system has no shared files. */
struct shared_file peer_watch_address(void);
/* Maps the signs of a rank of this host. */
void peer_watch_map(uint32_t rank, const struct shared_file *address, uint32_t epoch);

/* For a rank that waits for `peer`, some microseconds after the last call: counts its own sign, and
 * trades places with a peer of this host that has lost its CPU. */
void peer_watch_look(uint32_t peer, uint32_t epoch);
