/* SPDX-License-Identifier: Apache-2.0
 * Heartbeats among the ranks of a unit: of a unit without a supervisor, with ranks started by other
 * means on one host or several; and of any unit while it starts, which a supervisor does not watch
 * until the unit is ready. Every rank sends rank 0 a datagram a few times a second, from a thread
 * of its own, with the contents of its line on a board (host/process/ranks/rank_health.h). Rank 0 judges
 * them in a thread as a supervisor does (serving/supervision/supervise.h). When a rank is silent,
 * computes nothing, or all wait for one another, one line names it, and the process ends. The job
 * ends with it, and the unit's gateway continues its requests on other units.
 *
 * A rank gets five times as long as under a supervisor. A supervisor, if there is one, should act
 * first; without one the unit is not started again.
 *
 * Datagrams, because a lost one must not delay the next. They contain a token that was sent over
 * the job; those without it are dropped. Rank 0's addresses are all those of its host.
 */
#ifndef HOST_PROCESS_RANKS_RANK_WATCH_H
#define HOST_PROCESS_RANKS_RANK_WATCH_H

#include "base/heartbeat.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define RANK_WATCH_TOKEN_BYTES 16
#define RANK_WATCH_ADDRESSES 32

/* Where rank 0 listens, for the other ranks; as it lies in memory: all are one program. */
struct rank_watch_place {
    uint8_t token[RANK_WATCH_TOKEN_BYTES];
    char boot[40];       /* of rank 0's machine */
    int64_t interval_ns; /* between two signs */
    uint32_t count;
    bool only_start; /* rank 0 listens until the unit is ready */
    struct sockaddr_storage addresses[RANK_WATCH_ADDRESSES]; /* [count]; the first is the machine's
                                          * own, for ranks that are there, too */
};

/* A rank's sign of life. */
struct rank_sign {
    uint8_t token[RANK_WATCH_TOKEN_BYTES];
    uint64_t number; /* counts up from 1 */
    uint64_t tiles, moved;
    int64_t cpu_ns, pid;
    uint32_t rank, state, place; /* as in struct pulse */
    uint32_t peer;               /* as there */
    char host[64];               /* terminated */
};

/* Bytes that came from anywhere: true if they are a sign of a rank of this job, other than 0. */
bool rank_watch_sign_valid(const void *bytes, size_t count,
                           const uint8_t token[RANK_WATCH_TOKEN_BYTES], uint32_t rank_count);

/* Rank 0's, before the ranks meet: the process ends with a line and this exit code if they do not
 * within a time that follows from `timeout_ns`, that of a rank with a CPU of its own; and later if
 * one stands still. `only_start`: not after this process's pulse says that it has started. */
enum status rank_watch_await(int64_t timeout_ns, int exit_code, bool only_start,
                             struct error *error) MUST_USE;

/* Rank 0's, when they have met: they are watched from now on. */
enum status rank_watch_begin(uint32_t rank_count, struct rank_watch_place *place_out,
                             struct error *error) MUST_USE;

/* For rank 0: that rank has died, and the others continue. Does nothing if no rank is watched. */
void rank_watch_lose(uint32_t rank);

/* Another rank's: gives signs from now on. */
enum status rank_watch_follow(const struct rank_watch_place *place, uint32_t rank,
                              struct error *error) MUST_USE;

#endif
