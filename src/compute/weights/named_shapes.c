/* SPDX-License-Identifier: Apache-2.0
 * Numbers are those of the published config.json files. Kimi K2 is K2-Thinking, the first with
 * experts in INT4; GLM-5 is its first release, where each layer has an indexer.
 */
#include "compute/weights/named_shapes.h"

#include "base/check.h"
#include "base/format.h"

#include <string.h>

#define YARN(factor, mscale, context)                                                              \
    "  \"rope_scaling\": {\"type\": \"yarn\", \"factor\": " factor ", \"beta_fast\": 32,\n"        \
    "    \"beta_slow\": 1, \"mscale\": " mscale ", \"mscale_all_dim\": " mscale ",\n"              \
    "    \"original_max_position_embeddings\": " context "},\n"

#define V3_ROUTER                                                                                  \
    "  \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, \"n_group\": 8, \"topk_group\": 4,\n"  \
    "  \"scoring_func\": \"sigmoid\", \"topk_method\": \"noaux_tc\", \"norm_topk_prob\": true,\n"  \
    "  \"routed_scaling_factor\": 2.5, \"rope_theta\": 10000, \"rms_norm_eps\": 1e-06,\n"

#define UNGROUPED_ROUTER(shared, chosen, scaling, theta)                                           \
    "  \"n_shared_experts\": " shared ", \"num_experts_per_tok\": " chosen ", \"n_group\": 1,\n"   \
    "  \"topk_group\": 1, \"scoring_func\": \"sigmoid\", \"topk_method\": \"noaux_tc\",\n"         \
    "  \"norm_topk_prob\": true, \"routed_scaling_factor\": " scaling ",\n"                        \
    "  \"rope_theta\": " theta ", \"rms_norm_eps\": 1e-05,\n"

#define V3_WIDTHS                                                                                  \
    "  \"hidden_size\": 7168, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048,\n"    \
    "  \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128,\n"                 \
    "  \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,\n"

#define V3_SIZES                                                                                   \
    V3_WIDTHS "  \"first_k_dense_replace\": 3, \"n_routed_experts\": 256,\n"                       \
              "  \"num_attention_heads\": 128, \"vocab_size\": 129280,\n"                          \
              "  \"max_position_embeddings\": 163840,\n" YARN("40", "1.0", "4096")

#define INDEXER(heads)                                                                             \
    "  \"index_n_heads\": " heads ", \"index_head_dim\": 128, \"index_topk\": 2048,\n"

#define V3_NAMES                                                                                   \
    "  \"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\",\n"

static const struct {
    const char *name;
    enum named_weights weights; /* as published */
    uint32_t layers;
    const char *keys;
} shapes[] = {
    {"v3", NAMED_WEIGHTS_FP8, 61, V3_NAMES V3_ROUTER V3_SIZES},
    {"v3.2", NAMED_WEIGHTS_FP8, 61,
     "  \"architectures\": [\"DeepseekV32ForCausalLM\"], \"model_type\": "
     "\"deepseek_v32\",\n" V3_ROUTER V3_SIZES INDEXER("64")},
    {"v2-lite", NAMED_WEIGHTS_FP8, 27,
     "  \"architectures\": [\"DeepseekV2ForCausalLM\"], \"model_type\": \"deepseek_v2\",\n"
     "  \"n_shared_experts\": 2, \"num_experts_per_tok\": 6, \"n_group\": 1, \"topk_group\": 1,\n"
     "  \"scoring_func\": \"softmax\", \"topk_method\": \"greedy\", \"norm_topk_prob\": false,\n"
     "  \"routed_scaling_factor\": 1.0, \"rope_theta\": 10000, \"rms_norm_eps\": 1e-06,\n"
     "  \"hidden_size\": 2048, \"first_k_dense_replace\": 1,\n"
     "  \"intermediate_size\": 10944, \"moe_intermediate_size\": 1408,\n"
     "  \"n_routed_experts\": 64, \"num_attention_heads\": 16, \"q_lora_rank\": null,\n"
     "  \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,\n"
     "  \"v_head_dim\": 128, \"vocab_size\": 102400, \"max_position_embeddings\": 163840,\n" YARN(
         "40", "0.707", "4096")},
    {"k2", NAMED_WEIGHTS_INT4_32, 61,
     "  \"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"kimi_k2\",\n" V3_WIDTHS
         UNGROUPED_ROUTER(
             "1", "8", "2.827",
             "50000") "  \"first_k_dense_replace\": 1, \"n_routed_experts\": 384, "
                      "\"num_attention_heads\": 64,\n"
                      "  \"vocab_size\": 163840, \"max_position_embeddings\": 262144,\n" YARN(
                          "64", "1.0", "4096")},
    {"glm-5", NAMED_WEIGHTS_BF16, 78,
     "  \"architectures\": [\"GlmMoeDsaForCausalLM\"], \"model_type\": "
     "\"glm_moe_dsa\",\n" UNGROUPED_ROUTER("1", "8", "2.5", "1000000") INDEXER(
         "32") "  \"hidden_size\": 6144, \"first_k_dense_replace\": 3,\n"
               "  \"intermediate_size\": 12288, \"moe_intermediate_size\": 2048,\n"
               "  \"n_routed_experts\": 256, \"num_attention_heads\": 64, \"q_lora_rank\": 2048,\n"
               "  \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 192, \"qk_rope_head_dim\": 64,\n"
               "  \"v_head_dim\": 256, \"vocab_size\": 154880, \"max_position_embeddings\": "
               "202752,\n"},
    {"moonlight", NAMED_WEIGHTS_BF16, 27,
     V3_NAMES UNGROUPED_ROUTER(
         "2", "6", "2.446",
         "50000") "  \"hidden_size\": 2048, \"first_k_dense_replace\": 1,\n"
                  "  \"intermediate_size\": 11264, \"moe_intermediate_size\": 1408,\n"
                  "  \"n_routed_experts\": 64, \"num_attention_heads\": 16, \"q_lora_rank\": "
                  "null,\n"
                  "  \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,\n"
                  "  \"v_head_dim\": 128, \"vocab_size\": 163840, \"max_position_embeddings\": "
                  "8192,\n"},
    {"glm-4.7-flash", NAMED_WEIGHTS_BF16, 47,
     "  \"architectures\": [\"Glm4MoeLiteForCausalLM\"], \"model_type\": "
     "\"glm4_moe_lite\",\n" UNGROUPED_ROUTER(
         "1", "4", "1.8",
         "1000000") "  \"hidden_size\": 2048, \"first_k_dense_replace\": 1,\n"
                    "  \"intermediate_size\": 10240, \"moe_intermediate_size\": 1536,\n"
                    "  \"n_routed_experts\": 64, \"num_attention_heads\": 20, \"q_lora_rank\": "
                    "768,\n"
                    "  \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 192, \"qk_rope_head_dim\": "
                    "64,\n"
                    "  \"v_head_dim\": 256, \"vocab_size\": 154880, \"max_position_embeddings\": "
                    "202752,\n"},
    {"dsv3b", NAMED_WEIGHTS_FP8, 8,
     V3_NAMES V3_ROUTER
     "  \"hidden_size\": 1024, \"first_k_dense_replace\": 1,\n"
     "  \"intermediate_size\": 2816, \"moe_intermediate_size\": 512,\n"
     "  \"n_routed_experts\": 64, \"num_attention_heads\": 16, \"q_lora_rank\": 384,\n"
     "  \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,\n"
     "  \"v_head_dim\": 128, \"vocab_size\": 8192, \"max_position_embeddings\": 163840,\n" YARN(
         "40", "1.0", "4096")},
    {"tiny", NAMED_WEIGHTS_FP8, 3,
     V3_NAMES V3_ROUTER
     "  \"hidden_size\": 192, \"first_k_dense_replace\": 1,\n"
     "  \"intermediate_size\": 320, \"moe_intermediate_size\": 96,\n"
     "  \"n_routed_experts\": 32, \"num_attention_heads\": 4, \"q_lora_rank\": 96,\n"
     "  \"kv_lora_rank\": 64, \"qk_nope_head_dim\": 32, \"qk_rope_head_dim\": 16,\n"
     "  \"v_head_dim\": 32, \"vocab_size\": 600, \"max_position_embeddings\": 2560,\n" YARN(
         "40", "1.0", "64")},
};

static const char *const weights_names[NAMED_WEIGHTS_COUNT] = {"auto",     "fp8",       "bf16",
                                                               "int4-g32", "int4-g128", "mxfp4"};

const char *named_shapes_weights_name(enum named_weights weights) {
    return weights_names[weights];
}

enum named_weights named_shapes_find_weights(const char *name) {
    uint32_t i = 0;
    while (i < NAMED_WEIGHTS_COUNT && strcmp(name, weights_names[i]) != 0)
        i++;
    return (enum named_weights)i;
}

#define PACKED(format, type, group)                                                                \
    "  \"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": \"" format  \
    "\",\n"                                                                                        \
    "    \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"weights\":\n"              \
    "      {\"num_bits\": 4, \"type\": \"" type                                                    \
    "\", \"symmetric\": true, \"strategy\": \"group\", "                                           \
    "\"group_size\": " group "}}}},\n"

const char *named_shapes_quantization(enum named_weights weights) {
    static const char *const texts[NAMED_WEIGHTS_COUNT] = {
        [NAMED_WEIGHTS_FP8] =
            "  \"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\",\n"
            "    \"activation_scheme\": \"dynamic\", \"weight_block_size\": [128, 128]},\n",
        [NAMED_WEIGHTS_INT4_32] = PACKED("pack-quantized", "int", "32"),
        [NAMED_WEIGHTS_INT4_128] = PACKED("pack-quantized", "int", "128"),
        [NAMED_WEIGHTS_MXFP4] = PACKED("mxfp4-pack-quantized", "float", "32"),
    };
    return texts[weights] ? texts[weights] : "";
}

enum named_weights named_shapes_weights_of(const struct shape *shape) {
    if (shape->expert_form != EXPERTS_PLAIN)
        return (enum named_weights)(NAMED_WEIGHTS_INT4_32 + (shape->expert_form - EXPERTS_INT4_32));
    return shape->fp8 ? NAMED_WEIGHTS_FP8 : NAMED_WEIGHTS_BF16;
}

size_t named_shapes_write_config(const struct named_shape *shape,
                                 char out[NAMED_SHAPES_CONFIG_BYTES]) {
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        if (strcmp(shape->name, shapes[i].name) != 0) continue;
        const uint32_t layers = shape->layers ? shape->layers : shapes[i].layers;
        return format_text(
            out, NAMED_SHAPES_CONFIG_BYTES,
            "{\n%s%s  \"num_hidden_layers\": %u, \"num_nextn_predict_layers\": %d,\n"
            "  \"hidden_act\": \"silu\", \"attention_bias\": false, \"tie_word_embeddings\": "
            "false,\n"
            "  \"bos_token_id\": 0, \"eos_token_id\": 1, \"torch_dtype\": \"bfloat16\"\n}\n",
            shapes[i].keys,
            named_shapes_quantization(shape->weights ? shape->weights : shapes[i].weights), layers,
            shape->mtp ? 1 : 0);
    }
    return 0;
}
