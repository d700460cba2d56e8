/* SPDX-License-Identifier: Apache-2.0
 * Random draws of a test that all ranks of a job run.
 */
#pragma once

#include <stdint.h>

/* What all ranks draw alike, and what each draws for itself. */
static uint64_t shared_state, own_state;

static inline uint32_t draw_of(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}
static inline uint32_t draw_shared(uint32_t below) {
    return draw_of(&shared_state, below);
}
static inline uint32_t draw(uint32_t below) {
    return draw_of(&own_state, below);
}
