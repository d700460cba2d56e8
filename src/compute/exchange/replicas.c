/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/replicas.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static uint32_t replicas_slots_of(const struct placement *placement) {
    return placement->ranks * placement->slots_per_rank;
}

enum status replicas_open(struct replicas *replicas, const struct placement *placement,
                          uint32_t rank, struct error *error) {
    size_t experts = placement->experts, ranks = placement->ranks;
    *replicas = (struct replicas){.placement = placement, .rank = rank};
    replicas->own = calloc(experts, sizeof *replicas->own);
    replicas->all = calloc(ranks * experts, sizeof *replicas->all);
    replicas->counts = calloc(experts, sizeof *replicas->counts);
    replicas->next = calloc(experts, sizeof *replicas->next);
    replicas->takes = calloc(replicas_slots_of(placement), sizeof *replicas->takes);
    replicas->slot_expert = calloc(replicas_slots_of(placement), sizeof *replicas->slot_expert);
    replicas->memory = malloc(
        split_tokens_bytes(placement->experts, replicas_slots_of(placement), placement->ranks));
    if (replicas->own && replicas->all && replicas->counts && replicas->next && replicas->takes &&
        replicas->slot_expert && replicas->memory)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the choice of replicas");
}

void replicas_close(struct replicas *replicas) {
    free(replicas->own);
    free(replicas->all);
    free(replicas->counts);
    free(replicas->next);
    free(replicas->takes);
    free(replicas->slot_expert);
    free(replicas->memory);
}

/* Whether the layer has more slots than experts, empty slots not counted. */
static bool has_replicas(const struct placement *placement, uint32_t layer) {
    uint32_t count;
    const uint32_t *last =
        placement_replicas(placement, layer, placement->experts - 1, &count) + count;
    return (size_t)(last - (placement->replica_slots +
                            (size_t)layer * replicas_slots_of(placement))) > placement->experts;
}

static void open_split(struct replicas *replicas, uint32_t layer) {
    const struct placement *placement = replicas->placement;
    uint32_t slots = replicas_slots_of(placement);
    const uint32_t *slot_expert = placement->slot_expert + (size_t)layer * slots;
    for (uint32_t slot = 0; slot < slots; slot++)
        replicas->slot_expert[slot] =
            slot_expert[slot] == PLACEMENT_EMPTY ? SPLIT_TOKENS_EMPTY : (uint16_t)slot_expert[slot];
    split_tokens_open(&replicas->split, placement->experts, slots, placement->ranks,
                      replicas->slot_expert, replicas->memory);
}

bool replicas_begin(struct replicas *replicas, uint32_t layer, const uint32_t *experts,
                    uint32_t pair_count, bool splits) {
    uint32_t count = replicas->placement->experts;
    replicas->splits = splits && has_replicas(replicas->placement, layer);
    if (!replicas->splits) return false;
    memset(replicas->own, 0, count * sizeof *replicas->own);
    for (uint32_t i = 0; i < pair_count; i++) {
        check(experts[i] < count);
        replicas->own[experts[i]]++; /* at most LIMIT_STEP_TOKENS: a token chooses an expert once */
    }
    return true;
}

void replicas_split(struct replicas *replicas, uint32_t layer) {
    uint32_t count = replicas->placement->experts;
    memset(replicas->counts, 0, count * sizeof *replicas->counts);
    for (uint32_t rank = 0; rank < replicas->placement->ranks; rank++) {
        const uint16_t *of = replicas->all + (size_t)rank * count;
        if (rank == replicas->rank)
            memcpy(replicas->next, replicas->counts, count * sizeof *replicas->next);
        for (uint32_t expert = 0; expert < count; expert++)
            replicas->counts[expert] += of[expert];
    }
    open_split(replicas, layer);
    split_tokens(&replicas->split, replicas->counts, replicas->takes);
}

uint32_t replicas_next(struct replicas *replicas, uint32_t layer, uint32_t expert, uint32_t token) {
    uint32_t count;
    check(expert < replicas->placement->experts);
    if (replicas->splits)
        return split_tokens_slot(&replicas->split, replicas->takes, expert,
                                 replicas->next[expert]++);
    const uint32_t *of = placement_replicas(replicas->placement, layer, expert, &count);
    return of[(token + replicas->rank) % count];
}
