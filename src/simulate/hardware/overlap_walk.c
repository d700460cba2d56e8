/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/overlap_walk.h"

#include "base/number.h"

struct walk {
    const struct walk_work *work;
    double now, link_free, waited;
    double arrival[OVERLAP_LANES];
};

static void send(struct walk *walk, uint32_t lane, double us) {
    walk->link_free = max_double(walk->now, walk->link_free) + us;
    walk->arrival[lane] = walk->link_free;
}

static void wait_until(struct walk *walk, double time) {
    if (time <= walk->now) return;
    walk->waited += time - walk->now;
    walk->now = time;
}

static void run(struct walk *walk, enum stage stage, uint32_t lane, uint32_t layer) {
    const struct walk_work *work = walk->work;
    const struct walk_lane *times = &work->lanes[work->sizes[lane]];
    const struct walk_layer *experts = &work->experts[work->sizes[lane]][layer];
    bool dense = layer < work->dense_layers;
    switch (stage) {
    case STAGE_ATTENTION_0: walk->now += times->attention_0; break;
    case STAGE_ATTENTION_1: walk->now += times->attention_1; break;
    case STAGE_SHARED:
        if (!dense) walk->now += times->shared;
        break;
    case STAGE_DISPATCH:
        if (!dense) send(walk, lane, experts->dispatch);
        break;
    case STAGE_MLP:
        if (!dense) wait_until(walk, walk->arrival[lane]);
        walk->now += dense ? times->dense : experts->mlp;
        if (!dense) send(walk, lane, experts->combine);
        break;
    case STAGE_COMBINE:
        if (!dense) wait_until(walk, walk->arrival[lane]);
        break;
    case STAGE_COUNT: break;
    }
}

static void walk_rows(struct walk *walk, const struct overlap *overlap) {
    const int64_t layers = walk->work->layers;
    for (int64_t at = -1; at < layers; at++)
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            int64_t layer = at + row->ahead;
            if (layer >= 0 && layer < layers)
                run(walk, (enum stage)row->stage, row->lane, (uint32_t)layer);
        }
}

/* A transfer is waited for by the stages behind it. */
static bool still_waits(const struct walk *walk, const struct overlap_place *place, uint32_t lane) {
    return (place->stage == STAGE_MLP || place->stage == STAGE_COMBINE) &&
           place->layer >= walk->work->dense_layers && walk->arrival[lane] > walk->now;
}

static void walk_urgency(struct walk *walk, const struct overlap *overlap) {
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
        } else if (any_waits) {
            wait_until(walk, next_arrival);
        } else {
            return;
        }
    }
}

double overlap_walk(const struct overlap *overlap, const struct walk_work *work,
                    double *waited_out) {
    struct walk walk = {.work = work};
    if (overlap->urgency)
        walk_urgency(&walk, overlap);
    else
        walk_rows(&walk, overlap);
    *waited_out = walk.waited;
    return walk.now;
}
