/* SPDX-License-Identifier: Apache-2.0
 * This process as one rank of a job: who am I, how many are we, and bytes from one to another for
 * steering (plans out, results back). Activations go through exchange.h.
 *
 * A job is N copies of this program started by mpirun. In a build without MPI there are no jobs:
 * mpi_job_built says so, and mpi_job_begin refuses. Calls come from one thread at a time.
 */
#ifndef COMPUTE_EXCHANGE_MPI_JOB_H
#define COMPUTE_EXCHANGE_MPI_JOB_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

bool mpi_job_built(void);

/* True if mpirun started this process. */
bool mpi_job_exists(void);

/* This process's rank in the job, before it joins; 0 outside of one. */
uint32_t mpi_job_rank_ahead(void);

/* Joins the job: all ranks call it, once, before anything else here. */
enum status mpi_job_begin(struct error *error) MUST_USE;
/* Leaves it; waits for the other ranks to do so too. Nothing if mpi_job_begin was never called. */
void mpi_job_end(void);

/* Outside a job: rank 0 of 1. */
uint32_t mpi_job_rank(void);
uint32_t mpi_job_count(void);

/* Sends bytes to a rank; returns when they may be overwritten. */
void mpi_job_send(uint32_t to, const void *data, size_t bytes);

/* True, with its size, if a message from `from` is there. */
bool mpi_job_ready(uint32_t from, size_t *bytes_out);

/* Takes the next message of `from`, which has at most `bytes`; returns its size. Busy while it
 * waits. */
size_t mpi_job_receive(uint32_t from, void *data, size_t bytes);

/* Returns when all ranks have called it. */
void mpi_job_barrier(void);

/* Sends `bytes` from every rank to every other in one MPI_Alltoallv of contiguous memory,
 * [ranks][bytes] each: the yardstick for what an exchange of as much takes. All ranks call it. */
void mpi_job_swap(const char *out, char *in, size_t bytes);

#ifdef FATHOM_RANKS /* for the MPI files of this room */
#include <mpi.h>

/* Communicators of the expert exchanges, and of experts on a move; they live until mpi_job_end. */
MPI_Comm mpi_job_activations(void);
MPI_Comm mpi_job_moves(void);
#endif

#endif
