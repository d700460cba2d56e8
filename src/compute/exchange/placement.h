/* SPDX-License-Identifier: Apache-2.0
 * Which expert lies where: per layer, the slots of all ranks behind each other and the logical
 * expert in each. Slots [rank * slots_per_rank, (rank + 1) * slots_per_rank) belong to a rank. An
 * expert may have several slots (replicas), and always has at least one; a slot may be empty.
 *
 * Owns the map in both directions. It decides nothing: the caller that opens it chooses the slots'
 * experts (placement_spread is the simplest such plan, a solver another), and no plan changes a
 * result.
 */
#ifndef COMPUTE_EXCHANGE_PLACEMENT_H
#define COMPUTE_EXCHANGE_PLACEMENT_H

#include "base/status.h"

#include <stdint.h>

struct placement {
    uint32_t layers, experts, ranks, slots_per_rank;
    uint32_t node_ranks;     /* of a node, one behind the other; those of all ranks: one node */
    uint32_t *slot_expert;   /* [layers][ranks * slots_per_rank] */
    uint32_t *replica_first; /* [layers][experts + 1] into the layer's replica_slots */
    uint32_t *replica_slots; /* [layers][ranks * slots_per_rank]: by expert, then by slot */
};

/* The smallest number of slots that lets every rank have as many, with room for all experts and
 * `redundant` more. */
uint32_t placement_slots_per_rank(uint32_t experts, uint32_t ranks, uint32_t redundant);

/* The ranks of a node if hosts[ranks] names the host of each rank (NULL: unknown) and every host
 * has as many, one behind the other. `ranks`, as if there were one node, where hosts differ in
 * that. */
uint32_t placement_node_ranks(const char *const *hosts, uint32_t ranks);

/* Memory for a map of one node. The caller fills in its slots, then calls placement_index. */
enum status placement_open(struct placement *placement, uint32_t layers, uint32_t experts,
                           uint32_t ranks, uint32_t slots_per_rank, struct error *error) MUST_USE;
void placement_close(struct placement *placement);

/* Fills all layers: experts dealt out to the ranks in turn, then replicas, dealt out in the same
 * way. A seed that is not 0 shuffles each layer's slots. */
void placement_spread(struct placement *placement, uint64_t seed);

#define PLACEMENT_EMPTY UINT32_MAX /* a slot without an expert */

/* Completes the map once slot_expert is filled in. STATUS_INVALID, naming layer and expert, when an
 * expert has no slot, or a slot one that is none; the map is then not to be used. */
enum status placement_index(struct placement *placement, struct error *error) MUST_USE;
/* Completes one layer of the map, after its slots changed. */
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

#endif
