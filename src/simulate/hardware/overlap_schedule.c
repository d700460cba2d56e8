/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/overlap_schedule.h"

#include <string.h>

#include "base/number.h"

#define SCHEDULE_SETTLES                                                                           \
    4 /* layers with experts until a table with dynamic order has a steady pace, */
#define SCHEDULE_PACES 6 /* layers to measure the pace, */
#define SCHEDULE_ENDS 2  /* layers to finish after that */
#define SCHEDULE_FEW (SCHEDULE_SETTLES + SCHEDULE_PACES + SCHEDULE_ENDS)

struct table_schedule {
    const struct schedule_work *work;
    double stride; /* layers with experts for each executed one; 0: one */
    double now, link_free, waited;
    /* times at which all micro-batches had reached the respective layer */
    double settled, settled_waited, paced, paced_waited;
    double arrival[OVERLAP_MICRO_BATCHES];
};

static void overlap_schedule_send(struct table_schedule *schedule, uint32_t micro_batch,
                                  double us) {
    schedule->link_free = max_double(schedule->now, schedule->link_free) + us;
    schedule->arrival[micro_batch] = schedule->link_free;
}

static void overlap_schedule_wait_until(struct table_schedule *schedule, double time) {
    if (time <= schedule->now) return;
    schedule->waited += time - schedule->now;
    schedule->now = time;
}

/* Runs the experts. The results of each expert batch are sent as soon as they are computed. */
static void overlap_schedule_run_experts(struct table_schedule *schedule, uint32_t micro_batch,
                                         const struct schedule_layer *experts) {
    uint32_t expert_batches = max_u32(schedule->work->expert_batches, 1);
    for (uint32_t wave = 0; wave < expert_batches; wave++) {
        schedule->now += experts->mlp / expert_batches;
        overlap_schedule_send(schedule, micro_batch, experts->combine / expert_batches);
    }
}

static void overlap_schedule_report(const struct table_schedule *schedule, enum stage stage,
                                    uint32_t micro_batch, uint32_t layer) {
    struct schedule_follower *follower = schedule->work->follower;
    uint32_t dense = schedule->work->dense_layers;
    if (schedule->stride > 0 && layer >= dense)
        layer = dense + (uint32_t)((layer - dense) * schedule->stride);
    if (follower) follower->run(follower, stage, micro_batch, layer);
}

static void run(struct table_schedule *schedule, enum stage stage, uint32_t micro_batch,
                uint32_t layer) {
    const struct schedule_work *work = schedule->work;
    const struct schedule_micro_batch *times = &work->micro_batches[work->sizes[micro_batch]];
    const struct schedule_layer *experts = &work->experts[work->sizes[micro_batch]][layer];
    bool dense = layer < work->dense_layers;
    overlap_schedule_report(schedule, stage, micro_batch, layer);
    switch (stage) {
    case STAGE_ATTENTION_0:
        schedule->now += times->attention_0;
        break;
    case STAGE_ATTENTION_1:
        schedule->now += times->attention_1;
        break;
    case STAGE_SHARED:
        if (!dense) schedule->now += times->shared;
        break;
    case STAGE_DISPATCH:
        if (!dense) schedule->now += times->send;
        if (!dense) overlap_schedule_send(schedule, micro_batch, experts->dispatch);
        break;
    case STAGE_MLP:
        if (!dense) overlap_schedule_wait_until(schedule, schedule->arrival[micro_batch]);
        if (dense)
            schedule->now += times->dense;
        else
            overlap_schedule_run_experts(schedule, micro_batch, experts);
        break;
    case STAGE_COMBINE:
        if (!dense) overlap_schedule_wait_until(schedule, schedule->arrival[micro_batch]);
        if (!dense) schedule->now += times->sum;
        break;
    case STAGE_COUNT:
        break;
    }
}

static void schedule_rows(struct table_schedule *schedule, const struct overlap *overlap) {
    const int64_t layers = schedule->work->layers;
    for (int64_t at = -1; at < layers; at++)
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            int64_t layer = at + row->ahead;
            if (layer >= 0 && layer < layers)
                run(schedule, (enum stage)row->stage, row->micro_batch, (uint32_t)layer);
        }
}

/* True if the next stage of the micro-batch waits for a transfer that has not arrived yet. */
static bool still_waits(const struct table_schedule *schedule, const struct overlap_place *place,
                        uint32_t micro_batch) {
    return (place->stage == STAGE_MLP || place->stage == STAGE_COMBINE) &&
           place->layer >= schedule->work->dense_layers &&
           schedule->arrival[micro_batch] > schedule->now;
}

/* Notes that a micro-batch, possibly the last one, has completed a layer. */
static void note_pace(struct table_schedule *schedule, const struct overlap_place *places,
                      uint32_t count) {
    const uint32_t first = schedule->work->dense_layers + SCHEDULE_SETTLES;
    uint32_t least = UINT32_MAX;
    for (uint32_t micro_batch = 0; micro_batch < count; micro_batch++)
        least = min_u32(least, places[micro_batch].layer);
    if (least == first && schedule->settled == 0)
        schedule->settled = schedule->now, schedule->settled_waited = schedule->waited;
    if (least == first + SCHEDULE_PACES && schedule->paced == 0)
        schedule->paced = schedule->now, schedule->paced_waited = schedule->waited;
}

static void schedule_dynamic_order(struct table_schedule *schedule, const struct overlap *overlap) {
    struct overlap_place places[OVERLAP_MICRO_BATCHES] = {{0}};
    const uint32_t layers = schedule->work->layers, count = overlap->micro_batch_count;
    for (;;) {
        double next_arrival = 0;
        bool any_waits = false;
        for (uint32_t micro_batch = 0; micro_batch < count; micro_batch++) {
            places[micro_batch].waits = places[micro_batch].layer < layers &&
                                        still_waits(schedule, &places[micro_batch], micro_batch);
            if (!places[micro_batch].waits) continue;
            if (!any_waits || schedule->arrival[micro_batch] < next_arrival)
                next_arrival = schedule->arrival[micro_batch];
            any_waits = true;
        }
        uint32_t micro_batch = overlap_next(overlap, layers, STAGE_ATTENTION_1, places);
        if (micro_batch < count) {
            run(schedule, places[micro_batch].stage, micro_batch, places[micro_batch].layer);
            overlap_advance(&places[micro_batch]);
            if (places[micro_batch].stage == STAGE_ATTENTION_0) note_pace(schedule, places, count);
        } else if (any_waits) {
            overlap_schedule_wait_until(schedule, next_arrival);
        } else {
            return;
        }
    }
}

/* The mean times of the experts of the layers from `from` to `to`. */
static struct schedule_layer mean_of(const struct schedule_layer *layers, uint32_t from,
                                     uint32_t to) {
    struct schedule_layer mean = {0};
    for (uint32_t i = from; i < to; i++) {
        mean.mlp += layers[i].mlp / (to - from);
        mean.dispatch += layers[i].dispatch / (to - from);
        mean.combine += layers[i].combine / (to - from);
    }
    return mean;
}

static double schedule_few(const struct overlap *overlap, const struct schedule_work *work,
                           double *waited_out) {
    const uint32_t dense = work->dense_layers, sparse = work->layers - dense;
    const double left = (double)(sparse - SCHEDULE_FEW) / SCHEDULE_PACES;
    struct schedule_work few;
    struct table_schedule schedule = {.work = &few, .stride = (double)sparse / SCHEDULE_FEW};
    few.layers = dense + SCHEDULE_FEW;
    few.dense_layers = dense;
    few.expert_batches = work->expert_batches;
    few.follower = work->follower;
    memcpy(few.sizes, work->sizes, sizeof few.sizes);
    memcpy(few.micro_batches, work->micro_batches, sizeof few.micro_batches);
    for (uint32_t size = 0; size < SCHEDULE_SIZES; size++)
        for (uint32_t i = 0; i < SCHEDULE_FEW; i++)
            few.experts[size][dense + i] =
                mean_of(work->experts[size], dense + i * sparse / SCHEDULE_FEW,
                        dense + (i + 1) * sparse / SCHEDULE_FEW);
    schedule_dynamic_order(&schedule, overlap);
    if (work->follower) work->follower->walked = schedule.now;
    *waited_out = schedule.waited + (schedule.paced_waited - schedule.settled_waited) * left;
    return schedule.now + (schedule.paced - schedule.settled) * left;
}

double overlap_schedule(const struct overlap *overlap, const struct schedule_work *work,
                        double *waited_out) {
    struct table_schedule schedule = {.work = work};
    if (overlap->dynamic_order && overlap->dynamic_order->abreast &&
        work->layers > work->dense_layers + SCHEDULE_FEW)
        return schedule_few(overlap, work, waited_out);
    if (overlap->dynamic_order)
        schedule_dynamic_order(&schedule, overlap);
    else
        schedule_rows(&schedule, overlap);
    if (work->follower) work->follower->walked = schedule.now;
    *waited_out = schedule.waited;
    return schedule.now;
}
