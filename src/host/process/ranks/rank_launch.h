/* SPDX-License-Identifier: Apache-2.0
 * Starts ranks of a job as processes of this machine: ranks [first, first + count) of `total`. Each
 * is held by a pidfd, which tells its end, and by a socket, over which the ranks meet
 * (compute/exchange/job_rendezvous.h). Each dies with the thread that started it.
 *
 * A launch of all ranks lets them meet, and tells the others when one has ended. One that has ended
 * may be started again. For a part of
 * them, on one of several hosts, its owner does both: `here` has what each rank says, and
 * rank_launch_report brings them the roster and who is gone.
 *
 * It has no clock, thread or loop: its owner waits for one file and then calls rank_launch_tend.
 */
#ifndef HOST_PROCESS_RANKS_RANK_LAUNCH_H
#define HOST_PROCESS_RANKS_RANK_LAUNCH_H

#include "base/bytes.h"
#include "base/status.h"

#include <sys/types.h>

struct rank_launch;

struct rank_launch_options {
    const char *const
        *arguments; /* of each rank: argv, [0] being a path; NULL at the end. They live
                                   * as long as the launch */
    uint32_t first, count, total;
    const char *host; /* of a part: what this host is called in the job */
    uint32_t
        sharing; /* ranks that share this host's CPUs, these and those of other jobs; 0: these */
    uint32_t before; /* ranks of other jobs that have this host's first devices */
    bool speaks; /* rank 0 has this process's input, all ranks its output; else there is no input,
                  * and output goes where errors go */
    void *context;
    /* A rank has come to meet the others: its HERE. NULL: this launch has them all. */
    void (*here)(void *context, struct bytes frame);
    /* A rank has ended, with a status of waitpid. Called once for each start, in rank_launch_tend. */
    void (*ended)(void *context, uint32_t rank, int status);
};

/* A rank that cannot become the program says so and ends with 2. */
enum status rank_launch_open(const struct rank_launch_options *options,
                             struct rank_launch **launch_out, struct error *error) MUST_USE;
/* Kills the ranks that are left. Who wants them gone waits for that first. */
void rank_launch_close(struct rank_launch *launch);

/* Readable while rank_launch_tend has something to do. */
int rank_launch_file(const struct rank_launch *launch);
void rank_launch_tend(struct rank_launch *launch);

/* A whole frame for all ranks that have not ended. */
void rank_launch_report(struct rank_launch *launch, struct bytes frame);

/* Restarts a rank that has ended, to rejoin the job; does nothing if it runs. After an error no
 * process is left. */
enum status rank_launch_again(struct rank_launch *launch, uint32_t rank,
                              struct error *error) MUST_USE;

/* To a rank, unless it has ended: a signal can never hit a stranger. */
void rank_launch_signal(struct rank_launch *launch, uint32_t rank, int number);
void rank_launch_signal_all(struct rank_launch *launch, int number);

uint32_t rank_launch_left(const struct rank_launch *launch); /* how many have not ended */
pid_t rank_launch_pid(const struct rank_launch *launch, uint32_t rank);

/* This program's file; when it was replaced since the start, what this process still holds of it:
 * all ranks run the same. False: it cannot be found. */
#define RANK_LAUNCH_PATH_BYTES 4096
bool rank_launch_self(char path[static RANK_LAUNCH_PATH_BYTES]);

#endif
