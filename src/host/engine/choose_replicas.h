/* SPDX-License-Identifier: Apache-2.0
 * Decides whether a step's tokens are split over the replicas of experts by flow
 * (compute/exchange/split_tokens) or by turns. A flow lowers the busiest rank's load as far as the
 * map allows, but costs another message between all ranks in every layer, for which all wait. It
 * pays if steps have enough tokens.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum replica_choice { REPLICAS_AUTO, REPLICAS_TURNS, REPLICAS_FLOW };

/* Parses "auto", "turns" or "flow". Returns false for any other name. */
bool choose_replicas_named(const char *name, enum replica_choice *out);

struct choose_replicas_step {
    uint32_t ranks, experts, slots; /* slots of a layer, of all ranks */
    uint32_t tokens;                /* of all ranks */
    bool urgent; /* ranks may run their layers in different orders (contract/overlap.h): no flow is
                  * possible */
};

/* Returns true for a split by flow. */
bool choose_replicas(enum replica_choice choice, const struct choose_replicas_step *step);
