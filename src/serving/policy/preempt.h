/* SPDX-License-Identifier: Apache-2.0
 * Chooses the request to preempt when a running request needs a KV page and none is free or cached.
 * It is the running request with the last turn (schedule_turn): the least urgent and then the
 * youngest. A request is never preempted for one with a later turn; the request that needs the page
 * is preempted itself instead. The request with the first turn is therefore never interrupted and
 * always ends, which excludes livelock.
 *
 * Pure: integers only, ties broken by the lowest slot.
 */
#pragma once

#include "serving/policy/schedule.h"

/* Chooses among the running items (not SCHEDULE_WAITING), including items[needy], the one that
 * needs a page. Returns the index of the item to preempt. */
uint32_t preempt_choose(const struct schedule_item *items, uint32_t item_count, uint32_t needy);
