/* SPDX-License-Identifier: Apache-2.0
 * Chooses the replica of an expert that computes a token's pair. Either replicas take turns, which
 * each rank decides alone. Or the batch is balanced: every rank learns how many tokens of each rank
 * chose each expert, and all compute the same split (split_tokens.h). For this the exchange sends
 * the counts to all ranks before the dispatch. All ranks wait for them, so they must run their
 * layers in the same order.
 */
#pragma once

#include "compute/exchange/placement.h"
#include "compute/exchange/split_tokens.h"

#include <stdbool.h>

struct replicas {
    const struct placement *placement;
    uint32_t rank;
    bool splits;      /* in the current layer; else replicas take turns */
    uint16_t *own;    /* [experts] this rank's counts */
    uint16_t *all;    /* [ranks][experts] the counts of all ranks, filled by the exchange */
    uint32_t *counts; /* [experts] sums over the ranks */
    uint32_t *next;  /* [experts] number of the next token, among all ranks' tokens of the expert */
    uint32_t *takes; /* [slots] */
    uint16_t *slot_expert; /* [slots] */
    void *memory;          /* of the split */
    struct split_tokens split;
};

enum status replicas_open(struct replicas *replicas, const struct placement *placement,
                          uint32_t rank, struct error *error);
void replicas_close(struct replicas *replicas);

/* Begins a layer's batch with experts[pair_count]. `splits`, the same on all ranks: balance the
 * batch if the layer has replicas. True, on all ranks: the exchange fills `all` with every rank's
 * `own`, then calls replicas_split. */
bool replicas_begin(struct replicas *replicas, uint32_t layer, const uint32_t *experts,
                    uint32_t pair_count, bool splits);
void replicas_split(struct replicas *replicas, uint32_t layer);

/* The slot of the next pair, in the order of `experts`; `token` is the pair's token. */
uint32_t replicas_next(struct replicas *replicas, uint32_t layer, uint32_t expert, uint32_t token);
