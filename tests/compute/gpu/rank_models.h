/* SPDX-License-Identifier: Apache-2.0
 * Models of golden checkpoints, alone or as one of a job's ranks on devices, for tests that all
 * ranks of a job run. Include it after test_case.h.
 */
#pragma once

#include <stdio.h>

#include "../../golden/golden.h"
#include "compute/exchange/job.h"
#include "compute/model/model.h"
#include "compute/model/model_state.h"
#include "rank_draws.h"

#define LITE "v2lite-softmax-greedy-yarn"
#define MTP "v3-bf16-negbias-dense0-mtp"
#define ODD "v3-fp8-odd-noq-g1-noyarn"
#define GROUPS "v3-fp8-yarn-g8-mtp-sharded"

/* What a test's models have in common. */
struct way {
    const char *golden;
    enum activations activations;
    enum expert_sum sum;
    uint32_t redundant; /* experts beyond one slot each */
    bool mtp, moves, by_host;
    bool in_order; /* experts' slots are not shuffled */
    uint32_t steps,
        prompt; /* of a test that takes so many, with prompts of so many tokens at most */
};

/* `options` has the sizes, and what else the test chooses. `ranks`: this process is one of so many;
 * 0: it is alone. */
static inline struct model *open_way(const struct way *way, const struct model_device *device,
                                     uint32_t ranks, struct model_options options) {
    static char directory[512];
    struct error error;
    struct model *model;
    snprintf(directory, sizeof directory, "%s/%s", golden_home(), way->golden);
    options.directory = directory;
    options.activations = way->activations;
    options.expert_sum = way->sum;
    options.device = device;
    options.device_seed = shared_state;
    options.level = kernels_detect_fma1(); /* the reference bodies' */
    options.threads = 1;
    options.mtp = way->mtp;
    options.rank = ranks ? job_rank() : 0;
    options.rank_count = ranks;
    options.redundant_experts = way->redundant;
    options.rows_by_host = way->by_host;
    options.move_bytes = ranks && way->moves;
    if (model_open(&options, &model, &error) != STATUS_OK) fail_msg("%s", error.text);
    return model;
}

/* Experts are computed by the ranks that live. */
static inline void leave_out_the_dead(struct model *model) {
    struct placement *map = &model->placement;
    struct error error;
    uint32_t slots = map->ranks * map->slots_per_rank;
    for (uint32_t layer = 0; layer < map->layers; layer++)
        for (uint32_t slot = 0; slot < slots; slot++)
            if (!job_is_alive(slot / map->slots_per_rank))
                map->slot_expert[(size_t)layer * slots + slot] = PLACEMENT_EMPTY;
    if (placement_index(map, &error)) fail_msg("%s", error.text);
}
