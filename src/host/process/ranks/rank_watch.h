/* SPDX-License-Identifier: Apache-2.0
 * Heartbeats among the ranks of a unit. They are used if a unit has no supervisor, and by every
 * unit while it starts, because a supervisor does not watch a unit before it is ready. Each rank
 * sends rank 0 a datagram a few times per second from its own thread, with the contents of its line
 * of the health table (host/process/ranks/rank_health.h). A thread of rank 0 evaluates them by the
 * rules of a supervisor (serving/supervision/supervise.h). If a rank is silent, makes no progress,
 * or all ranks wait for each other, rank 0 logs the rank's name and exits. The job ends with it,
 * and the gateway continues its requests on other units.
 *
 * The timeout is five times that of a supervisor, so that a supervisor, if there is one, acts
 * first. Without a supervisor the unit is not restarted.
 *
 * Datagrams, because a lost one must not delay the next. They contain a token that was sent over
 * the job; those without it are dropped. Rank 0's addresses are all those of its host.
 */
#pragma once

#include "base/heartbeat.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define RANK_WATCH_TOKEN_BYTES 16
#define RANK_WATCH_ADDRESSES 32

/* Addresses of rank 0, as sent to the other ranks. It is sent as it is in memory, because all ranks
 * run the same program. */
struct rank_watch_place {
    uint8_t token[RANK_WATCH_TOKEN_BYTES];
    char boot[40];       /* of rank 0's machine */
    int64_t interval_ns; /* between two signs */
    uint32_t count;
    bool only_start; /* rank 0 listens only until the unit is ready */
    /* [count]; the first is local, for ranks on the same host */
    struct sockaddr_storage addresses[RANK_WATCH_ADDRESSES];
};

/* The heartbeat of a rank. */
struct rank_sign {
    uint8_t token[RANK_WATCH_TOKEN_BYTES];
    uint64_t number; /* counts up from 1 */
    uint64_t tiles, moved;
    int64_t cpu_ns, pid;
    uint32_t rank;
    uint32_t state, place, peer; /* as in struct heartbeat */
    char host[64];               /* terminated */
};

/* True if received bytes are a heartbeat of a rank of this job other than rank 0. */
bool rank_watch_sign_valid(const void *bytes, size_t count,
                           const uint8_t token[RANK_WATCH_TOKEN_BYTES], uint32_t rank_count);

/* For rank 0, before the rendezvous: the process logs a line and exits with `exit_code` if the
 * ranks do not meet in time, and later if a rank stalls. The time follows from `timeout_ns`, the
 * timeout of a rank with a CPU of its own. `only_start`: until this process's heartbeat reports
 * that the unit has started. */
enum status rank_watch_await(int64_t timeout_ns, int exit_code, bool only_start,
                             struct error *error) MUST_USE;

/* For rank 0, after the rendezvous: watches the ranks from now on. */
enum status rank_watch_begin(uint32_t rank_count, struct rank_watch_place *place_out,
                             struct error *error) MUST_USE;

/* For rank 0: stops watching a rank that has died. Does nothing if no rank is watched. */
void rank_watch_remove(uint32_t rank);

/* For the other ranks: sends heartbeats from now on. */
enum status rank_watch_follow(const struct rank_watch_place *place, uint32_t rank,
                              struct error *error) MUST_USE;
