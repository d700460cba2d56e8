/* SPDX-License-Identifier: Apache-2.0
 * Ranks that were started by the user's mpirun or srun, on one host or several. The number of a
 * rank is read from the environment that mpirun or srun sets. The ranks meet without a launcher:
 * rank 0 listens at an address that all ranks know, and serves the rendezvous in a thread
 * (host/process/ranks/rank_rendezvous.h). The other ranks connect to it. Afterwards the environment
 * of each rank is the same as after a launch (compute/exchange/job_rendezvous.h).
 *
 * Any process that can connect to the address can claim to be a rank, so the network must be
 * private.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* True if mpirun started this process as one of several. A start by srun is not recognized, because
 * a script that runs alone has the same environment. */
bool rank_manual_is(void);

/* Joins this rank to a rendezvous of `ranks` ranks at `place`, HOST:PORT or tcp://HOST:PORT. Call
 * it before the first thread and before the job begins. */
enum status rank_manual_join(const char *place, uint32_t ranks, struct error *error) MUST_USE;
