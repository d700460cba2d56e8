/* SPDX-License-Identifier: Apache-2.0 */
#include "config_text.h"

#include "base/check.h"
#include "base/format.h"

static const struct config_key base_keys[] = {
    {"architectures", "[\"DeepseekV3ForCausalLM\"]"},
    {"vocab_size", "40"},
    {"hidden_size", "24"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "2"},
    {"q_lora_rank", "12"},
    {"kv_lora_rank", "16"},
    {"qk_nope_head_dim", "8"},
    {"qk_rope_head_dim", "4"},
    {"v_head_dim", "6"},
    {"intermediate_size", "20"},
    {"moe_intermediate_size", "10"},
    {"n_routed_experts", "8"},
    {"n_shared_experts", "1"},
    {"num_experts_per_tok", "2"},
    {"first_k_dense_replace", "1"},
    {"n_group", "4"},
    {"topk_group", "2"},
    {"topk_method", "\"noaux_tc\""},
    {"scoring_func", "\"sigmoid\""},
    {"max_position_embeddings", "256"},
    {"eos_token_id", "1"},
};

struct bytes config_text(const struct config_key *changes) {
    static char text[8192];
    size_t at = format_text(text, sizeof text, "{");
    for (size_t i = 0; i < ARRAY_COUNT(base_keys); i++) {
        const char *json = base_keys[i].json;
        for (const struct config_key *change = changes; change->key; change++)
            if (!strcmp(change->key, base_keys[i].key)) json = change->json;
        if (!json) continue;
        at += format_text(text + at, sizeof text - at, "%s\"%s\": %s", at > 1 ? ", " : "",
                          base_keys[i].key, json);
    }
    for (const struct config_key *change = changes; change->key; change++) {
        bool known = !change->json;
        for (size_t i = 0; i < ARRAY_COUNT(base_keys); i++)
            known |= !strcmp(change->key, base_keys[i].key);
        if (!known)
            at +=
                format_text(text + at, sizeof text - at, ", \"%s\": %s", change->key, change->json);
    }
    at += format_text(text + at, sizeof text - at, "}");
    check(at < sizeof text - 1);
    return (struct bytes){text, at};
}
