/* SPDX-License-Identifier: Apache-2.0
 * Executes an overlap table on all ranks of a unit. overlap_schedule.h determines the order of the
 * stages. Each rank computes its own share at its own speed. It waits for the others only for data
 * from them, before MLP and before COMBINE. The rank with the longest contexts, the rank with the
 * busiest experts of a layer, and the rank that receives most tokens therefore delay the unit by
 * the latest of them, not by the sum of their delays.
 *
 * The rows of a transfer can leave rank s from b_s on, when s has computed them and its link is
 * free, and leaving takes c_s. The rows that rank r receives take d_r on its link. With the latency
 * l:
 *
 *   arrival_r = l + max(max_s(b_s + c_s), max(b, free_r) + d_r)
 *
 * Here b is the mean of all b_s, weighted by rows. Rank r receives rows from all ranks alike, so
 * its link is filled from about b on: the time that it idles before late senders equals the time
 * that early senders keep it busy.
 *
 * The number of pairs of token and expert on a rank is drawn for each micro-batch and layer
 * (expert_world.h). Times are in microseconds.
 */
#pragma once

#include "simulate/hardware/expert_world.h"
#include "simulate/hardware/overlap_schedule.h"

#define UNIT_SCHEDULE_TIMES 64      /* points of the curve of expert times, */
#define UNIT_SCHEDULE_TIMES_MEANS 4 /* up to this multiple of the mean number of pairs */

struct unit_schedule_micro_batch { /* for one size of micro-batch; the same in all layers */
    double attention_0[LIMIT_RANKS], attention_1[LIMIT_RANKS];
    double shared[LIMIT_RANKS], dense[LIMIT_RANKS]; /* including the slowness of the rank */
    double tokens[LIMIT_RANKS];                     /* [ranks] */
    double pairs;                                   /* of a rank, mean */
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
    /* Number of nodes that a token is sent to, as assumed by the rates; 0: nodes do not matter. */
    double whole_copies;
    struct stage_transfers transfers;
    double slowness[LIMIT_RANKS]; /* [ranks] of experts; 1 or more */
    struct unit_schedule_micro_batch micro_batches[SCHEDULE_SIZES];
    double experts_us; /* output: compute time of the experts, summed over ranks */
    double now[LIMIT_RANKS], link_free[LIMIT_RANKS];
    double arrival[OVERLAP_MICRO_BATCHES][LIMIT_RANKS], pairs[OVERLAP_MICRO_BATCHES][LIMIT_RANKS];
};

/* Resets all ranks to time 0. */
void unit_schedule_begin(struct unit_schedule *schedule);
/* The time at which the last rank has finished all stages so far. */
double unit_schedule_end(const struct unit_schedule *schedule);
