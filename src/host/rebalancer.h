/* SPDX-License-Identifier: Apache-2.0
 * Moves experts between the slots of a group of ranks while it steps. Rank 0 calls rebalancer_turn
 * between two steps; most turns do nothing. A new map is carried out in waves of whole layers, as
 * many as fit into the ranks' spare memory: all ranks hear of the moves, steps go on while weights
 * travel, and when every rank has what it needs, all adopt the layers between the same two steps. A
 * layer of which an expert did not arrive as it was given stays as it was.
 */
#ifndef HOST_REBALANCER_H
#define HOST_REBALANCER_H

#include "host/rank_group.h"

struct rebalancer_options {
    uint64_t bytes_per_second; /* that each rank gives at most; 0: any */
    uint64_t reshuffle_steps;  /* not 0: after so many steps, a new map by chance: to see that it
                                * changes nothing. Its moves are over after one more step */
};

/* Since it was opened. */
struct rebalancer_counts {
    uint64_t rebalances, moves, bytes, failures; /* maps carried out; experts that came to a rank */
    int64_t stall_ns, stall_ns_max; /* of steps, while all ranks adopted; once at most */
};

struct rebalancer;

/* The group outlives it. */
enum status rebalancer_open(struct rank_group *group, const struct rebalancer_options *options,
                            struct rebalancer **rebalancer_out, struct error *error) MUST_USE;
void rebalancer_close(struct rebalancer *rebalancer);

/* Between two steps. */
void rebalancer_turn(struct rebalancer *rebalancer);

struct rebalancer_counts rebalancer_counts(const struct rebalancer *rebalancer);

#endif
