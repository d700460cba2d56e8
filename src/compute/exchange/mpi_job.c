/* SPDX-License-Identifier: Apache-2.0
 * A job over Open MPI. Steering has a communicator of its own, so that its messages cannot be taken
 * for activations.
 */
#include "compute/exchange/mpi_job.h"

#include "base/check.h"

#include <limits.h>
#include <stdlib.h>

#define STEERING_TAG 1

static struct {
    bool begun;
    int rank, count;
    MPI_Comm steering, activations, moves;
} job = {.count = 1};

bool mpi_job_built(void) {
    return true;
}

bool mpi_job_exists(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

uint32_t mpi_job_rank_ahead(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? (uint32_t)strtoul(rank, NULL, 10) : 0;
}

enum status mpi_job_begin(struct error *error) {
    int given;
    check(!job.begun);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS ||
        given < MPI_THREAD_SERIALIZED)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this Open MPI does not let a second thread speak; build it with threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.count);
    MPI_Comm_dup(MPI_COMM_WORLD, &job.steering);
    MPI_Comm_dup(MPI_COMM_WORLD, &job.activations);
    MPI_Comm_dup(MPI_COMM_WORLD, &job.moves);
    job.begun = true;
    return STATUS_OK;
}

void mpi_job_end(void) {
    if (!job.begun) return;
    MPI_Comm_free(&job.steering);
    MPI_Comm_free(&job.activations);
    MPI_Comm_free(&job.moves);
    MPI_Finalize();
    job.begun = false;
    job.rank = 0;
    job.count = 1;
}

uint32_t mpi_job_rank(void) {
    return (uint32_t)job.rank;
}
uint32_t mpi_job_count(void) {
    return (uint32_t)job.count;
}

MPI_Comm mpi_job_activations(void) {
    check(job.begun);
    return job.activations;
}

MPI_Comm mpi_job_moves(void) {
    check(job.begun);
    return job.moves;
}

void mpi_job_send(uint32_t to, const void *data, size_t bytes) {
    check(job.begun && bytes <= INT_MAX);
    MPI_Send(data, (int)bytes, MPI_BYTE, (int)to, STEERING_TAG, job.steering);
}

bool mpi_job_ready(uint32_t from, size_t *bytes_out) {
    int there, bytes;
    MPI_Status status;
    check(job.begun);
    MPI_Iprobe((int)from, STEERING_TAG, job.steering, &there, &status);
    if (!there) return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    *bytes_out = (size_t)bytes;
    return true;
}

size_t mpi_job_receive(uint32_t from, void *data, size_t bytes) {
    int taken;
    MPI_Status status;
    check(job.begun);
    MPI_Recv(data, bytes < INT_MAX ? (int)bytes : INT_MAX, MPI_BYTE, (int)from, STEERING_TAG,
             job.steering, &status);
    MPI_Get_count(&status, MPI_BYTE, &taken);
    return (size_t)taken;
}

void mpi_job_barrier(void) {
    check(job.begun);
    MPI_Barrier(job.steering);
}

void mpi_job_swap(const char *out, char *in, size_t bytes) {
    int *counts = calloc(2 * (size_t)job.count, sizeof *counts), *places = counts + job.count;
    check(job.begun && counts && bytes * (size_t)job.count <= INT_MAX);
    for (int rank = 0; rank < job.count; rank++) {
        counts[rank] = rank == job.rank ? 0 : (int)bytes;
        places[rank] = rank * (int)bytes;
    }
    MPI_Alltoallv(out, counts, places, MPI_BYTE, in, counts, places, MPI_BYTE, job.activations);
    free(counts);
}
