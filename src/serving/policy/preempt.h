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

/* Chooses among the items that run (not SCHEDULE_WAITING), one of which is items[needy]. Returns
 * the index of the one that gives way. */
uint32_t preempt_choose(const struct schedule_item *items, uint32_t item_count, uint32_t needy);

#endif
