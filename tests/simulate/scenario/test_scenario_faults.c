/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario_faults.h"

#include "test_case.h"

static _Alignas(16) char memory[1 << 18];
static struct arena arena;
static struct error error;
static struct fault_limits limits;

static struct simulator_options fleet(void) {
    return (struct simulator_options){.kinds = {{.count = 2, .ranks = 4}},
                                      .kind_count = 1,
                                      .gateways = 1,
                                      .warm_ns = 1000000000,
                                      .seed = 3};
}

static enum status read(const char *text, struct simulator_options *options) {
    const struct tree *tree;
    struct tree_place root = {.file = "some.yaml", .error = &error};
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of(text), "some", &tree, &error), STATUS_OK);
    return scenario_faults_read(&arena, &root, tree, options, &limits);
}

TEST(a_list_is_sorted_and_the_seed_draws_what_is_left_out) {
    struct simulator_options options = fleet();
    assert_int_equal(read("[{\"kind\":\"crowd\",\"at_s\":9,\"lasts_s\":2,\"factor\":3},"
                          "{\"kind\":\"rank-slow\",\"at_s\":4,\"unit\":1,\"other\":2,\"factor\":5},"
                          "{\"kind\":\"node-dies\",\"at_s\":6.5}]",
                          &options),
                     STATUS_OK);
    assert_int_equal(options.fault_count, 3);
    assert_int_equal(options.faults[0].kind, SIMULATOR_FAULT_RANK_SLOW);
    assert_int_equal(options.faults[0].unit, 1);
    assert_int_equal(options.faults[0].other, 2);
    assert_int_equal(options.faults[1].kind, SIMULATOR_FAULT_NODE_DIES);
    assert_int_equal(options.faults[1].at_ns, 6500000000);
    assert_true(options.faults[1].unit < 2);
    assert_int_equal(options.faults[2].kind, SIMULATOR_FAULT_CROWD);
    assert_true(options.faults[2].factor == 3);
}

TEST(random_ones_come_within_their_time_beside_those_of_the_list) {
    struct simulator_options options = fleet();
    assert_int_equal(read("{\"list\":[{\"kind\":\"unit-dies\",\"at_s\":2,\"unit\":0}],\"random\":"
                          "[{\"kind\":\"disks-slow\",\"per_hour\":360,\"lasts_s\":1,\"factor\":9,"
                          "\"until_s\":601}]}",
                          &options),
                     STATUS_OK);
    uint32_t random = 0;
    for (uint32_t i = 0; i < options.fault_count; i++) {
        if (options.faults[i].kind != SIMULATOR_FAULT_DISKS_SLOW) continue;
        random++;
        assert_true(options.faults[i].factor == 9);
        assert_true(options.faults[i].at_ns >= 1000000000);
        assert_true(options.faults[i].at_ns < 601000000000);
    }
    assert_int_equal(random + 1, options.fault_count);
    assert_in_range(random, 35, 85); /* 60 on average */
}

TEST(what_the_fleet_does_not_have_is_refused_with_its_key) {
    static const char *const texts[][2] = {
        {"[{\"kind\":\"unit-dies\",\"at_s\":1,\"unit\":7}]", "unit-dies"},
        {"[{\"kind\":\"meteor\",\"at_s\":1}]", "faults[0].kind"},
        {"[{\"kind\":\"crowd\"}]", "at_s"},
        {"{\"lists\":[]}", "lists"},
        {"{\"random\":[{\"kind\":\"crowd\",\"per_hour\":1,\"lasts_s\":1}]}", "until_s"},
        {"{\"list\":3}", "faults.list"},
    };
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct simulator_options options = fleet();
        assert_int_equal(read(texts[i][0], &options), STATUS_INVALID);
        assert_non_null(strstr(error.text, texts[i][1]));
    }
}

TEST(limits_are_those_of_the_scenario_or_of_everyday) {
    struct simulator_options options = fleet();
    assert_int_equal(read("{\"ttft_limit_s\":0.5}", &options), STATUS_OK);
    assert_int_equal(limits.ttft_ns, 500000000);
    assert_int_equal(limits.tpot_ns, 50000000);
}
