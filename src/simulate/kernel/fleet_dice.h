/* SPDX-License-Identifier: Apache-2.0
 * Random numbers of a simulated fleet. Each part of the fleet has its own stream, so its numbers do
 * not depend on how often other parts draw.
 */
#pragma once

#include "base/random.h"

#define FLEET_MS ((int64_t)1000000)
#define FLEET_SECOND (1000 * FLEET_MS)

struct fleet_dice {
    uint64_t seed;
    uint32_t stream, draws;
};

/* A uniform number in [0, 1). */
static inline double fleet_dice_draw(struct fleet_dice *dice) {
    return random_uniform(dice->seed, dice->stream, dice->draws++);
}

static inline uint32_t fleet_dice_below(struct fleet_dice *dice, uint32_t bound) {
    return (uint32_t)(fleet_dice_draw(dice) * bound);
}

/* A random time between the two limits. Times near the first are more likely. */
static inline int64_t fleet_dice_time(struct fleet_dice *dice, int64_t least_ns, int64_t most_ns) {
    double share = fleet_dice_draw(dice);
    return least_ns + (int64_t)(share * share * (double)(most_ns - least_ns));
}
