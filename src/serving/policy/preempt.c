/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/preempt.h"

#include "base/check.h"

const char *preempt_reason_name(enum preempt_reason reason) {
    static const char *const names[PREEMPT_REASON_COUNT] = {
        [PREEMPT_LESS_URGENT] = "interrupted: less urgent",
        [PREEMPT_YOUNGER] = "interrupted: came later",
        [PREEMPT_ITSELF] = "interrupted: needs a page and all others go first",
    };
    check(reason < PREEMPT_REASON_COUNT);
    return names[reason];
}

struct preempt_choice preempt_choose(const struct schedule_item *items, uint32_t item_count,
                                     uint32_t needy) {
    check(needy < item_count && items[needy].phase != SCHEDULE_WAITING);
    uint32_t last = needy;
    for (uint32_t i = 0; i < item_count; i++)
        if (items[i].phase != SCHEDULE_WAITING && schedule_goes_first(&items[last], &items[i]))
            last = i;
    enum preempt_reason reason = last == needy ? PREEMPT_ITSELF
                                 : items[last].priority < items[needy].priority
                                     ? PREEMPT_LESS_URGENT
                                     : PREEMPT_YOUNGER;
    return (struct preempt_choice){last, reason};
}
