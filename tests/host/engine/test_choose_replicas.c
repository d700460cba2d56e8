/* SPDX-License-Identifier: Apache-2.0
 * Protects when replicas are split by flow: as told, by size if not told, and never where there
 * are no replicas or where ranks could wait for each other for ever.
 */
#include "host/engine/choose_replicas.h"

#include "test_case.h"

TEST(replicas_are_split_as_reported_or_by_size) {
    struct choose_replicas_step step = {.ranks = 4, .experts = 64, .slots = 72, .tokens = 8};
    enum replica_choice choice = REPLICAS_FLOW;
    assert_true(choose_replicas_named("turns", &choice) && choice == REPLICAS_TURNS);
    assert_true(choose_replicas_named("auto", &choice) && choice == REPLICAS_AUTO);
    assert_false(choose_replicas_named("sometimes", &choice));
    assert_false(choose_replicas(REPLICAS_AUTO, &step));
    assert_true(choose_replicas(REPLICAS_FLOW, &step));
    step.tokens = 16384;
    assert_true(choose_replicas(REPLICAS_AUTO, &step));
    assert_false(choose_replicas(REPLICAS_TURNS, &step));
    step.urgent = true;
    assert_false(choose_replicas(REPLICAS_AUTO, &step));
    assert_false(choose_replicas(REPLICAS_FLOW, &step));
    step.urgent = false;
    step.slots = 64;
    assert_false(choose_replicas(REPLICAS_FLOW, &step));
}
