/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/preempt.h"

#include "test_case.h"

/* Whose turn comes last gives way, never one whose turn comes before the needy one's. */
TEST(the_last_in_turn_gives_way) {
    const struct schedule_item items[] = {
        {.slot = 0, .phase = SCHEDULE_DECODE, .turn = 5, .arrival = 1},
        {.slot = 1, .phase = SCHEDULE_PREFILL, .turn = 9, .arrival = 3},
        {.slot = 2, .phase = SCHEDULE_DECODE, .turn = 9, .arrival = 2},
        {.slot = 3, .phase = SCHEDULE_WAITING, .turn = 99, .arrival = 4},
    };
    for (uint32_t needy = 0; needy < 3; needy++)
        assert_int_equal(preempt_choose(items, 4, needy), 1);
}
