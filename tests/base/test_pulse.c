/* SPDX-License-Identifier: Apache-2.0
 * Protects a process's signs of life: they go somewhere before anybody watches, and to whoever
 * watches from then on.
 */
#include "base/pulse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void signs_go_to_whoever_watches(void **state) {
    struct pulse watched = {.tiles = 7};
    pulse_set(PULSE_COMPUTES); /* to nobody */
    pulse_tile();
    pulse_memory = &watched;
    assert_int_equal(watched.state, PULSE_STARTS);
    pulse_set(PULSE_WAITS);
    pulse_tile();
    pulse_tile();
    pulse_place(60, 5);
    assert_int_equal(watched.state, PULSE_WAITS);
    assert_int_equal(watched.tiles, 9);
    assert_int_equal(watched.place >> 8, 60);
    assert_int_equal(watched.place & 0xFF, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_go_to_whoever_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
