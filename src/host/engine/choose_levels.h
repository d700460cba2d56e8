/* SPDX-License-Identifier: Apache-2.0
 * Decides whether a step's rows are sent to each rank (one level), or once to each node and
 * forwarded there (two levels, compute/exchange/exchange_ranks.c). Two levels send less between
 * nodes, but cost another hop. They pay if messages are so large that bytes dominate latencies.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum level_choice { LEVELS_AUTO, LEVELS_ONE, LEVELS_TWO };

/* Parses "auto", "one" or "two". Returns false for any other name. */
bool choose_levels_named(const char *name, enum level_choice *out);

struct choose_levels_step {
    uint32_t ranks, ranks_per_node;
    uint32_t tokens;  /* of all ranks */
    bool sums_groups; /* --expert-sum groups; otherwise two levels only cost a hop */
};

/* Returns true for two levels. */
bool choose_levels(enum level_choice choice, const struct choose_levels_step *step);
