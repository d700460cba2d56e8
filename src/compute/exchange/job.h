/* SPDX-License-Identifier: Apache-2.0
 * This process as one rank of a job: its number, the number of ranks, and messages between ranks.
 * Calls for control messages (step plans, results) wait. The exchange and the moves of experts
 * begin nonblocking sends and receives, and test later whether they are done.
 *
 * A job is N processes of this program, started by a launcher (job_rendezvous.h) and connected by
 * UCX: shared memory within a host, RDMA or TCP between hosts. A build without UCX has no jobs:
 * job_built returns false, and job_begin fails. One thread at a time may call.
 *
 * Ranks may die and come back. When the launcher reports either, the job is broken until
 * job_regroup: no call waits, and nothing is sent or received. Operations in progress then count as
 * done; their memory holds arbitrary bytes and belongs to the caller again. If rank 0 dies, all
 * ranks end.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

bool job_built(void);

/* Whether a launcher started this process as a rank. */
bool job_exists(void);

/* This process's rank, as the launcher assigned it; known before job_begin. 0 outside a job. */
uint32_t job_rank_assigned(void);
/* Whether this process replaces a rank that died in a running job. */
bool job_rejoins(void);

/* Joins the job. Every rank calls it once, before the functions below. A rank that comes back calls
 * it when it is ready for work, because the other ranks wait for it. */
enum status job_begin(struct error *error) MUST_USE;
/* Leaves the job after all ranks have called it. Does nothing if job_begin was never called. */
void job_end(void);

/* Sets a function that reports the reason before job_abort, or a broken connection, ends this
 * process. */
void job_on_abort(void (*callback)(uint32_t rank, const char *what, const char *why));
/* Ends this process with code 1, so that the other ranks do not wait for it for ever: the launcher
 * reports to them that it has died. */
_Noreturn void job_abort(const char *what, const char *why);

/* Outside a job: rank 0 of 1. */
uint32_t job_rank(void);
uint32_t job_count(void);

/* ---- control messages ---- */

/* Sends bytes to a rank. Returns when they may be overwritten. */
void job_send(uint32_t to, const void *data, size_t bytes);

/* Whether a message from rank `from` has arrived, and its size. */
bool job_probe(uint32_t from, size_t *bytes_out);

/* Waits for a message from rank `from`. False: a rank has died. */
bool job_wait_message(uint32_t from, size_t *bytes_out);

/* Waits for the next message from rank `from`, of at most `bytes`, and returns its size. */
size_t job_receive(uint32_t from, void *data, size_t bytes);

/* In a broken job, or for a rank that is gone, job_probe and job_wait_message return false and
 * job_receive returns 0. */

/* Returns when all ranks that are alive have called it. */
void job_barrier(void);

/* ---- nonblocking sends and receives ---- */

/* Messages of one channel, tag and sender arrive in the order in which they were sent. */
enum job_channel {
    JOB_CHANNEL_CONTROL,
    JOB_CHANNEL_BARRIER,
    JOB_CHANNEL_ACTIVATIONS,
    JOB_CHANNEL_MOVES
};

/* A set of sends and receives that are waited for together; zeros: empty. */
struct job_batch {
    uint32_t open; /* in progress */
};

/* The caller must not change the memory until the batch is done. */
void job_send_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag, uint32_t to,
                    const void *data, size_t bytes);
/* The caller must not use the memory until the batch is done. The message has at most `bytes`. */
void job_receive_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag,
                       uint32_t from, void *data, size_t bytes);

/* Makes progress on operations in progress. True if anything happened. */
bool job_progress(void);

/* Sleeps until a message arrives from another rank or the launcher, or an operation can progress,
 * at most ns_max. May return early. */
void job_sleep(int64_t ns_max);

/* Backs off in a polling loop, after a poll that found nothing; `polls` counts them from 0. If
 * ranks outnumber CPUs it yields the CPU, and after some polls sleeps as job_sleep does. */
void job_backoff(uint32_t *polls, int64_t ns_max);

/* Makes progress and returns whether the batch is done. May yield the CPU, as job_wait does. */
bool job_done(const struct job_batch *batch);

/* Returns when the batch is done. If ranks outnumber CPUs it yields the CPU meanwhile. */
void job_wait(const struct job_batch *batch);
/* Makes progress until `over` returns true. */
void job_wait_until(bool (*over)(void *context), void *context);

/* ---- ranks that die, and come back ---- */

/* Whether a rank has died or come back since job_begin or the last job_regroup. job_poll first
 * reads what the launcher has reported. */
bool job_broken(void);
bool job_poll(void);

/* False: the rank is gone. Operations with it are done at once. */
bool job_is_alive(uint32_t rank);

/* The number of ranks of a host, as placement_node_ranks defines it; 0: not known yet. Before
 * job_begin only a rank that comes back knows it: it assumes that all hosts are like its own. If
 * they are not, the other ranks use one node. */
uint32_t job_node_ranks(void);

/* Whether all ranks are on this host. A rank that comes back knows it before job_begin, because the
 * launcher names hosts only if there are several. */
bool job_is_one_host(void);

/* This rank's number among all ranks of this launcher on this host, of all jobs: it selects the
 * rank's GPU. 0 outside a job. */
uint32_t job_local_rank(void);

/* Whether the rank is on this rank's host. */
bool job_is_same_host(uint32_t rank);

/* How often ranks have died or come back, as far as this rank knows. */
uint32_t job_epoch(void);

/* The ranks that are alive, ascending, and this rank's index among them. Returns their number. */
uint32_t job_alive_ranks(const uint32_t **ranks_out, uint32_t *own_out);

/* Repairs a broken job. Each rank that is alive calls it after it has stopped all work with other
 * ranks. It returns when all have called it, and takes into account ranks that die or come back
 * meanwhile. Messages sent before are never received after. If the ranks do not regroup within half
 * a minute this process ends. A rank that comes back takes part by calling job_begin. */
void job_regroup(void);

/* Plain all-to-all: sends `bytes` from every rank to every other; `out` and `in` are
 * [ranks][bytes]. Its time is the lower bound of an exchange of the same size. All ranks call
 * it. */
void job_all_to_all(const char *out, char *in, size_t bytes);

/* Sends `bytes` from every rank to the rank `by` places further in its ring of `ring` consecutive
 * ranks. `ring` divides the number of ranks. All ranks call it. */
void job_ring_shift(const char *out, char *in, size_t bytes, uint32_t by, uint32_t ring);
