/* SPDX-License-Identifier: Apache-2.0
 * Whether a step's rows go to each rank (one level), or once to each node and on from there (two,
 * compute/exchange/ranks.c). Two levels send less between nodes, and cost a hop more: they pay when
 * messages are so large that bytes and not latencies count.
 */
#ifndef SERVING_POLICY_CHOOSE_LEVELS_H
#define SERVING_POLICY_CHOOSE_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

enum level_choice { LEVELS_AUTO, LEVELS_ONE, LEVELS_TWO };

/* "auto", "one", "two"; false if there is no such. */
bool choose_levels_named(const char *name, enum level_choice *out);

struct choose_levels_step {
    uint32_t ranks, ranks_per_node;
    uint32_t tokens;  /* of all ranks */
    bool sums_groups; /* else results go home one by one, and a hop more is all that they get */
};

/* True: by nodes. */
bool choose_levels(enum level_choice choice, const struct choose_levels_step *step);

#endif
