/* SPDX-License-Identifier: Apache-2.0
 * This process as one rank of a job: who am I, how many are we, and bytes from one rank to another.
 * Steering (plans out, results back) has calls that wait; the exchange and the moves of experts
 * begin what they send and receive, and look later whether it is done.
 *
 * A job is N copies of this program, started by a launcher (job_rendezvous.h), over UCX: shared
 * memory among the ranks of a host, RDMA or TCP between hosts. In a build without UCX there are no
 * jobs: job_built says so, and job_begin refuses. Calls come from one thread at a time.
 *
 * Ranks may die, and come back. From the report of either the job is broken: no call waits any
 * more, nothing is sent and nothing received, until job_regroup. What was begun counts as done and
 * its memory, which holds anything, is the caller's again. Without rank 0 no rank goes on.
 */
#ifndef COMPUTE_EXCHANGE_JOB_H
#define COMPUTE_EXCHANGE_JOB_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

bool job_built(void);

/* True if a launcher started this process as a rank. */
bool job_exists(void);

/* This process's rank in the job, before it joins; 0 outside of one. */
uint32_t job_rank_ahead(void);
/* The job runs, and this process is to come back to it as a rank that had died. */
bool job_returns(void);

/* Joins the job: all ranks call it, once, before anything else here. One that comes back calls it
 * when it is ready to take part: the others wait until it is there. */
enum status job_begin(struct error *error) MUST_USE;
/* Leaves it; waits for the other ranks to do so too. Nothing if job_begin was never called. */
void job_end(void);

/* Where nothing can go on this process ends, with code 1; before, it says so with this. Nothing is
 * said without. */
void job_says_end(void (*says)(uint32_t rank, const char *what, const char *why));
/* Ends it so, where the others would wait for ever for this rank: so they hear that it has died. */
_Noreturn void job_give_up(const char *what, const char *why);

/* Outside a job: rank 0 of 1. */
uint32_t job_rank(void);
uint32_t job_count(void);

/* ---- steering ---- */

/* Sends bytes to a rank; returns when they may be overwritten. */
void job_send(uint32_t to, const void *data, size_t bytes);

/* True, with its size, if a message from `from` is there. */
bool job_ready(uint32_t from, size_t *bytes_out);

/* Waits, busy, until one is there; false: a rank has died. */
bool job_await(uint32_t from, size_t *bytes_out);

/* Takes the next message of `from`, which has at most `bytes`; returns its size. Busy while it
 * waits. */
size_t job_receive(uint32_t from, void *data, size_t bytes);

/* A broken job: job_ready finds nothing, job_await says so, and job_receive returns 0. So they do
 * for a rank that is gone. */

/* Returns when all ranks that live have called it. */
void job_barrier(void);

/* ---- what is begun and waited for ---- */

/* Messages of one lane, tag and sender come in the order in which they were sent. */
enum job_channel {
    JOB_CHANNEL_STEERING,
    JOB_CHANNEL_BARRIER,
    JOB_CHANNEL_ACTIVATIONS,
    JOB_CHANNEL_MOVES
};

/* Sends and receives that are waited for together; zeros: none. */
struct job_batch {
    uint32_t open; /* begun and not done */
};

/* The memory stays as it is until the batch is done. */
void job_send_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag, uint32_t to,
                    const void *data, size_t bytes);
/* The memory is the job's to write until the batch is done. What comes has at most `bytes`. */
void job_receive_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag,
                       uint32_t from, void *data, size_t bytes);

/* Moves on what is under way; true if anything happened. */
bool job_progress(void);

/* Sleeps until something comes from another rank or the launcher, or something begun goes on, at
 * most so long. It may return early. */
void job_doze(int64_t ns_max);

/* For each look that found nothing, while one waits; `looks` counts them, from 0. Where ranks
 * outnumber CPUs, others run, and after some looks this rank sleeps as in job_doze. */
void job_rest(uint32_t *looks, int64_t ns_max);

/* job_progress, and whether all of the batch is done. As job_wait, it lets others run. */
bool job_done(const struct job_batch *batch);

/* Returns when all of the batch is done. Where ranks outnumber CPUs, others run meanwhile. */
void job_wait(const struct job_batch *batch);
/* Returns when `over` says so, which is asked after each look. */
void job_wait_until(bool (*over)(void *context), void *context);

/* ---- ranks that die, and come back ---- */

/* Other ranks live than when the job began, or than at job_regroup. job_look asks the launcher
 * first.
 */
bool job_broken(void);
bool job_look(void);

/* False: the rank is gone. What is begun with it is done at once. */
bool job_lives(uint32_t rank);

/* The ranks of a host, as placement_node_ranks has them; 0: not known before job_begin. A rank that
 * comes back takes all hosts to be like its own. Where they are not, the others know of one node.
 * */
uint32_t job_node_ranks(void);

/* All ranks are on this host. Known before job_begin to a rank that comes back: its launcher names
 * hosts only where there are several. */
bool job_is_here(void);

/* How many ranks of this host, of all jobs that the launcher has there, stand before this one:
 * which of the host's devices is its own. 0 outside of a job. */
uint32_t job_place_here(void);

/* The rank is on this rank's host. */
bool job_shares_host(uint32_t rank);

/* How often a rank has died or come back: of the last that this rank has heard of. */
uint32_t job_epoch(void);

/* Those that live, ascending, and where this one stands among them; returns how many. */
uint32_t job_row(const uint32_t **ranks_out, uint32_t *own_out);

/* Each living rank calls it when it has found the job broken and has left all that it did with the
 * others. Afterwards no rank receives earlier messages. It returns when all have called it; ranks
 * that die or come back meanwhile are gone, or there, then, too. If they do not come together in
 * half a minute, this process ends. A rank that comes back takes part in it by job_begin. */
void job_regroup(void);

/* Sends `bytes` from every rank to every other, and nothing else: [ranks][bytes] of contiguous
 * memory each. It is the floor below an exchange of as much. All ranks call it. */
void job_swap(const char *out, char *in, size_t bytes);

/* Sends `bytes` from every rank to the one that stands `by` behind it in its ring of `ring`
 * consecutive ranks, which divides their number, all at once. All ranks call it. */
void job_shift(const char *out, char *in, size_t bytes, uint32_t by, uint32_t ring);

#endif
