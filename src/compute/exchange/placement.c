/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/placement.h"

#include "base/random.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

uint32_t placement_slots_per_rank(uint32_t experts, uint32_t ranks, uint32_t redundant) {
    return (uint32_t)(((uint64_t)experts + redundant + ranks - 1) / ranks);
}

/* Whether each run of `each` ranks is on one host and no two runs share a host, as far as hosts are
 * known. */
static bool has_nodes_of(const char *const *hosts, uint32_t ranks, uint32_t each) {
    const char *before = NULL, *host = NULL;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (rank % each == 0) {
            before = host;
            host = NULL;
        }
        if (!hosts[rank]) continue;
        if (before && strcmp(hosts[rank], before) == 0) return false;
        if (host && strcmp(hosts[rank], host) != 0) return false;
        host = hosts[rank];
    }
    return true;
}

uint32_t placement_node_ranks(const char *const *hosts, uint32_t ranks) {
    for (uint32_t each = 1; each < ranks; each++)
        if (ranks % each == 0 && has_nodes_of(hosts, ranks, each)) return each;
    return ranks;
}

enum status placement_open(struct placement *placement, uint32_t layers, uint32_t experts,
                           uint32_t ranks, uint32_t slots_per_rank, struct error *error) {
    size_t slots = (size_t)ranks * slots_per_rank;
    *placement = (struct placement){.layers = layers,
                                    .experts = experts,
                                    .ranks = ranks,
                                    .slots_per_rank = slots_per_rank,
                                    .node_ranks = ranks};
    placement->slot_expert = calloc(layers * slots, sizeof(uint32_t));
    placement->replica_slots = calloc(layers * slots, sizeof(uint32_t));
    placement->replica_first = calloc(layers * ((size_t)experts + 1), sizeof(uint32_t));
    if (placement->slot_expert && placement->replica_slots && placement->replica_first)
        return STATUS_OK;
    placement_close(placement);
    return error_set(error, STATUS_NO_MEMORY, "no memory for the map of %zu expert slots",
                     layers * slots);
}

void placement_close(struct placement *placement) {
    free(placement->slot_expert);
    free(placement->replica_slots);
    free(placement->replica_first);
    *placement = (struct placement){0};
}

static void shuffle(uint32_t *slots, uint32_t count, uint64_t seed, uint32_t layer) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)(random_uniform(seed, layer, i) * i);
        uint32_t kept = slots[i - 1];
        slots[i - 1] = slots[other];
        slots[other] = kept;
    }
}

void placement_spread(struct placement *placement, uint64_t seed) {
    uint32_t slots = placement->ranks * placement->slots_per_rank;
    uint32_t whole = placement->experts % placement->ranks == 0;
    for (uint32_t layer = 0; layer < placement->layers; layer++) {
        uint32_t *expert = placement->slot_expert + (size_t)layer * slots;
        /* Every rank gets one expert before any rank gets two, so that the replicas, which come
         * last, are spread too. If the experts are a multiple of the ranks, each pass over the
         * experts begins at another rank, so that replicas are on different ranks. */
        for (uint32_t slot = 0; slot < slots; slot++) {
            uint32_t rank = slot / placement->slots_per_rank;
            uint32_t first = slot % placement->slots_per_rank * placement->ranks;
            uint32_t turn = whole ? first / placement->experts : 0;
            expert[slot] = (first + (rank + turn) % placement->ranks) % placement->experts;
        }
        if (seed) shuffle(expert, slots, seed, layer);
    }
}

enum status placement_index_layer(struct placement *placement, uint32_t layer,
                                  struct error *error) {
    uint32_t slots = placement->ranks * placement->slots_per_rank, experts = placement->experts;
    const uint32_t *slot_expert = placement->slot_expert + (size_t)layer * slots;
    uint32_t *first = placement->replica_first + (size_t)layer * (experts + 1);
    uint32_t *replicas = placement->replica_slots + (size_t)layer * slots;
    memset(first, 0, (experts + 1) * sizeof *first);
    for (uint32_t slot = 0; slot < slots; slot++) {
        if (slot_expert[slot] == PLACEMENT_EMPTY) continue;
        if (slot_expert[slot] >= experts)
            return error_set(error, STATUS_INVALID,
                             "layer %u, slot %u: expert %u, expected less than %u", layer, slot,
                             slot_expert[slot], experts);
        first[slot_expert[slot] + 1]++;
    }
    for (uint32_t expert = 0; expert < experts; expert++) {
        if (!first[expert + 1])
            return error_set(error, STATUS_INVALID, "layer %u: expert %u has no slot", layer,
                             expert);
        first[expert + 1] += first[expert];
    }
    uint32_t filled = first[experts];
    for (uint32_t slot = slots; slot-- > 0;) /* counting down turns ends into starts */
        if (slot_expert[slot] != PLACEMENT_EMPTY) replicas[--first[slot_expert[slot] + 1]] = slot;
    memmove(first, first + 1, experts * sizeof *first);
    first[experts] = filled;
    return STATUS_OK;
}

enum status placement_index(struct placement *placement, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t layer = 0; !status && layer < placement->layers; layer++)
        status = placement_index_layer(placement, layer, error);
    return status;
}
