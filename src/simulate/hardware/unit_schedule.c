/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/unit_schedule.h"

#include <string.h>

#include "base/number.h"

/* The times of a transfer. The tokens or pairs of each rank are factors. */
struct schedule_transfer {
    double latency, send, take; /* us; us for each of `sent` and of `taken` */
    const double *sent, *taken; /* [ranks] */
};

static void unit_schedule_send(struct unit_schedule *schedule, uint32_t micro_batch,
                               const struct schedule_transfer *transfer) {
    double last = 0, weighed = 0, rows = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        double begin = max_double(schedule->now[r], schedule->link_free[r]);
        last = max_double(last, begin + transfer->sent[r] * transfer->send);
        weighed += begin * transfer->sent[r];
        rows += transfer->sent[r];
    }
    const double mean = rows > 0 ? weighed / rows : 0;
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        double taken =
            max_double(mean, schedule->link_free[r]) + transfer->taken[r] * transfer->take;
        schedule->arrival[micro_batch][r] = schedule->link_free[r] =
            transfer->latency + max_double(last, taken);
    }
}

static void compute(struct unit_schedule *schedule, const double *us) {
    for (uint32_t r = 0; r < schedule->ranks; r++)
        schedule->now[r] += us[r];
}

static void unit_schedule_wait_for(struct unit_schedule *schedule, uint32_t micro_batch) {
    for (uint32_t r = 0; r < schedule->ranks; r++)
        schedule->now[r] = max_double(schedule->now[r], schedule->arrival[micro_batch][r]);
}

static double experts_us(const struct unit_schedule_micro_batch *micro_batch, double pairs) {
    double at =
        pairs / micro_batch->pairs * ((double)UNIT_SCHEDULE_TIMES / UNIT_SCHEDULE_TIMES_MEANS);
    /* Beyond the last point the curve is extrapolated. */
    uint32_t i = min_u32((uint32_t)at, UNIT_SCHEDULE_TIMES - 1);
    return micro_batch->experts[i] +
           (micro_batch->experts[i + 1] - micro_batch->experts[i]) * (at - i);
}

/* Runs one expert batch on all ranks. */
static void unit_schedule_run_experts(struct unit_schedule *schedule, uint32_t micro_batch,
                                      const struct unit_schedule_micro_batch *times,
                                      uint32_t expert_batches) {
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        double us = experts_us(times, schedule->pairs[micro_batch][r]) / expert_batches;
        schedule->experts_us += us;
        schedule->now[r] += us * schedule->slowness[r] + schedule->issue / expert_batches;
    }
}

/* The number of nodes that a token is sent to, relative to the number that the rates assume, if no
 * group of experts spans nodes. */
static double unit_schedule_copies_of(const struct unit_schedule *schedule, uint32_t layer) {
    double copies = schedule->world->copies[layer];
    return schedule->whole_copies > 0 && copies > 0 ? copies / schedule->whole_copies : 1;
}

static void run_sparse(struct unit_schedule *schedule, enum stage stage, uint32_t micro_batch,
                       uint32_t layer) {
    const struct unit_schedule_micro_batch *times =
        &schedule->micro_batches[schedule->work->sizes[micro_batch]];
    const struct stage_transfers *links = &schedule->transfers;
    const double copies = unit_schedule_copies_of(schedule, layer),
                 each = schedule->pairs_per_token;
    double *pairs = schedule->pairs[micro_batch];
    if (stage == STAGE_SHARED) compute(schedule, times->shared);
    if (stage == STAGE_MLP || stage == STAGE_COMBINE) unit_schedule_wait_for(schedule, micro_batch);
    if (stage == STAGE_DISPATCH) {
        double us = links->dispatch_token_us * copies;
        const struct schedule_transfer dispatch = {links->dispatch_us, us, us / each, times->tokens,
                                                   pairs};
        expert_world_draw(schedule->world, layer, times->pairs, pairs);
        unit_schedule_send(schedule, micro_batch, &dispatch);
    }
    if (stage == STAGE_MLP) {
        const uint32_t expert_batches = max_u32(schedule->work->expert_batches, 1);
        const double us = links->combine_token_us * copies / expert_batches;
        const struct schedule_transfer combine = {links->combine_us / expert_batches, us / each, us,
                                                  pairs, times->tokens};
        for (uint32_t wave = 0; wave < expert_batches; wave++) {
            unit_schedule_run_experts(schedule, micro_batch, times, expert_batches);
            unit_schedule_send(schedule, micro_batch, &combine);
        }
    }
}

static void run(struct schedule_follower *follower, enum stage stage, uint32_t micro_batch,
                uint32_t layer) {
    struct unit_schedule *schedule = (struct unit_schedule *)follower;
    const struct unit_schedule_micro_batch *times =
        &schedule->micro_batches[schedule->work->sizes[micro_batch]];
    if (stage == STAGE_ATTENTION_0)
        compute(schedule, times->attention_0);
    else if (stage == STAGE_ATTENTION_1)
        compute(schedule, times->attention_1);
    else if (layer >= schedule->dense_layers)
        run_sparse(schedule, stage, micro_batch, layer - schedule->dense_layers);
    else if (stage == STAGE_MLP)
        compute(schedule, times->dense);
}

void unit_schedule_begin(struct unit_schedule *schedule) {
    schedule->follower = (struct schedule_follower){.run = run};
    schedule->experts_us = 0;
    memset(schedule->now, 0, schedule->ranks * sizeof *schedule->now);
    memset(schedule->link_free, 0, schedule->ranks * sizeof *schedule->link_free);
}

double unit_schedule_end(const struct unit_schedule *schedule) {
    double last = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        last = max_double(last, schedule->now[r]);
    return last;
}
