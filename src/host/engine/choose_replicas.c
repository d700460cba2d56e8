/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/choose_replicas.h"

#include <string.h>

#define TOKENS_PER_RANK_MIN                                                                        \
    128 /* between 2 ranks it pays from 4 on; an allgather of many takes longer */

bool choose_replicas_named(const char *name, enum replica_choice *out) {
    static const char *const names[] = {"auto", "turns", "flow"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum replica_choice)i;
            return true;
        }
    return false;
}

bool choose_replicas(enum replica_choice choice, const struct choose_replicas_step *step) {
    if (step->urgent || step->slots <= step->experts || choice == REPLICAS_TURNS) return false;
    return choice == REPLICAS_FLOW || step->tokens >= TOKENS_PER_RANK_MIN * step->ranks;
}
