/* SPDX-License-Identifier: Apache-2.0
 * Inside of the room: what the MPI files share. Only builds with MPI see it used.
 */
#ifndef COMPUTE_EXCHANGE_JOB_H
#define COMPUTE_EXCHANGE_JOB_H

#ifdef FATHOM_RANKS
#include <mpi.h>

/* The communicators of the expert exchanges, and of what goes in the background; live until
 * ranks_end. */
MPI_Comm job_activations(void);
MPI_Comm job_freight(void);
#endif

#endif
