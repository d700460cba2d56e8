/* SPDX-License-Identifier: Apache-2.0
 * Starts ranks [first, first + count) of a job with `total` ranks as processes on this host. A
 * pidfd reports the end of each process. A socket to each process serves the rendezvous of the
 * ranks (compute/exchange/job_rendezvous.h). A rank is killed when the thread that started it ends.
 *
 * If the launch has all ranks, it holds the rendezvous itself and notifies the other ranks when one
 * has ended. If it has a part of them, on one of several hosts, its owner does both: `here`
 * receives each rank's JOIN frame, and rank_launch_report sends frames to the ranks.
 *
 * This module has no clock, thread or loop. Its owner polls one file and calls rank_launch_tend.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

#include <sys/types.h>

struct rank_launch;

struct rank_launch_options {
    /* argv of each rank; [0] is a path; NULL at the end. It must outlive the launch. */
    const char *const *arguments;
    uint32_t first, count, total;
    const char *host; /* the host's name in the job; NULL if the launch has all ranks */
    uint32_t sharing; /* ranks of all jobs that share this host's CPUs; 0: `count` */
    uint32_t before;  /* ranks of other jobs that have this host's first devices */
    /* Rank 0 reads this process's input, and all ranks write to its output. If false, there is no
     * input, and output goes to stderr. */
    bool speaks;
    void *context;
    /* Receives the JOIN frame of a rank; NULL if the launch has all ranks. */
    void (*here)(void *context, struct bytes frame);
    /* Reports the end of a rank with its status of waitpid: once for each start, in
     * rank_launch_tend. */
    void (*ended)(void *context, uint32_t rank, int status);
};

/* Starts all ranks. Returns an error if the program cannot be executed. */
enum status rank_launch_open(const struct rank_launch_options *options,
                             struct rank_launch **launch_out, struct error *error) MUST_USE;
/* Kills the remaining ranks, without waiting for their end. */
void rank_launch_close(struct rank_launch *launch);

/* Readable while rank_launch_tend has something to do. */
int rank_launch_file(const struct rank_launch *launch);
void rank_launch_tend(struct rank_launch *launch);

/* Sends a complete frame to all running ranks. */
void rank_launch_report(struct rank_launch *launch, struct bytes frame);

/* Restarts a rank that has ended, so that it rejoins the job. Does nothing if it runs. After an
 * error no process is left. */
enum status rank_launch_again(struct rank_launch *launch, uint32_t rank,
                              struct error *error) MUST_USE;

/* Sends a signal to a rank, unless it has ended: its pid could belong to another process then. */
void rank_launch_signal(struct rank_launch *launch, uint32_t rank, int number);
void rank_launch_signal_all(struct rank_launch *launch, int number);

uint32_t rank_launch_left(const struct rank_launch *launch); /* how many have not ended */
pid_t rank_launch_pid(const struct rank_launch *launch, uint32_t rank);

/* The path of this program's file, so that all ranks run the same program. If the file was replaced
 * since the start, the path in /proc that still refers to it. Returns false if there is none. */
#define RANK_LAUNCH_PATH_BYTES 4096
bool rank_launch_self(char path[static RANK_LAUNCH_PATH_BYTES]);
