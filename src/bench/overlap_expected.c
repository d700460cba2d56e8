/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/overlap_expected.h"

#include "base/number.h"
#include "compute/exchange/exchange.h"

#include <math.h>
#include <string.h>

#define US_S 1e6

_Static_assert(SCHEDULE_EXPERT_BATCHES == EXCHANGE_EXPERT_BATCHES,
               "a walk sends results as the exchange does");

static double sum_of(const double *stages) {
    double sum = 0;
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        sum += stages[stage];
    return sum;
}

/* The time of attention, which is the same in all layers. */
static double both(const struct overlap_step_times *times, enum stage stage) {
    return times->stages[0][stage] + times->stages[1][stage];
}

/* Lanes of size 0 have `part` of a step each, those of size 1 twice that. */
static void fill(const struct overlap_step_times *times, uint32_t early_sixteenths, double part,
                 struct schedule_work *work) {
    const double *dense = times->stages[0], *sparse = times->stages[1];
    const double steps = times->steps, sparse_layers = times->layers - times->dense_layers;
    const double us =
        times->compute * times->in_layers / (sum_of(dense) + sum_of(sparse)) * US_S / steps;
    for (uint32_t size = 0; size < SCHEDULE_SIZES; size++) {
        const double each = part * (size + 1), stage = each * us / sparse_layers;
        const double attention = each * us / times->layers;
        const double early = times->core * attention * early_sixteenths / 16;
        const double envelope = each * US_S / steps / sparse_layers;
        const struct schedule_layer experts = {.mlp = sparse[STAGE_MLP] * stage,
                                               .dispatch = times->dispatch * envelope,
                                               .combine =
                                                   (times->comm - times->dispatch) * envelope};
        work->micro_batches[size] = (struct schedule_micro_batch){
            .attention_0 = both(times, STAGE_ATTENTION_0) * attention + early,
            .attention_1 = both(times, STAGE_ATTENTION_1) * attention - early,
            .shared = sparse[STAGE_SHARED] * stage,
            .send = sparse[STAGE_DISPATCH] * stage,
            .sum = sparse[STAGE_COMBINE] * stage,
        };
        if (times->dense_layers)
            work->micro_batches[size].dense =
                (sum_of(dense) - dense[STAGE_ATTENTION_0] - dense[STAGE_ATTENTION_1]) * each * us /
                times->dense_layers;
        for (uint32_t layer = 0; layer < times->layers; layer++)
            work->experts[size][layer] = experts;
    }
    work->layers = times->layers;
    work->dense_layers = times->dense_layers;
    work->expert_batches = SCHEDULE_EXPERT_BATCHES;
}

static struct overlap_expected overlap_expected_expect(const struct overlap_step_times *times,
                                                       double us, double waited_us) {
    return (struct overlap_expected){
        .seconds = times->compute * (1 - times->in_layers) + us * times->steps / US_S,
        .waited = waited_us * times->steps / US_S,
    };
}

struct overlap_expected overlap_expected_of(const struct overlap_step_times *times,
                                            enum overlap_kind kind) {
    static struct schedule_work work;
    const struct overlap *overlap = overlap_of(kind);
    uint32_t whole = 0;
    double waited;
    for (uint32_t micro_batch = 0;
         micro_batch < OVERLAP_MICRO_BATCHES && micro_batch < overlap->micro_batch_count;
         micro_batch++) {
        uint8_t share = overlap->shares ? overlap->shares[micro_batch] : 1;
        work.sizes[micro_batch] = share - 1;
        whole += share;
    }
    fill(times, overlap->early_sixteenths, 1.0 / whole, &work);
    double us = overlap_schedule(overlap, &work, &waited);
    return overlap_expected_expect(times, us, waited);
}

struct overlap_expected_two overlap_expected_of_two(const struct overlap_step_times *times) {
    static struct schedule_work work;
    struct overlap_expected_two best = {.walked = {.seconds = INFINITY}};
    struct overlap_bound bound;
    for (uint32_t early = 0; early <= (times->core > 0 ? 16 : 0); early++) {
        fill(times, early, 0.5, &work);
        overlap_bound_find(&work, &bound);
        struct overlap_expected walked = overlap_expected_expect(times, bound.us, bound.waited);
        if (walked.seconds >= best.walked.seconds) continue;
        best = (struct overlap_expected_two){.walked = walked, .early_sixteenths = early};
        memcpy(best.rows, bound.rows, sizeof best.rows);
    }
    return best;
}
