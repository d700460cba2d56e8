/* SPDX-License-Identifier: Apache-2.0
 * Protects devices from being given out twice: a machine with two names is found, whichever unit
 * has them, and a machine that started again under its own name is not taken for another.
 */
#include "host/process/agent/unit_machines.h"

#include "test_case.h"

TEST(two_names_of_one_machine_are_found) {
    static struct unit_machines machines;
    assert_null(unit_machines_note(&machines, "north", 7));
    assert_null(unit_machines_note(&machines, "south", 8));
    assert_string_equal(unit_machines_note(&machines, "north.example", 7), "north");
    assert_null(unit_machines_note(&machines, "north", 7)); /* the next unit's, or a new start */
    assert_null(unit_machines_note(&machines, "south", 9));
    assert_null(unit_machines_note(&machines, "west", 8));
}

TEST(unknown_machines_are_different_ones) {
    static struct unit_machines machines;
    assert_null(unit_machines_note(&machines, "north", 0));
    assert_null(unit_machines_note(&machines, "south", 0));
}
