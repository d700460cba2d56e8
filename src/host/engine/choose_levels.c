/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/choose_levels.h"

#include <string.h>

/* Two levels are faster from here on, as measured between two nodes of two ranks with links of 1
 * and 3 Gbit/s and 50 us. */
#define TOKENS_PER_RANK_MIN 4

bool choose_levels_named(const char *name, enum level_choice *out) {
    static const char *const names[] = {"auto", "one", "two"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum level_choice)i;
            return true;
        }
    return false;
}

bool choose_levels(enum level_choice choice, const struct choose_levels_step *step) {
    bool has_nodes = step->ranks_per_node > 1 && step->ranks_per_node < step->ranks;
    if (!has_nodes || choice == LEVELS_ONE) return false;
    if (choice == LEVELS_TWO) return true;
    return step->sums_groups && step->tokens >= TOKENS_PER_RANK_MIN * step->ranks;
}
