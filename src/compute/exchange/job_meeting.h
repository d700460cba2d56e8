/* SPDX-License-Identifier: Apache-2.0
 * How the ranks of a job find one another: what a rank and its launcher say over the stream socket
 * between them, whose number the rank finds in its environment.
 *
 *   rank to launcher   HERE    its UCX worker's address, once
 *   launcher to rank   ROSTER  everyone's host and address, once all have come
 *                      GONE    that rank has ended
 *
 * The launcher that has all ranks of the job keeps a roster. One that has a part of them passes
 * HERE to whoever keeps it, and ROSTER and GONE back, as they are. All hosts are of one kind, so
 * numbers travel as they lie in memory; a frame's form is checked all the same. If the socket ends,
 * the launcher is dead, and so is the rank.
 */
#ifndef COMPUTE_EXCHANGE_JOB_MEETING_H
#define COMPUTE_EXCHANGE_JOB_MEETING_H

#include "base/bytes.h"
#include "base/status.h"

/* A rank's environment: its number, the ranks of the job, those of its host, and the socket. */
#define JOB_MEETING_RANK "FATHOM_RANK"
#define JOB_MEETING_RANKS "FATHOM_RANKS"
#define JOB_MEETING_RANKS_HERE "FATHOM_RANKS_HERE"
#define JOB_MEETING_FILE "FATHOM_MEETING"

#define JOB_MEETING_MAGIC 0x4a4d4146u /* "FAMJ" */
#define JOB_ADDRESS_BYTES_MAX ((size_t)8 << 10)
#define JOB_HOST_BYTES 64

enum job_frame_kind { JOB_FRAME_HERE = 1, JOB_FRAME_ROSTER, JOB_FRAME_GONE, JOB_FRAME_KINDS };

struct job_frame {
    uint32_t magic, kind;
    uint32_t rank;  /* HERE, GONE: which one; ROSTER: how many there are */
    uint32_t bytes; /* that follow: HERE: the address; ROSTER: the places; GONE: none */
};

/* In a roster, ranks ascending. */
struct job_place {
    char host[JOB_HOST_BYTES]; /* terminated */
    uint32_t bytes;            /* of the address that follows, and zeros up to a multiple of 8 */
    uint32_t reserved;         /* 0 */
};

/* The bytes of the frame that `got` begins with; 0: they are too few to tell. False: it is none, in
 * a job of `ranks`. */
bool job_frame_measure(struct bytes got, uint32_t ranks, size_t *bytes_out);

/* The address in a whole HERE, and whose it is. False: its form is wrong. */
bool job_frame_here(struct bytes frame, uint32_t *rank_out, struct bytes *address_out);

/* A rank's host and address in a whole ROSTER of `ranks`. False: there is none, or the form of what
 * comes before it is wrong. `at` walks: 0 at first. */
bool job_frame_place(struct bytes frame, uint32_t ranks, size_t *at, const char **host_out,
                     struct bytes *address_out);

/* A GONE. */
struct job_frame job_frame_gone(uint32_t rank);

/* Who has come. */
struct job_roster;

enum status job_roster_open(uint32_t ranks, struct job_roster **roster_out,
                            struct error *error) MUST_USE;
void job_roster_close(struct job_roster *roster);
/* False: that rank has come before, or is none of the job; or there is no memory. */
bool job_roster_add(struct job_roster *roster, uint32_t rank, const char *host,
                    struct bytes address);
/* The ROSTER, once all have come; else nothing. It lives as long as the roster. */
struct bytes job_roster_frame(struct job_roster *roster);

#endif
