/* SPDX-License-Identifier: Apache-2.0
 * Protects how a unit is known again: a fleet's tag follows from its name, and a unit's number is
 * read from an instance of that fleet alone.
 */
#include <unistd.h>

#include "host/fleet/launcher.h"

#include "test_case.h"

TEST(an_instance_is_of_one_fleet_and_has_a_number) {
    char tag[FLEET_TAG_DIGITS + 1], other[FLEET_TAG_DIGITS + 1], instance[64];
    launcher_tag("night", tag);
    launcher_tag("day", other);
    assert_int_equal(strlen(tag), FLEET_TAG_DIGITS);
    assert_string_not_equal(tag, other);
    snprintf(instance, sizeof instance, "%s%06x", tag, 300);
    assert_int_equal(launcher_number(tag, instance), 300);
    assert_int_equal(launcher_number(other, instance), 0);
    assert_int_equal(launcher_number(tag, tag), 0);
    strcat(instance, "0");
    assert_int_equal(launcher_number(tag, instance), 0);
}
