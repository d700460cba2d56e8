/* SPDX-License-Identifier: Apache-2.0
 * Who gives its KV pages back when a running request needs one more, none is free and none is
 * cached: the running request whose turn comes last, that is, the least urgent, then the youngest
 * (schedule_turn). Nobody gives way to a request whose turn comes after its own; then the needy one
 * itself waits. So the request whose turn comes first is never interrupted and always ends, then
 * the next is the first: no livelock.
 *
 * Pure: integers only, ties broken by the lowest slot.
 */
#ifndef SERVING_POLICY_PREEMPT_H
#define SERVING_POLICY_PREEMPT_H

#include "serving/policy/schedule.h"

enum preempt_reason {
    PREEMPT_LESS_URGENT, /* than the needy one */
    PREEMPT_YOUNGER,     /* as urgent, but came later */
    PREEMPT_ITSELF,      /* everybody else's turn comes before the needy one's */
    PREEMPT_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *preempt_reason_name(enum preempt_reason reason);

struct preempt_choice {
    uint32_t item; /* index in the view */
    enum preempt_reason reason;
};

/* Chooses among the items that run (not SCHEDULE_WAITING); items[needy] runs. */
struct preempt_choice preempt_choose(const struct schedule_item *items, uint32_t item_count,
                                     uint32_t needy);

#endif
