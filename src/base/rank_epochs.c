/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rank_epochs.h"

#include <string.h>

#include "base/check.h"

void rank_epochs_open(struct rank_epochs *epochs, uint32_t ranks) {
    check(ranks > 0 && ranks <= LIMIT_RANKS);
    *epochs = (struct rank_epochs){.ranks = ranks};
}

static void begin(struct rank_epochs *epochs, enum rank_epochs_message change, uint32_t rank) {
    epochs->gone[rank] = change == RANK_EPOCHS_GONE;
    epochs->gone_count += epochs->gone[rank] ? 1 : UINT32_MAX;
    epochs->epoch++;
    epochs->joined_count = 0;
    memset(epochs->joined, 0, sizeof epochs->joined);
    epochs->meets_now = false;
    epochs->change = change;
    epochs->changed = rank;
}

enum rank_epochs_join rank_epochs_join(struct rank_epochs *epochs, uint32_t rank, uint32_t epoch) {
    check(rank < epochs->ranks);
    if (epoch > epochs->epoch) return RANK_EPOCHS_REFUSED;
    if (epochs->gone[rank]) {
        if (!epochs->has_met) return RANK_EPOCHS_REFUSED;
        begin(epochs, RANK_EPOCHS_BACK, rank);
        return RANK_EPOCHS_RETURNED;
    }
    if (epoch < epochs->epoch) return RANK_EPOCHS_LATE;
    if (epochs->joined[rank]) return RANK_EPOCHS_REFUSED;
    epochs->joined[rank] = true;
    epochs->joined_count++;
    return RANK_EPOCHS_JOINED;
}

bool rank_epochs_leave(struct rank_epochs *epochs, uint32_t rank) {
    check(rank < epochs->ranks);
    if (epochs->gone[rank]) return false;
    begin(epochs, RANK_EPOCHS_GONE, rank);
    return true;
}

enum rank_epochs_message rank_epochs_next(struct rank_epochs *epochs, uint32_t *rank_out) {
    enum rank_epochs_message change = epochs->change;
    epochs->change = RANK_EPOCHS_NONE;
    *rank_out = epochs->changed;
    if (change != RANK_EPOCHS_NONE) return change;
    bool is_start = !epochs->has_met && epochs->gone_count;
    if (epochs->meets_now || is_start || epochs->joined_count + epochs->gone_count < epochs->ranks)
        return RANK_EPOCHS_NONE;
    epochs->meets_now = epochs->has_met = true;
    return RANK_EPOCHS_MET;
}
