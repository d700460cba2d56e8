/* SPDX-License-Identifier: Apache-2.0
 * Protects the places of a supervisor's units: each host gets no more ranks than it has slots, a
 * unit without slots is refused with what is free, devices of a host are given out once, and a rank
 * knows how many share its CPUs. This machine is known by each of its names.
 */
#include "host/process/agent/unit_places.h"

#include "test_case.h"

static char names[3][HOST_NAME_BYTES] = {"north", "south", "localhost"};
static uint32_t slots[3] = {4, 2, 2};
static const struct host_list list = {names, slots, 3};
static struct unit_places *places;
static struct unit_host *hosts[3];
static struct supervise_host *parts[3];
static uint32_t counts[3];

static enum status add(uint32_t index, uint32_t ranks, struct error *error) {
    return unit_places_add(places, index + 1, ranks, &hosts[index], &parts[index], &counts[index],
                           error);
}

static int close_all(void **state) {
    for (uint32_t i = 0; i < 3; i++) {
        free(hosts[i]);
        free(parts[i]);
        hosts[i] = NULL;
        parts[i] = NULL;
    }
    unit_places_close(places);
    places = NULL;
    return 0;
}

static void assert_place(uint32_t unit, uint32_t part, const char *name, uint32_t first,
                         uint32_t count, uint32_t before) {
    assert_true(part < counts[unit]);
    assert_string_equal(hosts[unit][part].name, name);
    assert_int_equal(parts[unit][part].first, first);
    assert_int_equal(parts[unit][part].count, count);
    assert_int_equal(hosts[unit][part].before, before);
}

TEST_AROUND(units_fill_the_hosts_and_no_device_is_given_twice, NULL, close_all) {
    struct error error;
    assert_int_equal(unit_places_open(&list, "north", &places, &error), STATUS_OK);
    assert_int_equal(add(0, 3, &error), STATUS_OK);
    assert_int_equal(add(1, 2, &error), STATUS_OK);
    assert_int_equal(add(2, 3, &error), STATUS_OK);
    assert_int_equal(counts[0], 1);
    assert_place(0, 0, "north", 0, 3, 0);
    assert_int_equal(counts[1], 2);
    assert_place(1, 0, "north", 0, 1, 3);
    assert_place(1, 1, "south", 1, 1, 0);
    assert_int_equal(counts[2], 2);
    assert_place(2, 0, "south", 0, 1, 1);
    assert_place(2, 1, "localhost", 1, 2, 0);
    assert_int_equal(unit_places_most(places), 4);
}

TEST_AROUND(a_rank_knows_how_many_ranks_of_all_units_are_on_its_host, NULL, close_all) {
    struct error error;
    assert_int_equal(unit_places_open(&list, "other", &places, &error), STATUS_OK);
    assert_int_equal(add(0, 3, &error), STATUS_OK);
    assert_int_equal(add(1, 2, &error), STATUS_OK);
    for (uint32_t i = 0; i < 2; i++)
        unit_places_share(places, hosts[i], counts[i]);
    assert_int_equal(hosts[0][0].sharing, 4); /* one more came with the second unit */
    assert_int_equal(hosts[1][0].sharing, 4);
    assert_int_equal(hosts[1][1].sharing, 1);
}

TEST_AROUND(a_unit_without_enough_slots_is_refused_and_takes_none, NULL, close_all) {
    struct error error;
    assert_int_equal(unit_places_open(&list, "north", &places, &error), STATUS_OK);
    assert_int_equal(add(0, 5, &error), STATUS_OK);
    assert_int_equal(add(1, 4, &error), STATUS_INVALID);
    assert_string_equal(error.text,
                        "the hosts have too few slots for the 4 ranks of unit 2: 3 are free; name "
                        "more hosts, or give them more slots");
    assert_null(hosts[1]);
    assert_int_equal(add(1, 3, &error), STATUS_OK);
    assert_place(1, 0, "south", 0, 1, 1);
}

TEST_AROUND(this_machine_alone_takes_any_number_of_ranks, NULL, close_all) {
    struct error error;
    assert_int_equal(unit_places_open(NULL, "alone", &places, &error), STATUS_OK);
    assert_int_equal(add(0, 100, &error), STATUS_OK);
    assert_int_equal(add(1, 100, &error), STATUS_OK);
    assert_place(1, 0, "alone", 0, 100, 100);
    assert_true(hosts[0][0].is_here && hosts[1][0].is_here);
    unit_places_share(places, hosts[0], 1);
    assert_int_equal(hosts[0][0].sharing, 200);
    assert_int_equal(unit_places_most(places), 200);
}

TEST_AROUND(hosts_of_the_list_are_here_by_their_names_alone, NULL, close_all) {
    struct error error;
    assert_int_equal(unit_places_open(&list, "south.example", &places, &error), STATUS_OK);
    assert_int_equal(add(0, 8, &error), STATUS_OK);
    assert_false(hosts[0][0].is_here);
    assert_true(hosts[0][1].is_here);
    assert_true(hosts[0][2].is_here);
}

TEST(this_machine_is_known_with_and_without_its_domain) {
    assert_true(unit_places_is_here("node1.example", "node1"));
    assert_true(unit_places_is_here("node1.example", "node1.example"));
    assert_true(unit_places_is_here("node1", "localhost"));
    assert_false(unit_places_is_here("node1.example", "node"));
    assert_false(unit_places_is_here("node1.example", "node10"));
    assert_false(unit_places_is_here("node1.example", "node1.other"));
    assert_false(unit_places_is_here("", "node1")); /* this machine has no name */
    assert_false(unit_places_is_here("node1", "node1.example"));
}
