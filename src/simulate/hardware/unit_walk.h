/* SPDX-License-Identifier: Apache-2.0
 * All ranks of a unit walk an overlap table together (overlap_walk.h tells the order of the stages).
 * Each computes its own share in its own time, and waits for the others only where data has to come
 * from them: before MLP and before COMBINE. So the rank with the longest contexts, the one with a
 * layer's busiest experts and the one to which most tokens go delay the unit together by as much as
 * the latest of them, not by their sum.
 *
 * A transfer's rows leave rank s from b_s on, when it has computed them and its link is free, and
 * take c_s to leave it; what comes to rank r takes d_r of its link. With the latency l:
 *
 *   arrival_r = l + max(max_s(b_s + c_s), max(b, free_r) + d_r)
 *
 * where b is the b_s' mean, weighed by rows. Rows come to r from all ranks alike, so its link is
 * filled from b on, about: ranks that are earlier find it idle as long as later ones find it busy.
 *
 * How many pairs of tokens and experts a rank gets is drawn for each lane and layer (expert_world.h).
 * Times are microseconds.
 */
#ifndef SIMULATE_HARDWARE_UNIT_WALK_H
#define SIMULATE_HARDWARE_UNIT_WALK_H

#include "simulate/hardware/expert_world.h"
#include "simulate/hardware/overlap_walk.h"

#define UNIT_WALK_TIMES 64      /* of a rank's experts, */
#define UNIT_WALK_TIMES_MEANS 4 /* up to so many times the mean's pairs */

struct unit_walk_lane { /* of one size; the same in all layers */
    double attention_0[LIMIT_RANKS], attention_1[LIMIT_RANKS];
    double shared[LIMIT_RANKS], dense[LIMIT_RANKS]; /* [ranks], a rank's slowness counted in */
    double tokens[LIMIT_RANKS];                     /* [ranks] */
    double pairs;                                   /* of a rank, on average */
    double experts[UNIT_WALK_TIMES + 1]; /* of a rank with i / UNIT_WALK_TIMES of the most pairs */
};

struct unit_walk {                 /* set by the owner, but for what follows `out` */
    struct walk_follower follower; /* first: what overlap_walk tells */
    struct expert_world *world;
    const struct walk_work *work; /* sizes, layers */
    uint32_t ranks, dense_layers;
    double pairs_per_token, issue;
    double whole_copies; /* nodes that a token goes to, as the rates have it; 0: to all alike */
    struct stage_transfers transfers;
    double slowness[LIMIT_RANKS]; /* [ranks] of experts; 1 and more */
    struct unit_walk_lane lanes[WALK_SIZES];
    double experts_us; /* out: what experts computed, summed over ranks */
    double now[LIMIT_RANKS], link_free[LIMIT_RANKS];
    double arrival[OVERLAP_LANES][LIMIT_RANKS], pairs[OVERLAP_LANES][LIMIT_RANKS];
};

/* All ranks stand at 0. */
void unit_walk_begin(struct unit_walk *walk);
/* When the last rank is through with what it was told. */
double unit_walk_end(const struct unit_walk *walk);

#endif
