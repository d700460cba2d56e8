/* SPDX-License-Identifier: Apache-2.0
 * Rendezvous of a job's ranks: the messages between a rank and its launcher, over a stream socket.
 * The rank finds its file descriptor in the environment. The messages connect the ranks at the
 * start, and again whenever a rank has died or come back.
 *
 *   rank to launcher   JOIN     the rank's host and UCX worker address, for an epoch
 *   launcher to rank   MEMBERS  the addresses of all ranks, once all that are alive have joined
 *                      GONE     a rank has ended: a new epoch begins
 *                      BACK     a rank has come back: a new epoch begins
 *
 * base/rank_epochs.h has the epochs. Every rank receives them in the same order. On a new epoch a
 * rank drops its work, opens a new UCX worker and sends JOIN; a JOIN of an earlier epoch is
 * ignored. So no message of one epoch arrives in another. A rank that comes back sends JOIN as at
 * the start.
 *
 * One launcher keeps the members of the job. If it has only a part of the ranks, the other
 * launchers forward JOIN to it, and its messages back. All hosts have the same byte order and
 * layout, so frames are plain structs; each frame is checked all the same. If the socket closes the
 * launcher is dead, and the rank ends.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

/* A rank's environment variables: its rank, the number of ranks, how many ranks of all jobs share
 * this host's CPUs, this rank's number among them, and the socket. HOST is set if the job has
 * several hosts. */
#define JOB_RENDEZVOUS_RANK "FATHOM_RANK"
#define JOB_RENDEZVOUS_RANKS "FATHOM_RANKS"
#define JOB_RENDEZVOUS_RANKS_HERE "FATHOM_RANKS_HERE"
#define JOB_RENDEZVOUS_PLACE "FATHOM_PLACE"
#define JOB_RENDEZVOUS_HOST "FATHOM_HOST"
#define JOB_RENDEZVOUS_FILE "FATHOM_MEETING"
/* 1: the rank comes back to a running job; else 0. */
#define JOB_RENDEZVOUS_RETURNS "FATHOM_RETURNS"

#define JOB_RENDEZVOUS_MAGIC 0x4a4d4146u /* "FAMJ" */
#define JOB_ADDRESS_BYTES_MAX ((size_t)8 << 10)
#define JOB_HOST_BYTES 64

enum job_frame_kind { JOB_FRAME_JOIN = 1, JOB_FRAME_MEMBERS, JOB_FRAME_GONE, JOB_FRAME_BACK };

struct job_frame {
    uint32_t magic, kind;
    uint32_t rank;  /* JOIN, GONE, BACK: the rank; MEMBERS: the number of ranks */
    uint32_t bytes; /* that follow. JOIN: one job_address; MEMBERS: one for each rank; else none */
    uint32_t epoch;
    uint32_t reserved; /* 0 */
};

/* A rank's address. The UCX worker address follows, padded with zeros to a multiple of 8. */
struct job_address {
    char host
        [JOB_HOST_BYTES]; /* terminated; ranks of one host share memory; "": the job has one host */
    uint32_t bytes;       /* of the worker address; 0 in MEMBERS: the rank is gone */
    uint32_t reserved;    /* 0 */
};

#define JOB_PLACE_BYTES_MAX (sizeof(struct job_address) + JOB_ADDRESS_BYTES_MAX)
#define JOB_JOIN_BYTES_MAX (sizeof(struct job_frame) + JOB_PLACE_BYTES_MAX)

/* The size of the frame at the begin of `got`; 0: more bytes are needed to know it. False: not a
 * frame of a job of `ranks` ranks. */
bool job_rendezvous_frame_measure(struct bytes got, uint32_t ranks, size_t *bytes_out);

struct job_frame job_rendezvous_frame_head(enum job_frame_kind kind, uint32_t rank, uint32_t epoch,
                                           size_t bytes);

/* Writes a JOIN to `frame`. Returns its bytes. */
size_t job_rendezvous_frame_join(char frame[static JOB_JOIN_BYTES_MAX], uint32_t rank,
                                 uint32_t epoch, const char *host, struct bytes address);

/* Iterates over the addresses of a complete JOIN or MEMBERS; `at` is 0 at first. An empty address:
 * the rank is gone. False: no more addresses, or a malformed frame. */
bool job_rendezvous_frame_address(struct bytes frame, size_t *at, const char **host_out,
                                  struct bytes *address_out);

/* The members of a job, as its launcher keeps them. */
struct job_members;

enum status job_rendezvous_members_open(uint32_t ranks, struct job_members **members_out,
                                        struct error *error) MUST_USE;
void job_rendezvous_members_close(struct job_members *members);
/* Adds a complete JOIN. False: it is malformed, or base/rank_epochs.h refuses it. */
bool job_rendezvous_members_add(struct job_members *members, struct bytes here);
/* Marks a rank as ended. Does nothing if it is marked already. */
void job_rendezvous_members_leave(struct job_members *members, uint32_t rank);
/* The next frame to send to all ranks, valid until the next call. Call it after each function above
 * until it returns no bytes. If a rank ends before all ranks have joined once, there is no
 * MEMBERS. */
struct bytes job_rendezvous_members_next(struct job_members *members);

/* The current epoch; whether a rank is alive in it; and whether all ranks have joined once. */
uint32_t job_rendezvous_members_epoch(const struct job_members *members);
bool job_rendezvous_members_is_alive(const struct job_members *members, uint32_t rank);
bool job_rendezvous_members_has_met(const struct job_members *members);
