/* SPDX-License-Identifier: Apache-2.0
 * Inside of the room: the communicators that mpi_job.c makes for the other MPI files. Only builds
 * with MPI see it used.
 */
#ifndef COMPUTE_EXCHANGE_MPI_JOB_COMMS_H
#define COMPUTE_EXCHANGE_MPI_JOB_COMMS_H

#ifdef FATHOM_RANKS
#include <mpi.h>

/* Of the expert exchanges, and of experts on a move; they live until mpi_job_end. */
MPI_Comm mpi_job_activations(void);
MPI_Comm mpi_job_moves(void);
#endif

#endif
