/* SPDX-License-Identifier: Apache-2.0
 * Which replica of an expert computes which token's pair. Either replicas take turns, which every
 * rank decides alone; or they are split for the batch at hand: every rank learns how many tokens of
 * each rank chose each expert, and all come to the same min-max flow (split_tokens.h). The carrier
 * brings these counts: a small message to everybody before the dispatch, for which all ranks wait,
 * so they have to run their layers in the same order.
 */
#ifndef COMPUTE_EXCHANGE_REPLICAS_H
#define COMPUTE_EXCHANGE_REPLICAS_H

#include "compute/exchange/placement.h"
#include "compute/exchange/split_tokens.h"

#include <stdbool.h>

struct replicas {
    const struct placement *placement;
    uint32_t rank;
    bool splits;           /* in the layer at hand; else replicas take turns */
    uint16_t *own;         /* [experts] this rank's counts */
    uint16_t *all;         /* [ranks][experts] every rank's, from the carrier */
    uint32_t *counts;      /* [experts] summed over the ranks */
    uint32_t *next;        /* [experts] the next token's number, among all ranks' of the expert */
    uint32_t *takes;       /* [slots] */
    uint16_t *slot_expert; /* [slots] */
    void *memory;          /* of the split */
    struct split_tokens split;
};

enum status replicas_open(struct replicas *replicas, const struct placement *placement,
                          uint32_t rank, struct error *error);
void replicas_close(struct replicas *replicas);

/* A layer's batch begins: experts[pair_count]. `splits`: by flow, where the layer has replicas; all
 * ranks say the same. True: the carrier fills `all` from every rank's `own`, then calls
 * replicas_split; the same on all ranks. */
bool replicas_begin(struct replicas *replicas, uint32_t layer, const uint32_t *experts,
                    uint32_t pair_count, bool splits);
void replicas_split(struct replicas *replicas, uint32_t layer);

/* The slot for the next pair, in the order of `experts`; `token` is the pair's. */
uint32_t replicas_next(struct replicas *replicas, uint32_t layer, uint32_t expert, uint32_t token);

#endif
