/* SPDX-License-Identifier: Apache-2.0
 * The launcher's side of the rendezvous of ranks (compute/exchange/job_rendezvous.h): a socket to
 * each rank. Frames of a rank may arrive in pieces, and frames to it may not fit its socket at
 * once. Neither blocks the other ranks.
 *
 * A rendezvous of all ranks keeps the list of members, sends it to all ranks once all have joined,
 * and notifies them of ranks that ended. A rendezvous of a part of the ranks forwards their frames.
 *
 * This module has no clock, thread or loop. Its owner polls one file and calls
 * rank_rendezvous_tend.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

struct rank_rendezvous;

struct rank_rendezvous_options {
    uint32_t ranks;  /* number of ranks in the job */
    uint32_t places; /* limit of open sockets */
    void *context;
    /* Receives the JOIN frame of a rank; NULL: the rendezvous keeps the list of members. */
    void (*here)(void *context, struct bytes frame);
};

enum status rank_rendezvous_open(const struct rank_rendezvous_options *options,
                                 struct rank_rendezvous **rendezvous_out,
                                 struct error *error) MUST_USE;
/* Closes all sockets. */
void rank_rendezvous_close(struct rank_rendezvous *rendezvous);

/* Adds a socket to a rank and owns it. With RANK_RENDEZVOUS_ANYONE the JOIN frame has the number of
 * the rank. Returns false if there is no place; the socket is then closed. */
#define RANK_RENDEZVOUS_ANYONE UINT32_MAX
bool rank_rendezvous_add(struct rank_rendezvous *rendezvous, int socket, uint32_t rank);

/* Readable while rank_rendezvous_tend has something to do. */
int rank_rendezvous_file(const struct rank_rendezvous *rendezvous);
void rank_rendezvous_tend(struct rank_rendezvous *rendezvous);

/* Sends a complete frame to all connected ranks. */
void rank_rendezvous_report(struct rank_rendezvous *rendezvous, struct bytes frame);

/* Reports the end of a rank. Does nothing if its socket has shown it before. */
void rank_rendezvous_leave(struct rank_rendezvous *rendezvous, uint32_t rank);
