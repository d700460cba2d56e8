/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario.h"
#include "simulate/simulator/simulator_faults.h"

#include "base/check.h"
#include "host/process/configuration/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/scenario/scenario_edit.h"
#include "test_case.h"

static char memory[16 << 20];
static struct arena arena;
static struct error error;
static struct scenario scenario;

static enum status find(void *context, struct arena *of, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *why) {
    (void)context;
    enum builtin_kind kind = !strcmp(key, "hardware") ? BUILTIN_HARDWARE
                             : !strcmp(key, "model")  ? BUILTIN_MODEL
                                                      : BUILTIN_PRICES;
    return yaml_tree_parse(of, builtin_text(kind, name), key, tree_out, why);
}

static enum status read_builtin(const char *name, const char *setting) {
    const struct tree *tree;
    struct scenario_library library = {NULL, find};
    arena_over(&arena, memory, sizeof memory);
    struct bytes text = builtin_text(BUILTIN_SCENARIO, bytes_of(name));
    enum status status = yaml_tree_parse(&arena, text, name, &tree, &error);
    if (!status)
        status =
            scenario_edit_prepare(&arena, tree, &setting, setting ? 1 : 0, &library, &tree, &error);
    return status ? status : scenario_read(&arena, tree, name, &scenario, &error);
}

TEST(all_scenarios_of_the_binary_are_read) {
    const char *name;
    for (uint32_t i = 0; (name = builtin_name(BUILTIN_SCENARIO, i)); i++) {
        if (read_builtin(name, NULL)) fail_msg("%s", error.text);
        assert_int_equal(scenario_open_load(&arena, &scenario, NULL, &error), STATUS_OK);
        struct simulator_request request;
        struct simulator_source source = scenario.options.source;
        if (scenario.load.kind != SCENARIO_LOAD_DAY)
            assert_true(source.next(source.self, &request));
        assert_true(scenario.options.kind_count > 0 && scenario.options.model->layers > 0);
    }
}

/* A setting of the hardware changes what it names, and nothing else. */
TEST(a_setting_reaches_the_hardware_alone) {
    assert_int_equal(read_builtin("ep144", NULL), STATUS_OK);
    struct scenario before = scenario;
    assert_int_equal(read_builtin("ep144", "hardware.hbm_gbps=4000"), STATUS_OK);
    assert_true(scenario.hardware[0].hbm_gbps == 4000);
    assert_true(before.hardware[0].hbm_gbps != 4000);
    assert_true(scenario.hardware[0].nic_gbps == before.hardware[0].nic_gbps);
    assert_memory_equal(&scenario.load.mix, &before.load.mix, sizeof before.load.mix);
}

/* The one model of the twin is paid for as a request for its name would be. */
TEST(the_models_name_has_its_prices) {
    assert_int_equal(read_builtin("small", NULL), STATUS_OK);
    assert_true(scenario.prices.calendar.tokens.output == 2.19);
    assert_int_equal(read_builtin("small", "prices.models[0].name=tiny-r1"), STATUS_OK);
    assert_true(scenario.prices.calendar.tokens.output == 1.10);
    assert_true(prices_at(&scenario.prices.calendar, 20).input_miss == 0.135);
}

TEST(faults_are_read_in_their_order) {
    assert_int_equal(read_builtin("small", "faults=[{\"kind\":\"unit-dies\",\"at_s\":2},"
                                           "{\"kind\":\"disks-slow\",\"at_s\":3,\"factor\":8}]"),
                     STATUS_OK);
    assert_int_equal(scenario.options.fault_count, 2);
    assert_int_equal(scenario.options.faults[1].kind, SIMULATOR_FAULT_DISKS_SLOW);
    assert_true(scenario.options.faults[1].factor == 8);
}

TEST(what_is_wrong_names_the_key_and_the_cure) {
    static const struct {
        const char *setting, *says;
    } cases[] = {
        {"fleet.units[0].rnaks=2", "fleet.units[0]: unknown key 'rnaks'; did you mean ranks?"},
        {"fleet.units[0].role=x", "fleet.units[0].role: expected one of both|prefill|decode"},
        {"fleet.units=[]", "fleet.units: expected a list of 1 to"},
        {"settle_s=99", "settle_s is a part of warm_s"},
        {"measure_s=0", "give measure_s"},
        {"load.trace={\"file\":\"x\"}", "load: expected one of mix, trace and day"},
        {"load.mix.moments={}", "load.mix: expected either moments"},
        {"faults=[{\"kind\":\"x\",\"at_s\":1}]", "faults[0].kind: expected one of unit-dies"},
        {"hardware.hbm_gpbs=1", "hbm_gpbs"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(read_builtin("small", cases[i].setting), STATUS_INVALID);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu: %s", i, error.text);
    }
}
