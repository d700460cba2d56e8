/* SPDX-License-Identifier: Apache-2.0
 * Chooses the request to preempt when a running request needs a KV page and none is free or cached:
 * the running request with the last turn, that is, the least urgent, then the youngest
 * (schedule_turn). A request is never preempted for one with a later turn; the needy request itself
 * is preempted instead. So the request with the first turn is never interrupted and always ends,
 * which excludes a livelock.
 *
 * Pure: integers only, ties broken by the lowest slot.
 */
#pragma once

#include "serving/policy/schedule.h"

/* Chooses among the running items (not SCHEDULE_WAITING), including items[needy]. Returns the index
 * of the one to preempt. */
uint32_t preempt_choose(const struct schedule_item *items, uint32_t item_count, uint32_t needy);
