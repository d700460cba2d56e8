/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of config.json: each release's keys give the shape its own code would run,
 * RoPE and YaRN constants equal the outside goldens, and what we cannot run is refused by name.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "compute/weights/shape.h"
#include "config_text.h"

static const char *golden_path;

static struct shape parsed(struct bytes config) {
    struct shape shape;
    struct error error = {""};
    if (shape_parse(config, "config.json", &shape, &error) != STATUS_OK)
        fail_msg("%s\n%.*s", error.text, (int)config.count, config.data);
    return shape;
}

static const char *refusal(struct bytes config, enum status expected) {
    static struct error error;
    struct shape shape;
    memset(&shape, 0x5A, sizeof shape);
    enum status status = shape_parse(config, "dir/config.json", &shape, &error);
    if (status != expected)
        fail_msg("status %s (%s), expected %s: %.*s", status_name(status), error.text,
                 status_name(expected), (int)config.count, config.data);
    for (size_t i = 0; i < sizeof shape; i++) /* outputs are set only on success */
        assert_int_equal(((const unsigned char *)&shape)[i], 0x5A);
    assert_null(strchr(error.text, '\n'));
    return error.text;
}

TEST(the_base_has_its_own_values_and_defaults) {
    struct shape shape = parsed(CONFIG_BASE);
    assert_int_equal(shape.architecture, ARCHITECTURE_DEEPSEEK_V3);
    assert_int_equal(shape.vocab, 40);
    assert_int_equal(shape.hidden, 24);
    assert_int_equal(shape.q_rank, 12);
    assert_int_equal(shape_kv_width(&shape), 20);
    assert_int_equal(shape_query_dim(&shape), 12);
    assert_int_equal(shape.mtp_layers, 0);
    assert_true(shape.scoring == ROUTER_SIGMOID && shape.method == ROUTER_NOAUX_TC);
    assert_true(shape.normalize_weights);
    assert_true(shape.routed_scaling == 2.5f);
    assert_true(shape.rms_epsilon == 1e-6f);
    assert_true(shape.rope_theta == 10000.0f && !shape.yarn && shape.rope_interleaved);
    assert_false(shape.tied_head || shape.fp8 || shape.activation_scale_ue8m0);
    assert_int_equal(shape.bos_token, UINT32_MAX);
    assert_int_equal(shape.eos_token_count, 1);
    assert_int_equal(shape.eos_tokens[0], 1);
    assert_false(shape_layer_is_moe(&shape, 0));
    assert_true(shape_layer_is_moe(&shape, 1));
}

TEST(absent_keys_have_v3s_defaults) {
    struct shape shape = parsed(
        CONFIG({"n_group", NULL}, {"topk_group", NULL}, {"topk_method", NULL},
               {"scoring_func", NULL}, {"n_routed_experts", "16"}, {"first_k_dense_replace", NULL},
               {"q_lora_rank", NULL}, {"max_position_embeddings", NULL}, {"eos_token_id", NULL}));
    assert_int_equal(shape.groups, 8);
    assert_int_equal(shape.groups_kept, 4);
    assert_true(shape.scoring == ROUTER_SIGMOID && shape.method == ROUTER_NOAUX_TC);
    assert_false(shape_layer_is_moe(&shape, 1)); /* both layers are before the third */
    assert_int_equal(shape.q_rank, 0);
    assert_int_equal(shape.context_max, 4096);
    assert_int_equal(shape.eos_token_count, 0);
    shape = parsed(CONFIG({"n_group", "null"}, {"q_lora_rank", "null"}));
    assert_int_equal(shape.groups, 1);
    assert_int_equal(shape.groups_kept, 1);
    assert_int_equal(shape.q_rank, 0);
}

#define V2                                                                                         \
    { "architectures", "[\"DeepseekV2ForCausalLM\"]" }

TEST(v2_has_its_own_defaults_and_methods) {
    struct shape shape = parsed(
        CONFIG(V2, {"topk_method", NULL}, {"scoring_func", NULL}, {"first_k_dense_replace", NULL}));
    assert_int_equal(shape.architecture, ARCHITECTURE_DEEPSEEK_V2);
    assert_true(shape.scoring == ROUTER_SOFTMAX && shape.method == ROUTER_GREEDY);
    assert_false(shape.normalize_weights);
    assert_true(shape.routed_scaling == 1.0f);
    assert_true(shape_layer_is_moe(&shape, 0));
    assert_int_equal(shape.groups, 1); /* greedy knows no groups, whatever n_group says */
    shape = parsed(CONFIG(V2, {"topk_method", "\"gready\""}, {"scoring_func", "\"softmax\""}));
    assert_true(shape.method == ROUTER_GREEDY);
    shape = parsed(CONFIG(V2, {"topk_method", "\"group_limited_greedy\""},
                          {"scoring_func", "\"softmax\""}, {"routed_scaling_factor", "16.0"}));
    assert_true(shape.method == ROUTER_GROUP_LIMITED && shape.routed_scaling == 16.0f);
    assert_int_equal(shape.groups, 4);
    assert_int_equal(shape.groups_kept, 2);
}

/* V2's published code normalizes or scales, never both; V3's does both. */
TEST(each_release_treats_weights_its_own_way) {
    struct shape shape =
        parsed(CONFIG(V2, {"topk_method", "\"greedy\""}, {"norm_topk_prob", "true"},
                      {"routed_scaling_factor", "16.0"}));
    assert_true(shape.normalize_weights && shape.routed_scaling == 1.0f);
    shape = parsed(CONFIG(V2, {"topk_method", "\"greedy\""}, {"norm_topk_prob", "true"},
                          {"num_experts_per_tok", "1"}, {"routed_scaling_factor", "16.0"}));
    assert_true(!shape.normalize_weights && shape.routed_scaling == 16.0f);
    shape = parsed(CONFIG({"norm_topk_prob", "true"}, {"routed_scaling_factor", "16.0"}));
    assert_true(shape.normalize_weights && shape.routed_scaling == 16.0f);
    shape = parsed(CONFIG({"norm_topk_prob", "false"}));
    assert_true(!shape.normalize_weights && shape.routed_scaling == 2.5f);
}

TEST(dense_and_sparse_layers_are_reported_apart) {
    struct shape shape =
        parsed(CONFIG({"n_routed_experts", "null"}, {"moe_intermediate_size", NULL},
                      {"num_experts_per_tok", NULL}));
    assert_int_equal(shape.experts, 0);
    for (uint32_t layer = 0; layer < 3; layer++)
        assert_false(shape_layer_is_moe(&shape, layer));
    shape = parsed(CONFIG({"first_k_dense_replace", "9"}, {"num_nextn_predict_layers", "1"}));
    assert_false(shape_layer_is_moe(&shape, 1));
    assert_false(shape.layer_kinds[1].is_mtp);
    assert_true(shape.layer_kinds[2].is_mtp);
    shape = parsed(CONFIG({"num_hidden_layers", "6"}, {"moe_layer_freq", "2"}));
    const bool expected[] = {false, false, true, false, true, false};
    for (uint32_t layer = 0; layer < 6; layer++)
        assert_int_equal(shape_layer_is_moe(&shape, layer), expected[layer]);
    /* All layers MoE: intermediate_size is not needed. */
    parsed(CONFIG({"first_k_dense_replace", "0"}, {"intermediate_size", NULL}));
}

#define V32                                                                                        \
    { "architectures", "[\"DeepseekV32ForCausalLM\"]" }
#define GLM5                                                                                       \
    { "architectures", "[\"GlmMoeDsaForCausalLM\"]" }
#define INDEXER                                                                                    \
    {"index_n_heads", "4"}, {"index_head_dim", "16"}, {                                            \
        "index_topk", "32"                                                                         \
    }

TEST(sparse_attention_has_an_indexer) {
    struct shape shape = parsed(CONFIG(V32, INDEXER, {"num_nextn_predict_layers", "1"}));
    assert_int_equal(shape.architecture, ARCHITECTURE_DEEPSEEK_V32);
    assert_true(shape.index_heads == 4 && shape.index_dim == 16 && shape.index_top_k == 32);
    assert_false(shape.index_rope_interleaved);
    for (uint32_t layer = 0; layer < 3; layer++) {
        assert_int_equal(shape.layer_kinds[layer].attention, ATTENTION_DSA);
        assert_true(shape_has_own_index(&shape, layer));
    }
    shape = parsed(CONFIG(V32, INDEXER, {"indexer_rope_interleave", "true"}));
    assert_true(shape.index_rope_interleaved);
    shape = parsed(CONFIG({"n_group", "4"}));
    assert_false(shape_has_index(&shape) || shape_has_own_index(&shape, 0));
    const char *text =
        refusal(CONFIG(V32, {"index_n_heads", "4"}, {"index_head_dim", "24"}, {"index_topk", "32"}),
                STATUS_INVALID);
    assert_non_null(strstr(text, "index_head_dim: expected a power of two"));
    text = refusal(CONFIG(V32, INDEXER, {"q_lora_rank", "null"}), STATUS_INVALID);
    assert_non_null(strstr(text, "q_lora_rank: expected a positive number"));
    text = refusal(CONFIG(V32, {"index_n_heads", "4"}), STATUS_INVALID);
    assert_non_null(strstr(text, "index_head_dim: expected an integer"));
}

/* transformers' three spellings of the layers that take the choice of the layer before them */
TEST(glm5_shares_choices_between_layers) {
    struct shape shape = parsed(CONFIG(GLM5, INDEXER, {"n_group", NULL}, {"topk_group", NULL}));
    assert_true(shape.index_rope_interleaved && shape.groups == 1);
    assert_true(shape_has_own_index(&shape, 0) && shape_has_own_index(&shape, 1));
    const struct config_key layers = {"num_hidden_layers", "6"};
    struct bytes texts[3];
    static char kept[3][8192];
    for (int i = 0; i < 3; i++) {
        const struct config_key spelling[] = {
            {"index_topk_freq", "2"},
            {"index_topk_pattern", "\"FFSFSF\""},
            {"indexer_types", "[\"full\",\"full\",\"shared\",\"full\",\"shared\",\"full\"]"}};
        texts[i] = CONFIG(GLM5, INDEXER, layers, {"num_nextn_predict_layers", "1"}, spelling[i]);
        memcpy(kept[i], texts[i].data, texts[i].count);
        shape = parsed((struct bytes){kept[i], texts[i].count});
        const bool own[] = {true, true, false, true, false, true, true};
        for (uint32_t layer = 0; layer < 7; layer++)
            assert_int_equal(shape_has_own_index(&shape, layer), own[layer]);
    }
    const char *text =
        refusal(CONFIG(GLM5, INDEXER, {"index_topk_pattern", "\"SF\""}), STATUS_INVALID);
    assert_non_null(strstr(text, "full for the first"));
}

TEST(layer_types_of_mlps_are_read) {
    struct shape shape = parsed(CONFIG({"architectures", "[\"Glm4MoeLiteForCausalLM\"]"},
                                       {"num_hidden_layers", "3"}, {"first_k_dense_replace", NULL},
                                       {"mlp_layer_types", "[\"dense\",\"sparse\",\"dense\"]"},
                                       {"scoring_func", NULL}, {"routed_scaling_factor", NULL}));
    assert_true(!shape_layer_is_moe(&shape, 0) && shape_layer_is_moe(&shape, 1));
    assert_false(shape_layer_is_moe(&shape, 2));
    assert_true(shape.scoring == ROUTER_SIGMOID && shape.routed_scaling == 1.8f);
    const char *text = refusal(CONFIG({"mlp_layer_types", "[\"dense\"]"}), STATUS_INVALID);
    assert_non_null(strstr(text, "mlp_layer_types: expected dense or sparse for each layer"));
}

TEST(eos_may_be_a_number_or_a_list) {
    struct error error = {""};
    struct shape shape = parsed(CONFIG({"eos_token_id", "[3, 5, 3]"}));
    assert_int_equal(shape.eos_token_count, 2); /* each once */
    assert_int_equal(shape.eos_tokens[1], 5);
    assert_int_equal(shape_add_generation(BYTES_LITERAL("{\"eos_token_id\": [5, 7], \"top_p\": 1}"),
                                          "generation_config.json", &shape, &error),
                     STATUS_OK);
    assert_int_equal(shape.eos_token_count, 3);
    assert_int_equal(shape.eos_tokens[2], 7);
    assert_int_equal(shape_add_generation(BYTES_LITERAL("{\"eos_token_id\": [8, -2]}"),
                                          "generation_config.json", &shape, &error),
                     STATUS_INVALID);
    assert_string_equal(
        error.text,
        "generation_config.json: eos_token_id: expected a token id from 0 to 39, found -2");
    assert_int_equal(shape.eos_token_count, 3);
    shape = parsed(CONFIG({"eos_token_id", "null"}, {"bos_token_id", "0"}));
    assert_int_equal(shape.eos_token_count, 0);
    assert_int_equal(shape.bos_token, 0);
}

/* Copies that were converted have them, and no other server looks at them. */
TEST(values_that_decide_nothing_refuse_nothing) {
    struct shape shape = parsed(CONFIG({"pad_token_id", "-1"}, {"bos_token_id", "-1"}));
    assert_int_equal(shape.bos_token, UINT32_MAX);
    shape = parsed(CONFIG({"pad_token_id", "40"}, {"bos_token_id", "40"}));
    assert_int_equal(shape.bos_token, UINT32_MAX);
    shape = parsed(CONFIG({"pad_token_id", "[]"}, {"bos_token_id", "\"<s>\""}));
    assert_int_equal(shape.bos_token, UINT32_MAX);
    shape = parsed(CONFIG({"eos_token_id", "[-1, 3, null]"}));
    assert_int_equal(shape.eos_token_count, 1);
    assert_int_equal(parsed(CONFIG({"eos_token_id", "-1"})).eos_token_count, 0);
    /* of dense layers, where there is none; of experts, where there is none */
    parsed(CONFIG({"first_k_dense_replace", "0"}, {"intermediate_size", "-1"}));
    parsed(CONFIG({"n_routed_experts", "0"}, {"moe_layer_freq", "0"},
                  {"first_k_dense_replace", "-1"}, {"num_experts_per_tok", "0"}));
}

#define QUANTIZED(rest)                                                                            \
    {                                                                                              \
        "quantization_config", "{\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", "                   \
                               "\"activation_scheme\": \"dynamic\", " rest "}"                     \
    }

TEST(quantization_is_read_or_refused) {
    struct shape shape = parsed(CONFIG(QUANTIZED("\"weight_block_size\": [128, 128]")));
    assert_true(shape.fp8 && !shape.activation_scale_ue8m0);
    shape =
        parsed(CONFIG(QUANTIZED("\"weight_block_size\": [128, 128], \"scale_fmt\": \"ue8m0\"")));
    assert_true(shape.fp8 && shape.activation_scale_ue8m0);
    shape = parsed(CONFIG({"quantization_config", "null"}));
    assert_false(shape.fp8);
}

#define PACKED_WITH(before, group, weights)                                                        \
    {                                                                                              \
        "quantization_config",                                                                     \
            "{\"quant_method\": \"compressed-tensors\", " before                                   \
            "\"config_groups\": {\"group_0\": {" group "\"weights\": {\"num_bits\": 4, "           \
            "\"strategy\": \"group\", " weights "}}}}"                                             \
    }
#define INT4_FORMAT "\"format\": \"pack-quantized\", "
#define MXFP4_FORMAT "\"format\": \"mxfp4-pack-quantized\", "
#define SYMMETRIC "\"symmetric\": true, "
#define INT4_32 SYMMETRIC "\"type\": \"int\", \"group_size\": 32"
#define WIDE_HIDDEN                                                                                \
    { "hidden_size", "128" }
#define WIDE_EXPERTS                                                                               \
    { "moe_intermediate_size", "128" }

TEST(experts_in_four_bits_are_read) {
    struct shape shape =
        parsed(CONFIG(WIDE_HIDDEN, WIDE_EXPERTS, PACKED_WITH(INT4_FORMAT, "", INT4_32)));
    assert_true(shape.expert_form == EXPERTS_INT4_32 && !shape.fp8);
    shape = parsed(CONFIG(WIDE_HIDDEN, WIDE_EXPERTS,
                          PACKED_WITH(INT4_FORMAT "\"kv_cache_scheme\": null, ",
                                      "\"input_activations\": null, ",
                                      SYMMETRIC "\"actorder\": null, \"type\": \"int\", "
                                                "\"group_size\": 128")));
    assert_int_equal(shape.expert_form, EXPERTS_INT4_128);
    const char *const places[] = {MXFP4_FORMAT, ""}; /* newer files have it in the group */
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        const char *weights = "\"type\": \"float\", \"group_size\": 32";
        char text[512];
        format_text(text, sizeof text,
                    "{\"quant_method\": \"compressed-tensors\", %s\"config_groups\": {\"a\": {%s"
                    "\"weights\": {\"num_bits\": 4, \"symmetric\": true, \"strategy\": "
                    "\"group\", %s}}}}",
                    places[i], places[1 - i], weights);
        shape = parsed(CONFIG(WIDE_HIDDEN, WIDE_EXPERTS, {"quantization_config", text}));
        assert_int_equal(shape.expert_form, EXPERTS_MXFP4);
    }
}

struct packed_rejection {
    struct config_key quantization;
    const char *hidden, *message;
};

TEST(other_experts_in_few_bits_are_refused_by_name) {
    static const struct packed_rejection rows[] = {
        {PACKED_WITH(INT4_FORMAT, "",
                     "\"symmetric\": false, \"type\": \"int\", \"group_size\": 32"),
         "128", "config_groups.*.weights.symmetric: expected true (no zero points)"},
        {PACKED_WITH(INT4_FORMAT, "", SYMMETRIC "\"type\": \"int\", \"group_size\": 64"), "128",
         "group_size: expected 32 or 128, found 64"},
        {PACKED_WITH(INT4_FORMAT, "", SYMMETRIC "\"type\": \"float\", \"group_size\": 32"), "128",
         "type: expected int, as the format is pack-quantized, found 'float'"},
        {PACKED_WITH(MXFP4_FORMAT, "", SYMMETRIC "\"type\": \"float\", \"group_size\": 128"), "128",
         "group_size: expected 32, found 128"},
        {PACKED_WITH(INT4_FORMAT, "", INT4_32 ", \"actorder\": \"group\""), "128",
         "actorder: expected null"},
        {PACKED_WITH(INT4_FORMAT, "\"input_activations\": {\"num_bits\": 8}, ", INT4_32), "128",
         "input_activations: expected null (weights alone are quantized), found an object"},
        {PACKED_WITH("\"format\": \"nvfp4-pack-quantized\", ", "", INT4_32), "128",
         "format: expected pack-quantized or mxfp4-pack-quantized, found 'nvfp4-pack-quantized'"},
        {PACKED_WITH(INT4_FORMAT "\"kv_cache_scheme\": {\"num_bits\": 8}, ", "", INT4_32), "128",
         "kv_cache_scheme: expected null, found an object"},
        {PACKED_WITH(INT4_FORMAT, "", INT4_32), "144",
         "expected multiples of 32, the group of the experts' weights, found 144 and 128"},
        {{"quantization_config", "{\"quant_method\": \"compressed-tensors\"}"},
         "128",
         "config_groups: expected an object with one group, found nothing"},
        {{"quantization_config", "{\"quant_method\": \"compressed-tensors\", "
                                 "\"config_groups\": {\"a\": {}, \"b\": {}}}"},
         "128",
         "config_groups: expected an object with one group, found an object"},
        {{"quantization_config", "{\"quant_method\": \"compressed-tensors\", " INT4_FORMAT
                                 "\"config_groups\": {\"a\": {\"weights\": {\"num_bits\": 8}}}}"},
         "128",
         "config_groups.*.weights.num_bits: expected 4, found 8"},
        {{"quantization_config", "{\"quant_method\": \"awq\"}"},
         "128",
         "quant_method: expected fp8, compressed-tensors (experts in INT4 or MXFP4), or no "
         "quantization (docs/models.md), found 'awq'"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *text =
            refusal(CONFIG({"hidden_size", rows[i].hidden}, WIDE_EXPERTS, rows[i].quantization),
                    STATUS_UNSUPPORTED);
        if (!strstr(text, rows[i].message)) fail_msg("'%s' lacks '%s'", text, rows[i].message);
    }
}

struct rejection {
    const char *key, *json;
    enum status status;
    const char *message;
};

#define SCALING(rest) "{\"type\": \"yarn\", \"factor\": 40" rest "}"

static const struct rejection rejections[] = {
    {"architectures", "[\"LlamaForCausalLM\"]", STATUS_UNSUPPORTED,
     "dir/config.json: architectures: expected [\"DeepseekV3ForCausalLM\"] or "
     "[\"DeepseekV2ForCausalLM\"] or [\"DeepseekV32ForCausalLM\"] or "
     "[\"GlmMoeDsaForCausalLM\"] or [\"Glm4MoeLiteForCausalLM\"] or "
     "[\"DeepseekV4ForCausalLM\"] or [\"DeepseekV41ForCausalLM\"], found 'LlamaForCausalLM'"},
    {"architectures", NULL, STATUS_UNSUPPORTED, "architectures: expected"},
    {"architectures", "[]", STATUS_UNSUPPORTED, "found an array"},
    {"hidden_size", NULL, STATUS_INVALID,
     "dir/config.json: hidden_size: expected an integer from 1 to 65536, found nothing"},
    {"hidden_size", "0", STATUS_INVALID, "found 0"},
    {"hidden_size", "-5", STATUS_INVALID, "found -5"},
    {"hidden_size", "18446744073709551616", STATUS_INVALID, "found 18446744073709551616"},
    {"rms_norm_eps", "1e400", STATUS_INVALID, "found 1e400"},
    {"hidden_size", "24.0", STATUS_INVALID, "found 24"},
    {"hidden_size", "\"24\"", STATUS_INVALID, "found '24'"},
    {"hidden_size", "[24]", STATUS_INVALID, "found an array"},
    {"vocab_size", "9223372036854775807", STATUS_INVALID, "found 9223372036854775807"},
    {"num_hidden_layers", "257", STATUS_INVALID, "expected an integer from 1 to 256, found 257"},
    {"num_nextn_predict_layers", "255", STATUS_INVALID, "expected an integer from 0 to 254"},
    {"qk_rope_head_dim", "5", STATUS_INVALID,
     "expected an even number (RoPE turns pairs), found 5"},
    {"attention_bias", "true", STATUS_UNSUPPORTED, "attention_bias: expected false"},
    {"attention_bias", "0", STATUS_INVALID, "attention_bias: expected true or false, found 0"},
    {"hidden_act", "\"gelu\"", STATUS_UNSUPPORTED, "hidden_act: expected silu, found 'gelu'"},
    {"scoring_func", "\"tanh\"", STATUS_UNSUPPORTED,
     "scoring_func: expected sigmoid or softmax or sqrtsoftplus, found 'tanh'"},
    {"topk_method", "\"noaux\"", STATUS_UNSUPPORTED,
     "topk_method: expected noaux_tc or group_limited_greedy or greedy or gready, found 'noaux'"},
    {"n_group", "3", STATUS_INVALID, "n_group: expected a divisor of n_routed_experts, found 3"},
    {"n_group", "8", STATUS_INVALID, "groups of two experts or more"},
    {"topk_group", "5", STATUS_INVALID, "topk_group: expected an integer from 1 to 4, found 5"},
    {"num_experts_per_tok", "5", STATUS_INVALID, "no more experts than topk_group groups hold"},
    {"num_experts_per_tok", "9", STATUS_INVALID, "expected an integer from 1 to 8, found 9"},
    {"n_routed_experts", "2000", STATUS_INVALID, "expected an integer from 0 to 1024"},
    {"rms_norm_eps", "\"x\"", STATUS_INVALID, "rms_norm_eps: expected a number from 1e-30 to 1"},
    {"rms_norm_eps", "0", STATUS_INVALID,
     "rms_norm_eps: expected a number from 1e-30 to 1, found 0"},
    {"rms_norm_eps", "-1e-6", STATUS_INVALID, "rms_norm_eps: expected a number"},
    {"rms_norm_eps", "1.5", STATUS_INVALID, "rms_norm_eps: expected a number"},
    {"rms_norm_eps", "NaN", STATUS_INVALID, "dir/config.json"},
    {"rms_norm_eps", "1e999", STATUS_INVALID, "dir/config.json"},
    {"routed_scaling_factor", "0", STATUS_INVALID, "routed_scaling_factor: expected a number"},
    {"routed_scaling_factor", "-2.5", STATUS_INVALID, "routed_scaling_factor: expected a number"},
    {"rope_theta", "-10000", STATUS_INVALID, "rope_theta: expected a number"},
    {"rope_theta", "1", STATUS_INVALID, "rope_theta: expected a number"},
    {"rope_theta", "0", STATUS_INVALID, "rope_theta: expected a number"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 2}", STATUS_UNSUPPORTED,
     "dir/config.json: rope_scaling.type: expected default or yarn, found 'linear'"},
    {"rope_scaling", "{\"rope_type\": \"longrope\"}", STATUS_UNSUPPORTED,
     "rope_scaling.rope_type: expected default or yarn, found 'longrope'"},
    {"rope_parameters", "{\"rope_type\": \"llama3\"}", STATUS_UNSUPPORTED,
     "rope_parameters.rope_type: expected default or yarn, found 'llama3'"},
    {"rope_scaling", "\"yarn\"", STATUS_INVALID,
     "rope_scaling: expected an object or null, found 'yarn'"},
    {"rope_scaling", SCALING(""), STATUS_INVALID,
     "rope_scaling.original_max_position_embeddings: expected an integer"},
    {"rope_scaling", "{\"type\": \"yarn\", \"original_max_position_embeddings\": 64}",
     STATUS_INVALID, "rope_scaling.factor: expected a number from 1 to 1e+06, found nothing"},
    {"rope_scaling", SCALING(", \"original_max_position_embeddings\": 64, \"beta_fast\": 0"),
     STATUS_INVALID, "rope_scaling.beta_fast"},
    {"rope_scaling", SCALING(", \"original_max_position_embeddings\": 64, \"beta_slow\": 33"),
     STATUS_INVALID, "rope_scaling.beta_slow: expected no more than beta_fast, found 33"},
    {"rope_scaling", SCALING(", \"original_max_position_embeddings\": 64, \"mscale\": -1"),
     STATUS_INVALID, "rope_scaling.mscale: expected a number"},
    {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 0}", STATUS_INVALID,
     "rope_scaling.factor: expected a number from 1"},
    {"eos_token_id", "40", STATUS_INVALID, "eos_token_id: expected a token id from 0 to 39"},
    {"eos_token_id", "[1, 40]", STATUS_INVALID, "eos_token_id: expected a token id from 0 to 39"},
    {"quantization_config", "{\"quant_method\": \"gptq\"}", STATUS_UNSUPPORTED,
     "dir/config.json: quantization_config.quant_method: expected fp8, compressed-tensors (experts "
     "in INT4 or MXFP4), or no quantization (docs/models.md), found 'gptq'"},
    {"quantization_config", "{}", STATUS_UNSUPPORTED,
     "quant_method: expected fp8 or compressed-tensors, found nothing"},
    {"quantization_config", "{\"quant_method\": \"fp8\"}", STATUS_UNSUPPORTED,
     "weight_block_size: expected [128, 128], found no list of two"},
    {"quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [64, 128]}",
     STATUS_UNSUPPORTED, "weight_block_size: expected [128, 128], found [64, 128]"},
    {"quantization_config", "{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}", STATUS_UNSUPPORTED,
     "fmt: expected e4m3, found 'e5m2'"},
    {"quantization_config", "{\"quant_method\": \"fp8\", \"activation_scheme\": \"static\"}",
     STATUS_UNSUPPORTED, "activation_scheme: expected dynamic, found 'static'"},
    {"eos_token_id", "\"</s>\"", STATUS_INVALID, "an integer or a list of integers, found '</s>'"},
    {"eos_token_id", "[2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]", STATUS_TOO_LARGE,
     "at most 16 different ids"},
    {"max_position_embeddings", "2000000", STATUS_INVALID, "expected an integer from 1 to 1048576"},
};

TEST(what_cannot_run_is_refused_by_name) {
    for (size_t i = 0; i < ARRAY_COUNT(rejections); i++) {
        const struct rejection *row = &rejections[i];
        const char *text = refusal(CONFIG({row->key, row->json}), row->status);
        if (!strstr(text, row->message)) fail_msg("'%s' lacks '%s'", text, row->message);
    }
    assert_non_null(
        strstr(refusal(BYTES_LITERAL("[1]"), STATUS_INVALID), "expected a JSON object"));
    assert_non_null(strstr(refusal(BYTES_LITERAL("{\"a\":"), STATUS_INVALID), "not valid JSON"));
    assert_non_null(strstr(refusal((struct bytes){NULL, 0}, STATUS_INVALID), "not valid JSON"));
}

/* V4.1 with four layers. */
static struct bytes with_sources(const char *ratios, const char *entries, const char *indexes,
                                 const char *candidate, const char *dense) {
    return CONFIG({"architectures", "[\"DeepseekV41ForCausalLM\"]"}, {"num_hidden_layers", "4"},
                  {"head_dim", "16"}, {"sliding_window", "8"}, {"o_groups", "1"},
                  {"o_lora_rank", "8"}, {"index_n_heads", "2"}, {"index_head_dim", "8"},
                  {"index_topk", "4"}, {"candidate_topk_blocks", "2"},
                  {"candidate_block_size", "2"}, {"first_k_dense_replace", dense},
                  {"compress_ratios", ratios}, {"kv_source_layer_ids", entries},
                  {"index_source_layer_ids", indexes}, {"candidate_source_layer_id", candidate},
                  {"image_token_id", "39"});
}

/* Choices of entries would otherwise be numbers of others, or of none. */
TEST(sources_of_entries_must_fit) {
    static const struct {
        const char *ratios, *entries, *indexes, *candidate, *dense, *message;
    } rows[] = {
        {"[0, 1, 4, 4]", "[1, 2]", "[1]", "null", "0", "index_source_layer_ids: expected for each"},
        {"[0, 4, 4, 4]", "[1, 2]", "[1, 3]", "null", "0", "a layer in both lists of sources"},
        {"[0, 4, 4, 4]", "[1]", "[1]", "2", "0",
         "candidate_source_layer_id: expected one of index_source_layer_ids"},
        {"[0, 4, 4, 4]", "[1]", "[1]", "0", "0", "candidate_source_layer_id: expected one of"},
        {"[0, 4, 1, 1]", "[1, 2]", "[1, 2]", "1", "0", "of the same ratio as those behind it"},
        {"[0, 4, 4, 4]", "[2]", "[1]", "null", "0", "kv_source_layer_ids: expected"},
        {"[0, 4, 4, 4]", "[1]", "[1]", "null", "1", "n_routed_experts: expected experts in each"},
    };
    struct shape shape = parsed(with_sources("[0, 2, 1, 1]", "[1, 2]", "[1, 2, 3]", "2", "0"));
    assert_int_equal(shape.layer_kinds[3].entry_source, 2);
    assert_int_equal(shape.layer_kinds[3].index_source, 3);
    assert_int_equal(shape.image_token, 39);
    assert_int_equal(parsed(CONFIG({"image_token_id", "39"})).image_token, 0); /* V3 has none */
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const bool dense = rows[i].dense[0] != '0';
        const char *text = refusal(with_sources(rows[i].ratios, rows[i].entries, rows[i].indexes,
                                                rows[i].candidate, rows[i].dense),
                                   dense ? STATUS_UNSUPPORTED : STATUS_INVALID);
        if (!strstr(text, rows[i].message)) fail_msg("'%s' lacks '%s'", text, rows[i].message);
    }
}

static double number_of(const struct tree *object, const char *key) {
    double value = 0;
    assert_true(tree_get_number(tree_member(object, key), &value));
    return value;
}

static void assert_close(double found, double expected, const char *name) {
    if (!(found >= expected * (1 - 2.5e-7) && found <= expected * (1 + 2.5e-7)))
        fail_msg("%s: found %.9g, expected %.9g", name, found, expected);
}

static void add_scaling(const struct tree *scaling, const char *form, char *out, size_t room) {
    static const char *const keys[] = {"factor", "mscale", "mscale_all_dim",
                                       "original_max_position_embeddings"};
    size_t at = format_text(out, room, "{\"%s\": \"yarn\"", form);
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        if (tree_member(scaling, keys[i]))
            at += format_text(out + at, room - at, ", \"%s\": %.9g", keys[i],
                              number_of(scaling, keys[i]));
    format_text(out + at, room - at, "}");
}

static void check_rope(const struct tree *golden) {
    const struct tree *scaling = tree_member(golden, "rope_scaling");
    const struct tree *frequencies = tree_member(golden, "inv_freq");
    struct bytes name;
    char dim[32], nope[32], theta[32], yarn[512] = "null";
    format_text(dim, sizeof dim, "%g", number_of(golden, "dim"));
    format_text(nope, sizeof nope, "%g", number_of(golden, "qk_nope_head_dim"));
    format_text(theta, sizeof theta, "%.17g", number_of(golden, "base"));
    if (!tree_is_null(scaling)) add_scaling(scaling, "type", yarn, sizeof yarn);
    struct shape shape = parsed(CONFIG({"qk_rope_head_dim", dim}, {"qk_nope_head_dim", nope},
                                       {"rope_theta", theta}, {"rope_scaling", yarn}));
    assert_true(tree_get_string(tree_member(golden, "name"), &name));
    assert_int_equal(tree_count(frequencies), shape.rope_dim / 2);
    for (uint32_t i = 0; i < shape.rope_dim / 2; i++) {
        double expected;
        assert_true(tree_get_number(tree_at(frequencies, i), &expected));
        assert_close((double)shape.rope_frequency[i], expected, name.data);
    }
    assert_close((double)shape.attention_scale, number_of(golden, "softmax_scale"), name.data);
    assert_close((double)shape.rope_amplitude, number_of(golden, "cos_sin_multiplier"), name.data);
    assert_int_equal(shape.yarn, !tree_is_null(scaling));
}

TEST(rope_equals_the_goldens) {
    FILE *file = fopen(golden_path, "rb");
    assert_non_null(file);
    const size_t text_bytes = 4 << 20, memory_bytes = 64 << 20;
    char *text = malloc(text_bytes), *memory = malloc(memory_bytes);
    struct bytes json = {text, fread(text, 1, text_bytes, file)};
    fclose(file);
    struct arena arena;
    struct error error;
    const struct tree *root;
    arena_over(&arena, memory, memory_bytes);
    assert_int_equal(tree_parse(&arena, json, "ops.json", &root, &error), STATUS_OK);
    const struct tree *cases = tree_member(root, "rope");
    assert_true(tree_count(cases) >= 7);
    for (size_t i = 0; i < tree_count(cases); i++)
        check_rope(tree_at(cases, i));
    free(text);
    free(memory);
}

#define YARN_KEYS "\"factor\": 40, \"original_max_position_embeddings\": 64"

static void assert_same_rope(const struct shape *a, const struct shape *b) {
    assert_int_equal(a->yarn, b->yarn);
    assert_int_equal(a->yarn_original_context, b->yarn_original_context);
    assert_true(a->rope_theta == b->rope_theta && a->yarn_factor == b->yarn_factor);
    assert_true(a->rope_amplitude == b->rope_amplitude && a->attention_scale == b->attention_scale);
    assert_memory_equal(a->rope_frequency, b->rope_frequency, sizeof a->rope_frequency);
}

/* One YaRN in every spelling gives the same rotation. */
TEST(rope_spellings_agree) {
    struct shape old = parsed(
        CONFIG({"rope_theta", "5000"}, {"rope_scaling", "{\"type\": \"yarn\", " YARN_KEYS "}"}));
    const struct shape others[] = {
        parsed(CONFIG({"rope_theta", "5000.0"},
                      {"rope_scaling", "{\"rope_type\": \"yarn\", " YARN_KEYS "}"})),
        parsed(CONFIG(
            {"rope_parameters", "{\"rope_type\": \"yarn\", \"rope_theta\": 5000, " YARN_KEYS "}"})),
        parsed(CONFIG({"rope_theta", "5000"}, {"rope_scaling", "null"},
                      {"rope_parameters", "{\"rope_type\": \"yarn\", " YARN_KEYS
                                          ", \"beta_fast\": 32, \"beta_slow\": 1}"})),
    };
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        assert_same_rope(&others[i], &old);
    const struct shape plain = parsed(CONFIG_BASE);
    const struct shape spelled[] = {
        parsed(CONFIG({"rope_scaling", "{\"type\": \"default\"}"})),
        parsed(CONFIG({"rope_scaling", "{}"})),
        parsed(
            CONFIG({"rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 10000.0}"})),
    };
    for (size_t i = 0; i < ARRAY_COUNT(spelled); i++)
        assert_same_rope(&spelled[i], &plain);
    assert_false(parsed(CONFIG({"rope_interleave", "false"})).rope_interleaved);
    struct shape factor = parsed(CONFIG(
        {"rope_scaling", "{\"type\": \"yarn\", \"attention_factor\": 1.25, " YARN_KEYS "}"}));
    assert_true(factor.rope_amplitude == 1.25f);
    assert_true(factor.attention_scale == plain.attention_scale);
}

int main(int argc, char **argv) {
    check(argc == 2);
    golden_path = argv[1];
    return test_cases_run();
}
