/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of hardware and model files: every key is needed, none is guessed, and what
 * does not fit together is refused.
 */

#include "hardware_of.h"
#include "simulate/hardware/stage_rates.h"
#include "test_case.h"

TEST_AROUND(the_h800_has_the_published_links_and_memory, begin_tree, NULL) {
    struct hardware hardware = hardware_with("h800", NULL, 0);
    assert_int_equal(hardware.gpus_per_node, 8);
    assert_true(hardware.hbm_gbps == 3352 && hardware.nic_gbps == 400);
    assert_non_null(hardware.stages);
    assert_true(hardware.stages->hbm_scale == 1 && hardware.stages->nic_scale == 1);
}

TEST_AROUND(a_changed_bandwidth_becomes_a_scale, begin_tree, NULL) {
    assert_true(hardware_with("h800", "hbm_gbps", 6704).stages->hbm_scale == 0.5);
    assert_true(hardware_with("h800", "nic_gbps", 100).stages->nic_scale == 4);
}

TEST_AROUND(a_file_without_stages_or_with_a_strange_key_is_refused, begin_tree, NULL) {
    struct hardware hardware;
    struct tree *tree = builtin_tree(BUILTIN_HARDWARE, "h800");
    assert_true(tree_set(&tree_arena, tree, "steps", tree_make_object(&tree_arena)));
    assert_int_equal(hardware_file_read(&tree_arena, tree, "h", &hardware, &error), STATUS_INVALID);
    assert_string_equal(error.text, "h: expected either stages or steps, found both");
    tree = builtin_tree(BUILTIN_HARDWARE, "h800");
    assert_true(tree_set(&tree_arena, tree, "hbm_gbs", tree_make_integer(&tree_arena, 1)));
    assert_int_equal(hardware_file_read(&tree_arena, tree, "h", &hardware, &error), STATUS_INVALID);
    assert_string_equal(error.text, "h: unknown key 'hbm_gbs'; did you mean hbm_gbps?");
}

TEST_AROUND(deepseek_v3_has_the_figures_of_its_config, begin_tree, NULL) {
    struct model_figures model = model_named("deepseek-v3");
    assert_int_equal(model.layers, 61);
    assert_int_equal(model.experts, 256);
    assert_true(model.kv_bytes_per_token == 61 * (512 + 64) * 2);
}

TEST_AROUND(an_indexer_has_all_its_figures, begin_tree, NULL) {
    struct model_figures model;
    struct tree *tree = builtin_tree(BUILTIN_MODEL, "deepseek-v3");
    assert_true(tree_set(&tree_arena, tree, "index_heads", tree_make_integer(&tree_arena, 64)));
    assert_int_equal(hardware_file_model_figures_read(tree, "m", &model, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "index_heads, index_dim and index_top_k together"));
    assert_true(tree_set(&tree_arena, tree, "index_dim", tree_make_integer(&tree_arena, 128)));
    assert_true(tree_set(&tree_arena, tree, "index_top_k", tree_make_integer(&tree_arena, 2048)));
    assert_int_equal(hardware_file_model_figures_read(tree, "m", &model, &error), STATUS_OK);
    assert_int_equal(model.index_top_k, 2048);
}

TEST_AROUND(a_model_whose_numbers_do_not_fit_is_refused, begin_tree, NULL) {
    struct model_figures model;
    struct tree *tree = builtin_tree(BUILTIN_MODEL, "tiny-r1");
    assert_true(tree_set(&tree_arena, tree, "experts", tree_make_integer(&tree_arena, 63)));
    assert_int_equal(hardware_file_model_figures_read(tree, "m", &model, &error), STATUS_INVALID);
    assert_string_equal(error.text, "m: its layers, groups or experts do not fit together");
}
