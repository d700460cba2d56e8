/* SPDX-License-Identifier: Apache-2.0
 * How often each expert was chosen recently: per layer, an exponential moving average over choices,
 * not over time, so that idle time changes nothing. Counts arrive in reports; the same reports give
 * the same averages.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct expert_load { /* in the caller's memory */
    uint32_t layers, experts;
    uint64_t memory_choices; /* of a layer: an older choice counts for 1/e */
    uint64_t *loads;         /* [layers][experts] in EXPERT_LOAD_UNITs of a choice */
    uint64_t *choices;       /* [layers] counted since expert_load_open or _restart */
};

#define EXPERT_LOAD_UNIT 256

size_t expert_load_bytes(uint32_t layers, uint32_t experts);
/* `memory` is aligned to 8; memory_choices is in [1, 2^26]. */
void expert_load_open(struct expert_load *load, uint32_t layers, uint32_t experts,
                      uint64_t memory_choices, void *memory);

/* Adds a report: how often each of the layer's experts was chosen since the last one; below 2^26 in
 * total. */
void expert_load_add(struct expert_load *load, uint32_t layer, const uint32_t *counts);

/* Counts choices from zero again. The averages stay. */
void expert_load_restart(struct expert_load *load);

static inline const uint64_t *expert_load_of(const struct expert_load *load, uint32_t layer) {
    return load->loads + (size_t)layer * load->experts;
}
