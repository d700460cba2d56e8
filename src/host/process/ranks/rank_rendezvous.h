/* SPDX-License-Identifier: Apache-2.0
 * The launcher's side of a meeting (compute/exchange/job_rendezvous.h): a socket to each rank. What a
 * rank says comes in pieces, and what is said to it may not fit its socket at once; neither holds
 * up the others.
 *
 * A meeting of all ranks keeps the roster, gives it to everybody once all have come, and tells who
 * is gone. A meeting of a part of them passes on what they say.
 *
 * It has no clock, thread or loop: its owner waits for one file and then calls rank_rendezvous_tend.
 */
#ifndef HOST_PROCESS_RANKS_RANK_RENDEZVOUS_H
#define HOST_PROCESS_RANKS_RANK_RENDEZVOUS_H

#include "base/bytes.h"
#include "base/status.h"

struct rank_rendezvous;

struct rank_rendezvous_options {
    uint32_t ranks;  /* of the job */
    uint32_t places; /* sockets at the same time */
    void *context;
    /* A rank's HERE; NULL: the meeting keeps the roster. */
    void (*here)(void *context, struct bytes frame);
};

enum status rank_rendezvous_open(const struct rank_rendezvous_options *options,
                                 struct rank_rendezvous **rendezvous_out,
                                 struct error *error) MUST_USE;
/* Closes all sockets. */
void rank_rendezvous_close(struct rank_rendezvous *rendezvous);

/* A socket to a rank; the meeting's own from now on. RANK_RENDEZVOUS_ANYONE: the rank says which one
 * it is. False: there is no place; the socket is closed. */
#define RANK_RENDEZVOUS_ANYONE UINT32_MAX
bool rank_rendezvous_add(struct rank_rendezvous *rendezvous, int socket, uint32_t rank);

/* Readable while rank_rendezvous_tend has something to do. */
int rank_rendezvous_file(const struct rank_rendezvous *rendezvous);
void rank_rendezvous_tend(struct rank_rendezvous *rendezvous);

/* A whole frame for all ranks that are there. */
void rank_rendezvous_report(struct rank_rendezvous *rendezvous, struct bytes frame);

/* That rank has ended. Does nothing if its socket has shown that before. */
void rank_rendezvous_leave(struct rank_rendezvous *rendezvous, uint32_t rank);

#endif
