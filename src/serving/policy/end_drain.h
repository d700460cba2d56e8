/* SPDX-License-Identifier: Apache-2.0
 * Decides how a draining unit ends: it waits until its requests have finished, or moves them to
 * other units. A moved request continues from its prompt and its tokens so far, and its answer
 * stays the same. But its tokens must be computed again, and its client sees a pause. Requests are
 * therefore moved only when the drain has taken too long, or when recomputing takes much less time
 * than waiting. They are never moved if no other unit has the same numerics, because one answer
 * must not mix two.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define END_DRAIN_WORTH 4 /* move if waiting takes this many times as long as recomputing */

struct end_drain_view {
    uint32_t requests;    /* requests at the unit */
    bool alone;           /* no other unit could continue its requests */
    double answer_tokens; /* mean length of an answer */
    double token_ns;      /* time between tokens of an answer */
    double prompt_tokens; /* mean length of a prompt */
    /* prompt tokens per second that other units can compute on top of their load; may be 0 */
    double spare_rate;
    int64_t drained_ns;   /* time since the drain began */
    int64_t drain_ns_max; /* longest time of a drain */
};

enum end_drain { END_DRAIN_WAITS, END_DRAIN_STOPS /* no request is left */, END_DRAIN_MOVES };

enum end_drain end_drain(const struct end_drain_view *view);
