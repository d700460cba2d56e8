/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/preempt.h"

#include "base/check.h"

uint32_t preempt_choose(const struct schedule_item *items, uint32_t item_count, uint32_t needy) {
    check(needy < item_count && items[needy].phase != SCHEDULE_WAITING);
    uint32_t last = needy;
    for (uint32_t i = 0; i < item_count; i++)
        if (items[i].phase != SCHEDULE_WAITING && schedule_goes_first(&items[last], &items[i]))
            last = i;
    return last;
}
