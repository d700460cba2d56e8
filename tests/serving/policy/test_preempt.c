/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/preempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Whose turn comes last gives way, never one whose turn comes before the needy one's. */
static void the_last_in_turn_gives_way(void **state) {
    (void)state;
    const struct schedule_item items[] = {
        {.slot = 0, .phase = SCHEDULE_DECODE, .turn = 5, .arrival = 1},
        {.slot = 1, .phase = SCHEDULE_PREFILL, .turn = 9, .arrival = 3},
        {.slot = 2, .phase = SCHEDULE_DECODE, .turn = 9, .arrival = 2},
        {.slot = 3, .phase = SCHEDULE_WAITING, .turn = 99, .arrival = 4},
    };
    for (uint32_t needy = 0; needy < 3; needy++) {
        struct preempt_choice choice = preempt_choose(items, 4, needy);
        assert_int_equal(choice.item, 1);
        assert_int_equal(choice.reason, needy == 1 ? PREEMPT_ITSELF : PREEMPT_YOUNGER);
    }
}

static void the_reason_names_urgency(void **state) {
    (void)state;
    const struct schedule_item items[] = {
        {.slot = 0, .phase = SCHEDULE_DECODE, .turn = 5, .priority = 1},
        {.slot = 1, .phase = SCHEDULE_DECODE, .turn = 9, .priority = 0},
    };
    assert_int_equal(preempt_choose(items, 2, 0).reason, PREEMPT_LESS_URGENT);
    assert_int_equal(preempt_choose(items, 2, 1).reason, PREEMPT_ITSELF);
    for (int i = 0; i < PREEMPT_REASON_COUNT; i++)
        assert_non_null(preempt_reason_name(i));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_in_turn_gives_way),
        cmocka_unit_test(the_reason_names_urgency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
