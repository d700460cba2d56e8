/* SPDX-License-Identifier: Apache-2.0
 * Protects a process's signs of life: they go somewhere before anybody watches, and to whoever
 * watches from then on.
 */
#include "base/heartbeat.h"

#include "test_case.h"

TEST(signs_go_to_whoever_watches) {
    struct heartbeat watched = {.tiles = 7};
    heartbeat_set(HEARTBEAT_COMPUTES); /* to nobody */
    heartbeat_tile();
    heartbeat_memory = &watched;
    assert_int_equal(watched.state, HEARTBEAT_STARTS);
    heartbeat_set(HEARTBEAT_WAITS);
    heartbeat_tile();
    heartbeat_tile();
    heartbeat_place(60, 5);
    assert_int_equal(watched.state, HEARTBEAT_WAITS);
    assert_int_equal(watched.tiles, 9);
    assert_int_equal(watched.place >> 8, 60);
    assert_int_equal(watched.place & 0xFF, 5);
}
