/* SPDX-License-Identifier: Apache-2.0
 * Protects the list of tensors: names are those of the published checkpoints, the sizes follow from
 * the shape, and DeepSeek-V3's list adds up to the published number of parameters.
 */
#include "test_case.h"

#include "base/check.h"
#include "compute/weights/layout.h"
#include "config_text.h"

struct totals {
    uint64_t main, mtp; /* parameters */
    uint32_t count, optional, quantized, biases;
    const char *wanted; /* a name to look for */
    struct layout_tensor found;
};

static enum status add(void *context, const struct layout_tensor *tensor, struct error *error) {
    struct totals *totals = context;
    totals->count++;
    totals->optional += tensor->optional;
    totals->quantized += tensor->quantized;
    totals->biases += tensor->is_bias;
    if (tensor->layer != LAYOUT_NONE && tensor->layer >= 61)
        totals->mtp += tensor->optional ? 0 : tensor->rows * tensor->columns;
    else
        totals->main += tensor->rows * tensor->columns;
    if (totals->wanted && !strcmp(totals->wanted, tensor->name)) totals->found = *tensor;
    return STATUS_OK;
}

static struct shape shape_of(struct bytes config) {
    struct shape shape;
    struct error error;
    assert_int_equal(shape_parse(config, "config.json", &shape, &error), STATUS_OK);
    return shape;
}

static struct bytes v3_config(void) {
    return CONFIG({"vocab_size", "129280"}, {"hidden_size", "7168"}, {"num_hidden_layers", "61"},
                  {"num_attention_heads", "128"}, {"q_lora_rank", "1536"}, {"kv_lora_rank", "512"},
                  {"qk_nope_head_dim", "128"}, {"qk_rope_head_dim", "64"}, {"v_head_dim", "128"},
                  {"intermediate_size", "18432"}, {"moe_intermediate_size", "2048"},
                  {"n_routed_experts", "256"}, {"num_experts_per_tok", "8"}, {"n_group", "8"},
                  {"topk_group", "4"}, {"first_k_dense_replace", "3"},
                  {"num_nextn_predict_layers", "1"});
}

/* README_WEIGHTS.md of DeepSeek-V3: 671 B parameters in the main model, 11.5 B of its own in the
 * MTP module (without the shared embedding and head). */
TEST(deepseek_v3_adds_up) {
    struct shape shape = shape_of(v3_config());
    struct totals totals = {.wanted = "model.layers.60.mlp.experts.255.down_proj.weight"};
    assert_int_equal(layout_for_each(&shape, add, &totals, NULL), STATUS_OK);
    assert_true(totals.main > 670900000000 && totals.main < 671100000000);
    assert_true(totals.mtp > 11450000000 && totals.mtp < 11650000000);
    assert_int_equal(totals.optional, 2);
    assert_int_equal(totals.biases, 59);
    assert_int_equal(totals.found.rows, 7168);
    assert_int_equal(totals.found.columns, 2048);
    assert_int_equal(totals.found.expert, 255);
    assert_int_equal(totals.found.layer, 60);
    assert_true(totals.found.quantized);
    /* 91,991 tensors in the published index; those that are quantized count twice (weight, scale).
     */
    assert_int_equal(totals.count + totals.quantized, 91991);
}

static const char *const small_names[] = {
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.q_a_layernorm.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.1.mlp.gate.weight",
    "model.layers.1.mlp.gate.e_score_correction_bias",
    "model.layers.1.mlp.shared_experts.down_proj.weight",
    "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
    "model.norm.weight",
    "lm_head.weight",
    "model.layers.2.enorm.weight",
    "model.layers.2.hnorm.weight",
    "model.layers.2.eh_proj.weight",
    "model.layers.2.shared_head.norm.weight",
    "model.layers.2.embed_tokens.weight",
    "model.layers.2.shared_head.head.weight",
    "model.layers.2.mlp.experts.7.up_proj.weight",
};

static bool lists(const struct shape *shape, const char *name) {
    struct totals totals = {.wanted = name};
    assert_int_equal(layout_for_each(shape, add, &totals, NULL), STATUS_OK);
    return totals.found.name[0] != '\0';
}

TEST(names_follow_the_shape) {
    struct shape shape = shape_of(CONFIG({"num_nextn_predict_layers", "1"}));
    for (size_t i = 0; i < ARRAY_COUNT(small_names); i++)
        if (!lists(&shape, small_names[i])) fail_msg("%s is not listed", small_names[i]);
    assert_false(lists(&shape, "model.layers.0.mlp.gate.weight"));
    assert_false(lists(&shape, "model.layers.0.self_attn.q_proj.weight"));
    shape = shape_of(CONFIG({"q_lora_rank", "null"}, {"n_shared_experts", "0"},
                            {"topk_method", "\"greedy\""}, {"tie_word_embeddings", "true"}));
    assert_true(lists(&shape, "model.layers.0.self_attn.q_proj.weight"));
    assert_false(lists(&shape, "model.layers.0.self_attn.q_a_proj.weight"));
    assert_false(lists(&shape, "model.layers.1.mlp.shared_experts.down_proj.weight"));
    assert_false(lists(&shape, "model.layers.1.mlp.gate.e_score_correction_bias"));
    assert_false(lists(&shape, "lm_head.weight"));
    assert_false(lists(&shape, "model.layers.2.enorm.weight"));
}

TEST(a_name_is_written_from_its_architectures_table) {
    struct shape shape = shape_of(v3_config());
    char name[LAYOUT_NAME_BYTES];
    layout_write_name(&shape, NAME_EXPERT_UP, 4, 17, name);
    assert_string_equal(name, "model.layers.4.mlp.experts.17.up_proj.weight");
    assert_true(layout_is_expert(name));
    layout_write_name(&shape, NAME_SHARED_UP, 4, LAYOUT_NONE, name);
    assert_string_equal(name, "model.layers.4.mlp.shared_experts.up_proj.weight");
    assert_false(layout_is_expert(name));
    layout_write_name(&shape, NAME_HEAD, LAYOUT_NONE, LAYOUT_NONE, name);
    assert_string_equal(name, "lm_head.weight");
}

static enum status stop_at_third(void *context, const struct layout_tensor *tensor,
                                 struct error *error) {
    return ++*(int *)context == 3 ? STATUS_FULL : STATUS_OK;
}

TEST(a_visitor_may_stop) {
    struct shape shape = shape_of(CONFIG_BASE);
    int calls = 0;
    assert_int_equal(layout_for_each(&shape, stop_at_third, &calls, NULL), STATUS_FULL);
    assert_int_equal(calls, 3);
}
