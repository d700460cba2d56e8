/* SPDX-License-Identifier: Apache-2.0
 * Decides how a draining unit ends: it waits for its requests, or moves them to other units. These
 * continue from the prompts and the tokens so far, with the same answers. They have to compute
 * those tokens again, and clients see a pause. So requests are moved when the time has run out, or
 * when recomputing takes much less time than waiting. They are never moved if no other unit has the
 * same numerics, because an answer must not mix two.
 */
#ifndef SERVING_POLICY_END_DRAIN_H
#define SERVING_POLICY_END_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#define END_DRAIN_WORTH 4 /* waiting must take so many times as long as recomputing */

struct end_drain_view {
    uint32_t requests;    /* requests that it has */
    bool alone;           /* no other unit could continue them */
    double answer_tokens; /* mean length of an answer */
    double token_ns;      /* time between tokens of an answer */
    double prompt_tokens; /* mean length of a prompt */
    double spare_rate;  /* prompt tokens per second that other units can compute in addition; may be
                         * 0 */
    int64_t drained_ns; /* time since the drain began */
    int64_t drain_ns_max; /* longest time of a drain */
};

enum end_drain { END_DRAIN_WAITS, END_DRAIN_STOPS /* nothing is left */, END_DRAIN_MOVES };

enum end_drain end_drain(const struct end_drain_view *view);

#endif
