/* SPDX-License-Identifier: Apache-2.0
 * Ranks that somebody's own mpirun or srun starts, on one host or on several: which rank this is,
 * which only their starter's environment tells, and how they meet without a launcher. Rank 0
 * listens at an address that all are given, with a thread that keeps the meeting
 * (host/process/ranks/rank_rendezvous.h); the others connect to it. What each finds in its environment
 * afterwards is as if a launcher had put it there (compute/exchange/job_rendezvous.h).
 *
 * Any process that reaches that address can claim to be a rank, so its network must be private.
 */
#ifndef HOST_PROCESS_RANKS_RANK_MANUAL_H
#define HOST_PROCESS_RANKS_RANK_MANUAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* True if an mpirun started this process as one of several. srun is not seen: what it tells its
 * tasks, it also tells a script that runs alone. */
bool rank_manual_is(void);

/* Ends with this rank in a meeting of `ranks` at `place`, HOST:PORT or tcp://HOST:PORT. Called
 * before there are threads, and before the job begins. */
enum status rank_manual_join(const char *place, uint32_t ranks, struct error *error) MUST_USE;

#endif
