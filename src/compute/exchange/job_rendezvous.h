/* SPDX-License-Identifier: Apache-2.0
 * How the ranks of a job find one another, at the start and whenever one of them has died or come
 * back: what a rank and its launcher send over the stream socket between them. The rank
 * finds the socket's number in its environment.
 *
 *   rank to launcher   HERE    its host and its UCX worker's address, for an epoch
 *   launcher to rank   ROSTER  everyone's of this epoch, once all who live have come
 *                      GONE    that rank has ended: an epoch begins
 *                      BACK    that rank is there again: an epoch begins
 *
 * An epoch is a time in which the same ranks live. Epoch 0 has all of them. All ranks are notified
 * of every epoch, in the same order. A rank then drops its work, opens a new worker, and sends HERE
 * for the epoch; a HERE of a past epoch is ignored. So nothing that was sent in one epoch comes in
 * another, whatever became of it. A rank that comes back says HERE as at the start.
 *
 * The launcher that has all ranks of the job keeps a roster. A launcher of a part of them passes
 * HERE to the one that keeps it, and the other frames back, unchanged. All hosts are of one kind,
 * so numbers travel as they lie in memory; a frame's form is checked all the same. If the socket
 * ends, the launcher is dead, and so is the rank.
 */
#ifndef COMPUTE_EXCHANGE_JOB_RENDEZVOUS_H
#define COMPUTE_EXCHANGE_JOB_RENDEZVOUS_H

#include "base/bytes.h"
#include "base/status.h"

/* A rank's environment: its number, the ranks of the job, how many ranks share this host's CPUs, of
 * all jobs, how many of those stand before this one, and the socket; where the job has several
 * hosts, also what this one is called in it. */
#define JOB_RENDEZVOUS_RANK "FATHOM_RANK"
#define JOB_RENDEZVOUS_RANKS "FATHOM_RANKS"
#define JOB_RENDEZVOUS_RANKS_HERE "FATHOM_RANKS_HERE"
#define JOB_RENDEZVOUS_PLACE "FATHOM_PLACE"
#define JOB_RENDEZVOUS_HOST "FATHOM_HOST"
#define JOB_RENDEZVOUS_FILE "FATHOM_MEETING"
/* 1: the job runs without this rank, which comes back to it; else 0. */
#define JOB_RENDEZVOUS_RETURNS "FATHOM_RETURNS"

#define JOB_RENDEZVOUS_MAGIC 0x4a4d4146u /* "FAMJ" */
#define JOB_ADDRESS_BYTES_MAX ((size_t)8 << 10)
#define JOB_HOST_BYTES 64

enum job_frame_kind { JOB_FRAME_JOIN = 1, JOB_FRAME_MEMBERS, JOB_FRAME_GONE, JOB_FRAME_BACK };

struct job_frame {
    uint32_t magic, kind;
    uint32_t rank;  /* HERE, GONE, BACK: which one; ROSTER: how many there are */
    uint32_t bytes; /* that follow: HERE: a place; ROSTER: all places, ranks ascending; else none */
    uint32_t epoch;
    uint32_t reserved; /* 0 */
};

/* Where a rank is. Its address follows, and zeros up to a multiple of 8. */
struct job_place {
    char host[JOB_HOST_BYTES]; /* terminated; ranks of one host share memory; "": there is one */
    uint32_t bytes;            /* of the address; 0, in a roster: the rank is gone */
    uint32_t reserved;         /* 0 */
};

#define JOB_PLACE_BYTES_MAX (sizeof(struct job_place) + JOB_ADDRESS_BYTES_MAX)
#define JOB_JOIN_BYTES_MAX (sizeof(struct job_frame) + JOB_PLACE_BYTES_MAX)

/* The bytes of the frame that `got` begins with; 0: they are too few to tell. False: it is none, in
 * a job of `ranks`. */
bool job_rendezvous_frame_measure(struct bytes got, uint32_t ranks, size_t *bytes_out);

struct job_frame job_rendezvous_frame_head(enum job_frame_kind kind, uint32_t rank, uint32_t epoch,
                                           size_t bytes);

/* A HERE, written to `frame`; returns its bytes. */
size_t job_rendezvous_frame_join(char frame[static JOB_JOIN_BYTES_MAX], uint32_t rank,
                                 uint32_t epoch, const char *host, struct bytes address);

/* Walks the places of a whole HERE or ROSTER; `at` is 0 at first. An empty address: the rank is
 * gone. False: there is no more, or the form is wrong. */
bool job_rendezvous_frame_place(struct bytes frame, size_t *at, const char **host_out,
                                struct bytes *address_out);

/* Who has come. */
struct job_members;

enum status job_rendezvous_members_open(uint32_t ranks, struct job_members **members_out,
                                        struct error *error) MUST_USE;
void job_rendezvous_members_close(struct job_members *members);
/* Takes a whole HERE. False: its form is wrong, or that rank has come before; or there is no
 * memory. */
bool job_rendezvous_members_add(struct job_members *members, struct bytes here);
/* That rank has ended. Nothing if it has ended before. */
void job_rendezvous_members_leave(struct job_members *members, uint32_t rank);
/* The next frame for all ranks: read after each call above until there is none. It is
 * good until the next call. Where a rank ends before all have ever come together, no ROSTER comes.
 * */
struct bytes job_rendezvous_members_next(struct job_members *members);

/* The epoch at hand; who lives in it; and whether all have ever come together. */
uint32_t job_rendezvous_members_epoch(const struct job_members *members);
bool job_rendezvous_members_lives(const struct job_members *members, uint32_t rank);
bool job_rendezvous_members_has_met(const struct job_members *members);

#endif
