/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/end_drain.h"

/* The last running request is expected to end after about the time of a whole answer, minus the
 * time that has passed. */
enum end_drain end_drain(const struct end_drain_view *view) {
    if (!view->requests) return END_DRAIN_STOPS;
    if (view->alone) return END_DRAIN_WAITS;
    if (view->drained_ns >= view->drain_ns_max) return END_DRAIN_MOVES;
    if (view->spare_rate <= 0) return END_DRAIN_WAITS;
    double wait_ns = view->answer_tokens * view->token_ns - (double)view->drained_ns;
    double tokens = view->requests * (view->prompt_tokens + view->answer_tokens / 2);
    double again_ns = tokens / view->spare_rate * 1e9;
    return wait_ns > END_DRAIN_WORTH * again_ns ? END_DRAIN_MOVES : END_DRAIN_WAITS;
}
