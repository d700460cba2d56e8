/* SPDX-License-Identifier: Apache-2.0
 * Protects how a unit is known again: a fleet's mark follows from its name, and a unit's number is read
 * from an instance of that fleet alone.
 */
#include <unistd.h>

#include "host/fleet/launcher.h"

#include "test_case.h"

TEST(an_instance_is_of_one_fleet_and_has_a_number) {
    char mark[FLEET_MARK_DIGITS + 1], other[FLEET_MARK_DIGITS + 1], instance[64];
    launcher_mark("night", mark);
    launcher_mark("day", other);
    assert_int_equal(strlen(mark), FLEET_MARK_DIGITS);
    assert_string_not_equal(mark, other);
    snprintf(instance, sizeof instance, "%s%06x", mark, 300);
    assert_int_equal(launcher_number(mark, instance), 300);
    assert_int_equal(launcher_number(other, instance), 0);
    assert_int_equal(launcher_number(mark, mark), 0);
    strcat(instance, "0");
    assert_int_equal(launcher_number(mark, instance), 0);
}
