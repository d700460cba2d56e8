/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/unit_walk.h"

#include <string.h>

#include "base/number.h"

/* A transfer's times: each rank's tokens or pairs are the factors. */
struct walk_transfer {
    double latency, send, take; /* us; us for each of `sent` and of `taken` */
    const double *sent, *taken; /* [ranks] */
};

static void send(struct unit_walk *walk, uint32_t lane, const struct walk_transfer *transfer) {
    double last = 0, weighed = 0, rows = 0;
    for (uint32_t r = 0; r < walk->ranks; r++) {
        double begin = max_double(walk->now[r], walk->link_free[r]);
        last = max_double(last, begin + transfer->sent[r] * transfer->send);
        weighed += begin * transfer->sent[r];
        rows += transfer->sent[r];
    }
    const double mean = rows > 0 ? weighed / rows : 0;
    for (uint32_t r = 0; r < walk->ranks; r++) {
        double taken = max_double(mean, walk->link_free[r]) + transfer->taken[r] * transfer->take;
        walk->arrival[lane][r] = walk->link_free[r] = transfer->latency + max_double(last, taken);
    }
}

static void compute(struct unit_walk *walk, const double *us) {
    for (uint32_t r = 0; r < walk->ranks; r++)
        walk->now[r] += us[r];
}

static void wait_for(struct unit_walk *walk, uint32_t lane) {
    for (uint32_t r = 0; r < walk->ranks; r++)
        walk->now[r] = max_double(walk->now[r], walk->arrival[lane][r]);
}

static double experts_us(const struct unit_walk_lane *lane, double pairs) {
    double at = pairs / lane->pairs * ((double)UNIT_WALK_TIMES / UNIT_WALK_TIMES_MEANS);
    uint32_t i = min_u32((uint32_t)at, UNIT_WALK_TIMES - 1); /* beyond the last: extrapolated */
    return lane->experts[i] + (lane->experts[i + 1] - lane->experts[i]) * (at - i);
}

/* Runs one wave of the experts. */
static void run_experts(struct unit_walk *walk, uint32_t lane, const struct unit_walk_lane *times,
                        uint32_t waves) {
    for (uint32_t r = 0; r < walk->ranks; r++) {
        double us = experts_us(times, walk->pairs[lane][r]) / waves;
        walk->experts_us += us;
        walk->now[r] += us * walk->slowness[r] + walk->issue / waves;
    }
}

/* If groups of experts are whole on nodes, a token goes to fewer or more nodes than in the
 * rates. */
static double copies_of(const struct unit_walk *walk, uint32_t layer) {
    double copies = walk->world->copies[layer];
    return walk->whole_copies > 0 && copies > 0 ? copies / walk->whole_copies : 1;
}

static void run_sparse(struct unit_walk *walk, enum stage stage, uint32_t lane, uint32_t layer) {
    const struct unit_walk_lane *times = &walk->lanes[walk->work->sizes[lane]];
    const struct stage_transfers *links = &walk->transfers;
    const double copies = copies_of(walk, layer), each = walk->pairs_per_token;
    double *pairs = walk->pairs[lane];
    if (stage == STAGE_SHARED) compute(walk, times->shared);
    if (stage == STAGE_MLP || stage == STAGE_COMBINE) wait_for(walk, lane);
    if (stage == STAGE_DISPATCH) {
        double us = links->dispatch_token_us * copies;
        const struct walk_transfer dispatch = {links->dispatch_us, us, us / each, times->tokens,
                                               pairs};
        expert_world_draw(walk->world, layer, times->pairs, pairs);
        send(walk, lane, &dispatch);
    }
    if (stage == STAGE_MLP) {
        const uint32_t waves = max_u32(walk->work->waves, 1);
        const double us = links->combine_token_us * copies / waves;
        const struct walk_transfer combine = {links->combine_us / waves, us / each, us, pairs,
                                              times->tokens};
        for (uint32_t wave = 0; wave < waves; wave++) {
            run_experts(walk, lane, times, waves);
            send(walk, lane, &combine);
        }
    }
}

static void run(struct walk_follower *follower, enum stage stage, uint32_t lane, uint32_t layer) {
    struct unit_walk *walk = (struct unit_walk *)follower;
    const struct unit_walk_lane *times = &walk->lanes[walk->work->sizes[lane]];
    if (stage == STAGE_ATTENTION_0)
        compute(walk, times->attention_0);
    else if (stage == STAGE_ATTENTION_1)
        compute(walk, times->attention_1);
    else if (layer >= walk->dense_layers)
        run_sparse(walk, stage, lane, layer - walk->dense_layers);
    else if (stage == STAGE_MLP)
        compute(walk, times->dense);
}

void unit_walk_begin(struct unit_walk *walk) {
    walk->follower = (struct walk_follower){.run = run};
    walk->experts_us = 0;
    memset(walk->now, 0, walk->ranks * sizeof *walk->now);
    memset(walk->link_free, 0, walk->ranks * sizeof *walk->link_free);
}

double unit_walk_end(const struct unit_walk *walk) {
    double last = 0;
    for (uint32_t r = 0; r < walk->ranks; r++)
        last = max_double(last, walk->now[r]);
    return last;
}
