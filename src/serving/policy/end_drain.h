/* SPDX-License-Identifier: Apache-2.0
 * How a unit that drains comes to its end: it waits for its requests, or gives them away. Given away,
 * they go on at other units from their prompts and the tokens that they have, with the same answers;
 * the others compute those again, and clients see a pause. So it is done when the time has run out,
 * or when computing again takes much less time than waiting; and never where no other units compute as it does,
 * since an answer of two numerics is none.
 */
#ifndef SERVING_POLICY_END_DRAIN_H
#define SERVING_POLICY_END_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#define END_DRAIN_WORTH 4 /* waiting has to last so many times as long as computing again */

struct end_drain_view {
    uint32_t requests;    /* that it has */
    bool alone;           /* nobody else could go on with them */
    double answer_tokens; /* of an answer, mean */
    double token_ns;      /* from token to token of an answer */
    double prompt_tokens; /* of a prompt, mean */
    double spare_rate;  /* prompt tokens a second that other units can compute besides; may be 0 */
    int64_t drained_ns; /* for which it has drained */
    int64_t drain_ns_max; /* for which it may */
};

enum end_drain { END_DRAIN_WAITS, END_DRAIN_STOPS /* nothing is left */, END_DRAIN_MOVES };

enum end_drain end_drain(const struct end_drain_view *view);

#endif
