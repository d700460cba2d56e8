/* SPDX-License-Identifier: Apache-2.0 */
#include "host/rebalancer.h"

#include "base/check.h"
#include "host/clock.h"
#include "policy/move_experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rebalancer {
    struct rank_group *group;
    struct rebalancer_options options;
    const struct placement *map; /* as it is */
    uint32_t ranks, layer_slots; /* of all ranks in a layer */
    struct placement target;     /* as it is to be; only its slots' experts are used */
    bool moving;                 /* towards the target */
    uint32_t next_layer;         /* to move */
    struct expert_move *moves;   /* [layers][layer_slots] of the wave under way */
    uint32_t move_count;
    uint32_t *gives, *comes;   /* [ranks] experts of the wave */
    struct model_moving *told; /* [ranks] */
    uint64_t steps, shuffles;
    struct rebalancer_counts counts;
};

enum status rebalancer_open(struct rank_group *group, const struct rebalancer_options *options,
                            struct rebalancer **rebalancer_out, struct error *error) {
    struct rebalancer *rebalancer = calloc(1, sizeof *rebalancer);
    const struct placement *map = model_placement(rank_group_model(group));
    if (!rebalancer) return error_set(error, STATUS_NO_MEMORY, "no memory for the rebalancer");
    rebalancer->group = group;
    rebalancer->options = *options;
    rebalancer->map = map;
    *rebalancer_out = rebalancer;
    if (!map->ranks || !model_spare_slots(rank_group_model(group))) return STATUS_OK;
    rebalancer->ranks = map->ranks;
    rebalancer->layer_slots = map->ranks * map->slots_per_rank;
    rebalancer->moves =
        calloc((size_t)map->layers * rebalancer->layer_slots, sizeof *rebalancer->moves);
    rebalancer->gives = calloc(map->ranks, sizeof *rebalancer->gives);
    rebalancer->comes = calloc(map->ranks, sizeof *rebalancer->comes);
    rebalancer->told = calloc(map->ranks, sizeof *rebalancer->told);
    enum status status = placement_open(&rebalancer->target, map->layers, map->experts, map->ranks,
                                        map->slots_per_rank, error);
    if (!rebalancer->moves || !rebalancer->gives || !rebalancer->comes || !rebalancer->told)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the rebalancer");
    if (status == STATUS_OK) return STATUS_OK;
    rebalancer_close(rebalancer);
    return status;
}

void rebalancer_close(struct rebalancer *rebalancer) {
    if (!rebalancer) return;
    placement_close(&rebalancer->target);
    free(rebalancer->moves);
    free(rebalancer->gives);
    free(rebalancer->comes);
    free(rebalancer->told);
    free(rebalancer);
}

struct rebalancer_counts rebalancer_counts(const struct rebalancer *rebalancer) {
    return rebalancer->counts;
}

/* --- a wave --------------------------------------------------------------------------------------
 */

/* A layer's moves behind those of the wave; false, and nothing, if a rank lacks room for them. */
static bool add_layer(struct rebalancer *rebalancer, uint32_t layer) {
    const struct placement *map = rebalancer->map;
    size_t at = (size_t)layer * rebalancer->layer_slots;
    struct move_experts change = {.layer = layer,
                                  .ranks = map->ranks,
                                  .slots_per_rank = map->slots_per_rank,
                                  .from = map->slot_expert + at,
                                  .to = rebalancer->target.slot_expert + at};
    struct expert_move *moves = rebalancer->moves + rebalancer->move_count;
    uint32_t spares = model_spare_slots(rank_group_model(rebalancer->group));
    uint32_t count = move_experts(&change, rebalancer->gives, moves);
    for (uint32_t rank = 0; rank < map->ranks; rank++)
        if (rebalancer->comes[rank] + move_experts_to(moves, count, rank, map->slots_per_rank) >
            spares)
            return false;
    for (uint32_t rank = 0; rank < map->ranks; rank++)
        rebalancer->comes[rank] += move_experts_to(moves, count, rank, map->slots_per_rank);
    rebalancer->move_count += count;
    return true;
}

/* The next layers that fit; none are left: the new map is carried out. */
static void begin_wave(struct rebalancer *rebalancer) {
    const struct model *model = rank_group_model(rebalancer->group);
    rebalancer->move_count = 0;
    memset(rebalancer->gives, 0, rebalancer->ranks * sizeof *rebalancer->gives);
    memset(rebalancer->comes, 0, rebalancer->ranks * sizeof *rebalancer->comes);
    for (; rebalancer->next_layer < rebalancer->map->layers; rebalancer->next_layer++)
        if (model_layer_moves(model, rebalancer->next_layer) &&
            !add_layer(rebalancer, rebalancer->next_layer))
            break;
    if (rebalancer->move_count) {
        rank_group_move(rebalancer->group, rebalancer->moves, rebalancer->move_count,
                        rebalancer->options.bytes_per_second);
        return;
    }
    rebalancer->moving = false;
    rebalancer->counts.rebalances++;
}

static bool is_through(struct rebalancer *rebalancer) {
    rank_group_tell(rebalancer->group, rebalancer->told, NULL);
    for (uint32_t rank = 0; rank < rebalancer->ranks; rank++)
        if (rebalancer->told[rank].pending) return false;
    return true;
}

static void adopt(struct rebalancer *rebalancer) {
    struct rebalancer_counts *counts = &rebalancer->counts;
    uint64_t dropped[LIMIT_LAYERS / 64] = {0};
    counts->moves = counts->bytes = 0;
    for (uint32_t rank = 0; rank < rebalancer->ranks; rank++) {
        const struct model_moving *told = &rebalancer->told[rank];
        counts->moves += told->moves;
        counts->bytes += told->bytes;
        counts->failures += told->failures;
        if (told->failures) fprintf(stderr, "%s\n", told->error.text);
        for (uint32_t i = 0; i < LIMIT_LAYERS / 64; i++)
            dropped[i] |= told->failed[i];
    }
    int64_t began_ns = clock_now_ns();
    rank_group_adopt(rebalancer->group, dropped);
    int64_t stall_ns = clock_now_ns() - began_ns;
    counts->stall_ns += stall_ns;
    if (stall_ns > counts->stall_ns_max) counts->stall_ns_max = stall_ns;
}

/* --- a new map by chance -------------------------------------------------------------------------
 */

static void reshuffle(struct rebalancer *rebalancer) {
    if (!rebalancer->moving) {
        if (rebalancer->steps % rebalancer->options.reshuffle_steps) return;
        placement_spread(&rebalancer->target, ++rebalancer->shuffles);
        rebalancer->next_layer = 0;
        rebalancer->moving = true;
        begin_wave(rebalancer);
        return;
    }
    while (rebalancer->moving) {
        while (!is_through(rebalancer))
            ;
        adopt(rebalancer);
        begin_wave(rebalancer);
    }
}

void rebalancer_turn(struct rebalancer *rebalancer) {
    rebalancer->steps++;
    if (!rebalancer->ranks) return;
    if (rebalancer->options.reshuffle_steps) reshuffle(rebalancer);
}
