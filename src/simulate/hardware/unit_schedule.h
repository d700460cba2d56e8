/* SPDX-License-Identifier: Apache-2.0
 * All ranks of a unit execute an overlap table together (overlap_schedule.h determines the order of
 * the stages). Each computes its own share in its own time, and waits for the others only for data
 * from them: before MLP and before COMBINE. The rank with the longest contexts, the one with a
 * layer's busiest experts and the one that gets most tokens therefore delay the unit together by
 * the latest of them, not by their sum.
 *
 * A transfer's rows leave rank s from b_s on, when it has computed them and its link is free, and
 * take c_s to leave it. Rows that rank r receives take d_r of its link. With the latency l:
 *
 *   arrival_r = l + max(max_s(b_s + c_s), max(b, free_r) + d_r)
 *
 * Here b is the mean of the b_s, weighted by rows. Rank r receives rows from all ranks alike, so
 * its link is filled from about b on: earlier ranks find it idle for as long as later ones find it
 * busy.
 *
 * The number of pairs of tokens and experts of a rank is drawn for each micro-batch and layer
 * (expert_world.h). Times are in microseconds.
 */
#pragma once

#include "simulate/hardware/expert_world.h"
#include "simulate/hardware/overlap_schedule.h"

#define UNIT_SCHEDULE_TIMES 64      /* points of a rank's expert times, */
#define UNIT_SCHEDULE_TIMES_MEANS 4 /* up to this multiple of the mean number of pairs */

struct unit_schedule_micro_batch { /* times of one size; the same in all layers */
    double attention_0[LIMIT_RANKS], attention_1[LIMIT_RANKS];
    double shared[LIMIT_RANKS], dense[LIMIT_RANKS]; /* [ranks] including a rank's slowness */
    double tokens[LIMIT_RANKS];                     /* [ranks] */
    double pairs;                                   /* of a rank, on average */
    double experts[UNIT_SCHEDULE_TIMES +
                   /* time of a rank with i / UNIT_SCHEDULE_TIMES of the largest number of pairs */
                   1];
};

struct unit_schedule {                 /* the owner sets all members before `out` */
    struct schedule_follower follower; /* must be first: overlap_schedule calls it */
    struct expert_world *world;
    const struct schedule_work *work; /* sizes, layers */
    uint32_t ranks, dense_layers;
    double pairs_per_token, issue;
    /* nodes that a token is sent to, as in the rates; 0: all nodes are equal */
    double whole_copies;
    struct stage_transfers transfers;
    double slowness[LIMIT_RANKS]; /* [ranks] of experts; 1 or more */
    struct unit_schedule_micro_batch micro_batches[SCHEDULE_SIZES];
    double experts_us; /* out: the experts' compute time, summed over ranks */
    double now[LIMIT_RANKS], link_free[LIMIT_RANKS];
    double arrival[OVERLAP_MICRO_BATCHES][LIMIT_RANKS], pairs[OVERLAP_MICRO_BATCHES][LIMIT_RANKS];
};

/* Resets all ranks to time 0. */
void unit_schedule_begin(struct unit_schedule *schedule);
/* The time at which the last rank has finished all stages so far. */
double unit_schedule_end(const struct unit_schedule *schedule);
