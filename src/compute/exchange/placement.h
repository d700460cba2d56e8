/* SPDX-License-Identifier: Apache-2.0
 * Expert placement: for each layer, which logical expert is in which slot. Slots are numbered
 * across all ranks; slots [rank * slots_per_rank, (rank + 1) * slots_per_rank) belong to a rank. An
 * expert has at least one slot, and several if it has replicas; a slot may be empty.
 *
 * Owns the map in both directions, and decides nothing. The caller chooses the experts of the
 * slots: placement_spread is the simplest plan, a solver computes others. No plan changes a result.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct placement {
    uint32_t layers, experts, ranks, slots_per_rank;
    uint32_t node_ranks;     /* consecutive ranks of a node; equal to `ranks`: one node */
    uint32_t *slot_expert;   /* [layers][ranks * slots_per_rank] */
    uint32_t *replica_first; /* [layers][experts + 1] into the layer's replica_slots */
    uint32_t *replica_slots; /* [layers][ranks * slots_per_rank]: by expert, then by slot */
};

/* The smallest number of slots per rank, the same on all ranks, with room for all experts and
 * `redundant` replicas. */
uint32_t placement_slots_per_rank(uint32_t experts, uint32_t ranks, uint32_t redundant);

/* The number of ranks per node. hosts[ranks] names the host of each rank; NULL: unknown. Each host
 * must have the same number of consecutive ranks; otherwise returns `ranks`, as for one node. */
uint32_t placement_node_ranks(const char *const *hosts, uint32_t ranks);

/* Allocates a map with one node. The caller sets slot_expert, then calls placement_index. */
enum status placement_open(struct placement *placement, uint32_t layers, uint32_t experts,
                           uint32_t ranks, uint32_t slots_per_rank, struct error *error) MUST_USE;
void placement_close(struct placement *placement);

/* Fills all layers round robin: all experts over the ranks, then replicas in the same way. A seed
 * other than 0 shuffles the slots of each layer. */
void placement_spread(struct placement *placement, uint64_t seed);

#define PLACEMENT_EMPTY UINT32_MAX /* a slot without an expert */

/* Builds the reverse map from slot_expert. STATUS_INVALID, with layer and expert, if an expert has
 * no slot or a slot has an expert that does not exist; the map must not be used then. */
enum status placement_index(struct placement *placement, struct error *error) MUST_USE;
/* Does the same for one layer, after its slots changed. */
enum status placement_index_layer(struct placement *placement, uint32_t layer,
                                  struct error *error) MUST_USE;

/* The slots of an expert in a layer, ascending. */
static inline const uint32_t *placement_replicas(const struct placement *placement, uint32_t layer,
                                                 uint32_t expert, uint32_t *count_out) {
    uint32_t slots = placement->ranks * placement->slots_per_rank;
    const uint32_t *first =
        placement->replica_first + (size_t)layer * (placement->experts + 1) + expert;
    *count_out = first[1] - first[0];
    return placement->replica_slots + (size_t)layer * slots + first[0];
}

/* The experts in a rank's slots of a layer. */
static inline const uint32_t *placement_of_rank(const struct placement *placement, uint32_t layer,
                                                uint32_t rank) {
    return placement->slot_expert +
           ((size_t)layer * placement->ranks + rank) * placement->slots_per_rank;
}
