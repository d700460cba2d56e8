/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/overlap_walk.h"

#include <string.h>

#include "base/number.h"

#define WALK_SETTLES 4 /* layers with experts until a table with dynamic order has a steady pace, */
#define WALK_PACES 6   /* layers to measure the pace, */
#define WALK_ENDS 2    /* layers to finish after that */
#define WALK_FEW (WALK_SETTLES + WALK_PACES + WALK_ENDS)

struct table_walk {
    const struct walk_work *work;
    double stride; /* layers with experts per walked one; 0: one */
    double now, link_free, waited;
    double settled, settled_waited, paced, paced_waited; /* times at which all lanes had reached
                                                          * that layer */
    double arrival[OVERLAP_LANES];
};

static void send(struct table_walk *walk, uint32_t lane, double us) {
    walk->link_free = max_double(walk->now, walk->link_free) + us;
    walk->arrival[lane] = walk->link_free;
}

static void wait_until(struct table_walk *walk, double time) {
    if (time <= walk->now) return;
    walk->waited += time - walk->now;
    walk->now = time;
}

/* The results of a wave leave when they are computed. */
static void run_experts(struct table_walk *walk, uint32_t lane, const struct walk_layer *experts) {
    uint32_t waves = max_u32(walk->work->waves, 1);
    for (uint32_t wave = 0; wave < waves; wave++) {
        walk->now += experts->mlp / waves;
        send(walk, lane, experts->combine / waves);
    }
}

static void tell(const struct table_walk *walk, enum stage stage, uint32_t lane, uint32_t layer) {
    struct walk_follower *follower = walk->work->follower;
    uint32_t dense = walk->work->dense_layers;
    if (walk->stride > 0 && layer >= dense)
        layer = dense + (uint32_t)((layer - dense) * walk->stride);
    if (follower) follower->run(follower, stage, lane, layer);
}

static void run(struct table_walk *walk, enum stage stage, uint32_t lane, uint32_t layer) {
    const struct walk_work *work = walk->work;
    const struct walk_lane *times = &work->lanes[work->sizes[lane]];
    const struct walk_layer *experts = &work->experts[work->sizes[lane]][layer];
    bool dense = layer < work->dense_layers;
    tell(walk, stage, lane, layer);
    switch (stage) {
    case STAGE_ATTENTION_0:
        walk->now += times->attention_0;
        break;
    case STAGE_ATTENTION_1:
        walk->now += times->attention_1;
        break;
    case STAGE_SHARED:
        if (!dense) walk->now += times->shared;
        break;
    case STAGE_DISPATCH:
        if (!dense) walk->now += times->send;
        if (!dense) send(walk, lane, experts->dispatch);
        break;
    case STAGE_MLP:
        if (!dense) wait_until(walk, walk->arrival[lane]);
        if (dense)
            walk->now += times->dense;
        else
            run_experts(walk, lane, experts);
        break;
    case STAGE_COMBINE:
        if (!dense) wait_until(walk, walk->arrival[lane]);
        if (!dense) walk->now += times->sum;
        break;
    case STAGE_COUNT:
        break;
    }
}

static void walk_rows(struct table_walk *walk, const struct overlap *overlap) {
    const int64_t layers = walk->work->layers;
    for (int64_t at = -1; at < layers; at++)
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            int64_t layer = at + row->ahead;
            if (layer >= 0 && layer < layers)
                run(walk, (enum stage)row->stage, row->lane, (uint32_t)layer);
        }
}

/* True if the lane's next stage waits for a transfer that has not arrived yet. */
static bool still_waits(const struct table_walk *walk, const struct overlap_place *place,
                        uint32_t lane) {
    return (place->stage == STAGE_MLP || place->stage == STAGE_COMBINE) &&
           place->layer >= walk->work->dense_layers && walk->arrival[lane] > walk->now;
}

/* The lane has ended a layer, perhaps as the last lane. */
static void note_pace(struct table_walk *walk, const struct overlap_place *places, uint32_t count) {
    const uint32_t first = walk->work->dense_layers + WALK_SETTLES;
    uint32_t least = UINT32_MAX;
    for (uint32_t lane = 0; lane < count; lane++)
        least = min_u32(least, places[lane].layer);
    if (least == first && walk->settled == 0)
        walk->settled = walk->now, walk->settled_waited = walk->waited;
    if (least == first + WALK_PACES && walk->paced == 0)
        walk->paced = walk->now, walk->paced_waited = walk->waited;
}

static void walk_urgency(struct table_walk *walk, const struct overlap *overlap) {
    struct overlap_place places[OVERLAP_LANES] = {{0}};
    const uint32_t layers = walk->work->layers, count = overlap->lane_count;
    for (;;) {
        double next_arrival = 0;
        bool any_waits = false;
        for (uint32_t lane = 0; lane < count; lane++) {
            places[lane].waits =
                places[lane].layer < layers && still_waits(walk, &places[lane], lane);
            if (!places[lane].waits) continue;
            if (!any_waits || walk->arrival[lane] < next_arrival)
                next_arrival = walk->arrival[lane];
            any_waits = true;
        }
        uint32_t lane = overlap_next(overlap, layers, places);
        if (lane < count) {
            run(walk, places[lane].stage, lane, places[lane].layer);
            overlap_advance(&places[lane]);
            if (places[lane].stage == STAGE_ATTENTION_0) note_pace(walk, places, count);
        } else if (any_waits) {
            wait_until(walk, next_arrival);
        } else {
            return;
        }
    }
}

/* The mean experts of the layers `from` to `to`. */
static struct walk_layer mean_of(const struct walk_layer *layers, uint32_t from, uint32_t to) {
    struct walk_layer mean = {0};
    for (uint32_t i = from; i < to; i++) {
        mean.mlp += layers[i].mlp / (to - from);
        mean.dispatch += layers[i].dispatch / (to - from);
        mean.combine += layers[i].combine / (to - from);
    }
    return mean;
}

static double walk_few(const struct overlap *overlap, const struct walk_work *work,
                       double *waited_out) {
    const uint32_t dense = work->dense_layers, sparse = work->layers - dense;
    const double left = (double)(sparse - WALK_FEW) / WALK_PACES;
    struct walk_work few;
    struct table_walk walk = {.work = &few, .stride = (double)sparse / WALK_FEW};
    few.layers = dense + WALK_FEW;
    few.dense_layers = dense;
    few.waves = work->waves;
    few.follower = work->follower;
    memcpy(few.sizes, work->sizes, sizeof few.sizes);
    memcpy(few.lanes, work->lanes, sizeof few.lanes);
    for (uint32_t size = 0; size < WALK_SIZES; size++)
        for (uint32_t i = 0; i < WALK_FEW; i++)
            few.experts[size][dense + i] =
                mean_of(work->experts[size], dense + i * sparse / WALK_FEW,
                        dense + (i + 1) * sparse / WALK_FEW);
    walk_urgency(&walk, overlap);
    if (work->follower) work->follower->walked = walk.now;
    *waited_out = walk.waited + (walk.paced_waited - walk.settled_waited) * left;
    return walk.now + (walk.paced - walk.settled) * left;
}

double overlap_walk(const struct overlap *overlap, const struct walk_work *work,
                    double *waited_out) {
    struct table_walk walk = {.work = work};
    if (overlap->urgency && overlap->urgency->abreast &&
        work->layers > work->dense_layers + WALK_FEW)
        return walk_few(overlap, work, waited_out);
    if (overlap->urgency)
        walk_urgency(&walk, overlap);
    else
        walk_rows(&walk, overlap);
    if (work->follower) work->follower->walked = walk.now;
    *waited_out = walk.waited;
    return walk.now;
}
