/* SPDX-License-Identifier: Apache-2.0
 * The epochs of a job of ranks, as its launcher keeps them. An epoch is a period in which the set
 * of living ranks does not change; epoch 0 has all ranks. All living ranks join each epoch, and
 * meet in it once all have joined. An epoch ends when a rank is lost, or when a lost rank joins
 * again.
 *
 * compute/exchange/job_rendezvous.h adds the ranks' addresses and the frames between launcher and
 * ranks. The simulation runs the epochs without them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

enum rank_epochs_message { RANK_EPOCHS_NONE, RANK_EPOCHS_MET, RANK_EPOCHS_GONE, RANK_EPOCHS_BACK };

struct rank_epochs {
    uint32_t ranks, epoch;
    uint32_t joined_count, gone_count;
    bool has_met;   /* all ranks have met once */
    bool meets_now; /* MET of this epoch was returned */
    /* the last change of the ranks, not returned yet: GONE, BACK or NONE */
    enum rank_epochs_message change;
    uint32_t changed; /* its rank */
    bool joined[LIMIT_RANKS], gone[LIMIT_RANKS];
};

void rank_epochs_open(struct rank_epochs *epochs, uint32_t ranks);

/* REFUSED: the rank has already joined, is lost before the ranks have met, or names a later epoch.
 * LATE: the rank has joined an earlier epoch, which counts for nothing. RETURNED: a lost rank is
 * there again, which begins an epoch; it must join that epoch like the others. */
enum rank_epochs_join {
    RANK_EPOCHS_REFUSED,
    RANK_EPOCHS_LATE,
    RANK_EPOCHS_RETURNED,
    RANK_EPOCHS_JOINED
};
enum rank_epochs_join rank_epochs_join(struct rank_epochs *epochs, uint32_t rank, uint32_t epoch);

/* Begins an epoch without the rank. Returns false if the rank is lost already. */
bool rank_epochs_leave(struct rank_epochs *epochs, uint32_t rank);

/* Returns what all ranks must be sent next. Call it after each function above until it returns
 * NONE. *rank_out is set with GONE and BACK. If a rank is lost before all have met, they never
 * meet. */
enum rank_epochs_message rank_epochs_next(struct rank_epochs *epochs, uint32_t *rank_out);
