/* SPDX-License-Identifier: Apache-2.0
 * Experts that change their slots between two steps, for a test that all ranks of a job run.
 * Include it after test_case.h.
 */
#pragma once

#include "compute/exchange/job.h"
#include "compute/model/model.h"
#include "compute/model/moves.h"

/* Gives the experts of a layer other slots, some of them out of the checkpoint. All ranks draw
 * alike. */
static inline void begin_moves(struct model *model, uint32_t (*draw_shared)(uint32_t below)) {
    static struct expert_move list[256];
    const struct placement *map = model_placement(model);
    uint32_t slots = map->ranks * map->slots_per_rank, order[256], count = 0;
    uint32_t layer = draw_shared(map->layers);
    while (!model_layer_moves(model, layer))
        layer = (layer + 1) % map->layers;
    const uint32_t *now = map->slot_expert + (size_t)layer * slots;
    assert_true(slots <= 256 && moves_room(model) >= map->slots_per_rank);
    for (uint32_t i = 0; i < slots; i++)
        order[i] = i;
    for (uint32_t i = slots; i-- > 1;) {
        uint32_t other = draw_shared(i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        bool reads = draw_shared(4) == 0;
        if (now[order[slot]] == now[slot]) continue;
        list[count++] =
            (struct expert_move){.layer = layer,
                                 .slot = slot,
                                 .expert = now[order[slot]],
                                 .from = reads ? EXPERT_MOVE_FROM_CHECKPOINT : order[slot]};
    }
    if (count) moves_begin(model, list, count, 0);
}

static inline void end_moves(struct model *model) {
    static const uint64_t nothing[LIMIT_LAYERS / 64];
    while (moves_reported(model).pending)
        moves_progress(model);
    struct model_moving reported = moves_reported(model);
    if (reported.failures) fail_msg("%s", reported.error.text);
    job_barrier();
    moves_adopt(model, nothing);
}
