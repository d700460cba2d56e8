/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/gguf_config.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/limits.h"

#define ARCHITECTURE "deepseek2"
#define EMBEDDING "token_embd.weight"

/* `key` is one of ours; those of the model have its architecture in front. */
struct config_reader {
    const struct gguf *gguf;
    struct json_writer *json;
    struct error *error;
    enum status status; /* the first failure */
};

static const struct gguf_value *config_find(const struct config_reader *reader, const char *key) {
    char name[96];
    format_text(name, sizeof name, ARCHITECTURE ".%s", key);
    return gguf_find(reader->gguf, name);
}

static void config_refuse(struct config_reader *reader, const char *key, const char *expected) {
    if (reader->status) return;
    reader->status = error_set(
        reader->error, STATUS_INVALID,
        "%s: " ARCHITECTURE ".%s: expected %s, found %s; convert the model again",
        reader->gguf->file, key, expected, config_find(reader, key) ? "another value" : "nothing");
}

/* A count, or the first of an array with one for each layer. */
static bool config_read_count(const struct config_reader *reader, const char *key, uint64_t *out) {
    const struct gguf_value *value = config_find(reader, key);
    size_t at = 0;
    int64_t first = 0;
    if (gguf_get_count(value, out)) return true;
    if (!value || !value->is_array || !gguf_next_integer(value, &at, &first) || first < 0)
        return false;
    *out = (uint64_t)first;
    return true;
}

static uint64_t config_need_count(struct config_reader *reader, const char *key) {
    uint64_t count = 0;
    if (!config_read_count(reader, key, &count)) config_refuse(reader, key, "a count");
    return count;
}

static uint64_t config_count_or(const struct config_reader *reader, const char *key,
                                uint64_t fallback) {
    uint64_t count = fallback;
    (void)config_read_count(reader, key, &count);
    return count;
}

/* Floats as text that gives the same float. */
static void config_write_number(struct config_reader *reader, const char *name, double number) {
    char text[40];
    format_text(text, sizeof text, "%.9g", number);
    json_writer_print(reader->json, ",\"%s\":%s", name, text);
}

static void config_copy_number(struct config_reader *reader, const char *key, const char *name) {
    double number = 0;
    if (gguf_get_number(config_find(reader, key), &number) && isfinite(number))
        config_write_number(reader, name, number);
}

static void config_write_count(struct config_reader *reader, const char *name, uint64_t count) {
    json_writer_print(reader->json, ",\"%s\":%lu", name, count);
}

static void config_write_dimensions(struct config_reader *reader,
                                    const struct gguf_tensor *embedding) {
    const uint64_t next = config_count_or(reader, "nextn_predict_layers", 0);
    const uint64_t blocks = config_need_count(reader, "block_count");
    const uint64_t rope = config_need_count(reader, "rope.dimension_count");
    const bool split = config_find(reader, "attention.key_length_mla") != NULL;
    const char *key = split ? "attention.key_length_mla" : "attention.key_length";
    const uint64_t key_length = config_need_count(reader, key);
    if (next >= blocks) config_refuse(reader, "nextn_predict_layers", "fewer than block_count");
    if (key_length <= rope) config_refuse(reader, key, "more than rope.dimension_count");
    config_write_count(reader, "vocab_size", embedding->shape[1]);
    config_write_count(reader, "hidden_size", config_need_count(reader, "embedding_length"));
    config_write_count(reader, "num_hidden_layers", blocks - next);
    config_write_count(reader, "num_nextn_predict_layers", next);
    config_write_count(reader, "max_position_embeddings",
                       config_need_count(reader, "context_length"));
    config_write_count(reader, "num_attention_heads",
                       config_need_count(reader, "attention.head_count"));
    if (gguf_find_tensor(reader->gguf, "blk.0.attn_q_a.weight"))
        config_write_count(reader, "q_lora_rank",
                           config_need_count(reader, "attention.q_lora_rank"));
    config_write_count(reader, "kv_lora_rank", config_need_count(reader, "attention.kv_lora_rank"));
    config_write_count(reader, "qk_nope_head_dim", key_length - rope);
    config_write_count(reader, "qk_rope_head_dim", rope);
    config_write_count(
        reader, "v_head_dim",
        config_need_count(reader, split ? "attention.value_length_mla" : "attention.value_length"));
    config_copy_number(reader, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
}

/* Groups of experts of models that were converted before converters wrote them. */
static const struct known_groups {
    uint64_t experts;
    bool sigmoid;
    uint64_t groups, kept;
} known_groups[] = {
    {256, true, 8, 4},  /* DeepSeek-V3, R1, V3.1 */
    {160, false, 8, 3}, /* DeepSeek-V2, V2.5, Coder-V2 */
};

static void config_write_groups(struct config_reader *reader, uint64_t experts, bool sigmoid,
                                bool biased) {
    uint64_t groups = config_count_or(reader, "expert_group_count", 0);
    uint64_t kept = config_count_or(reader, "expert_group_used_count", groups);
    for (size_t i = 0; !groups && i < ARRAY_COUNT(known_groups); i++)
        if (known_groups[i].experts == experts && known_groups[i].sigmoid == sigmoid) {
            groups = known_groups[i].groups;
            kept = known_groups[i].kept;
            break;
        }
    if (!groups) groups = kept = 1;
    config_write_count(reader, "n_group", groups);
    config_write_count(reader, "topk_group", kept);
    json_writer_print(reader->json, ",\"topk_method\":\"%s\"",
                      biased       ? "noaux_tc"
                      : groups > 1 ? "group_limited_greedy"
                                   : "greedy");
}

/* 1: softmax, 2: sigmoid. Older files of DeepSeek-V2 and of GLM-4.7-Flash have no such key. */
static bool config_is_sigmoid(struct config_reader *reader, const struct gguf_tensor *embedding) {
    const uint64_t blocks = config_count_or(reader, "block_count", 0);
    const bool glm = embedding->shape[1] == 154880 && (blocks == 47 || blocks == 48);
    uint64_t function = config_count_or(reader, "expert_gating_func", 0);
    if (!function) function = glm ? 2 : 1;
    if (function > 2) config_refuse(reader, "expert_gating_func", "1 (softmax) or 2 (sigmoid)");
    return function == 2;
}

/* True if any layer has the correction bias of the router. */
static bool config_is_biased(const struct gguf *gguf) {
    for (uint32_t i = 0; i < gguf->tensor_count; i++)
        if (strstr(gguf->tensors[i].name, ".exp_probs_b")) return true;
    return false;
}

static void config_write_experts(struct config_reader *reader,
                                 const struct gguf_tensor *embedding) {
    const uint64_t experts = config_count_or(reader, "expert_count", 0);
    const bool sigmoid = config_is_sigmoid(reader, embedding);
    const bool biased = config_is_biased(reader->gguf);
    bool normalizes = false;
    (void)gguf_get_bool(config_find(reader, "expert_weights_norm"), &normalizes);
    json_writer_print(reader->json, ",\"architectures\":[\"%s\"]",
                      sigmoid || normalizes || biased ? "DeepseekV3ForCausalLM"
                                                      : "DeepseekV2ForCausalLM");
    config_write_count(reader, "intermediate_size",
                       config_need_count(reader, "feed_forward_length"));
    config_write_count(reader, "n_routed_experts", experts);
    if (!experts) return;
    config_write_count(reader, "first_k_dense_replace",
                       config_count_or(reader, "leading_dense_block_count", 0));
    config_write_count(reader, "moe_intermediate_size",
                       config_need_count(reader, "expert_feed_forward_length"));
    config_write_count(reader, "n_shared_experts",
                       config_count_or(reader, "expert_shared_count", 0));
    config_write_count(reader, "num_experts_per_tok",
                       config_need_count(reader, "expert_used_count"));
    json_writer_print(reader->json, ",\"scoring_func\":\"%s\",\"norm_topk_prob\":%s",
                      sigmoid ? "sigmoid" : "softmax", normalizes ? "true" : "false");
    double scale = 0;
    (void)gguf_get_number(config_find(reader, "expert_weights_scale"), &scale);
    config_write_number(reader, "routed_scaling_factor", scale > 0 && isfinite(scale) ? scale : 1);
    config_write_groups(reader, experts, sigmoid, biased);
}

/* Converters write a tenth of mscale_all_dim, rounded to a float, and nothing of mscale, which is
 * the same in all published models. */
static void config_write_yarn(struct config_reader *reader) {
    double multiplier = 0, factor = 0;
    char text[40];
    if (!gguf_get_number(config_find(reader, "rope.scaling.factor"), &factor) || !isfinite(factor))
        config_refuse(reader, "rope.scaling.factor", "a number");
    json_writer_print(reader->json, ",\"rope_scaling\":{\"type\":\"yarn\",\"%s\":%lu",
                      "original_max_position_embeddings",
                      config_need_count(reader, "rope.scaling.original_context_length"));
    config_write_number(reader, "factor", factor);
    if (gguf_get_number(config_find(reader, "rope.scaling.yarn_log_multiplier"), &multiplier) &&
        isfinite(multiplier)) {
        format_text(text, sizeof text, "%.6g", multiplier * 10);
        json_writer_print(reader->json, ",\"mscale\":%s,\"mscale_all_dim\":%s", text, text);
    }
    config_copy_number(reader, "rope.scaling.yarn_beta_fast", "beta_fast");
    config_copy_number(reader, "rope.scaling.yarn_beta_slow", "beta_slow");
    json_writer_text(reader->json, "}");
}

static void config_write_rope(struct config_reader *reader) {
    struct bytes type = {"none", 4};
    config_copy_number(reader, "rope.freq_base", "rope_theta");
    (void)gguf_get_string(config_find(reader, "rope.scaling.type"), &type);
    if (bytes_equal(type, BYTES_LITERAL("yarn")))
        config_write_yarn(reader);
    else if (!bytes_equal(type, BYTES_LITERAL("none")))
        config_refuse(reader, "rope.scaling.type", "none or yarn");
}

/* Texts of tokens that end an answer, whether or not the file names their ids: llama.cpp knows them
 * by their texts, too. */
static bool config_ends_answers(struct bytes token) {
    static const char *const texts[] = {"<|im_end|>", "<|endoftext|>",
                                        "<\xEF\xBD\x9C"
                                        "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (bytes_equal(token, bytes_of(texts[i]))) return true;
    return false;
}

static void config_write_tokens(struct config_reader *reader, uint64_t vocab) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const struct gguf_value *tokens = gguf_find(reader->gguf, "tokenizer.ggml.tokens");
    const char *between = "";
    struct bytes token;
    uint64_t id = 0;
    if (gguf_get_count(gguf_find(reader->gguf, "tokenizer.ggml.bos_token_id"), &id))
        config_write_count(reader, "bos_token_id", id);
    json_writer_text(reader->json, ",\"eos_token_id\":[");
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        if (!gguf_get_count(gguf_find(reader->gguf, keys[i]), &id) || id >= vocab) continue;
        json_writer_print(reader->json, "%s%lu", between, id);
        between = ",";
    }
    size_t at = 0;
    for (id = 0; id < vocab && gguf_next_string(tokens, &at, &token); id++) {
        if (!config_ends_answers(token)) continue;
        json_writer_print(reader->json, "%s%lu", between, id);
        between = ",";
    }
    json_writer_text(reader->json, "]");
}

enum status gguf_config_check(const struct gguf *gguf, struct error *error) {
    struct bytes architecture = {"nothing", 7};
    (void)gguf_get_string(gguf_find(gguf, "general.architecture"), &architecture);
    if (bytes_equal(architecture, BYTES_LITERAL(ARCHITECTURE))) return STATUS_OK;
    char shown[64], safe[FORMAT_SAFE_BYTES(64)];
    format_text(shown, sizeof shown, "%.*s",
                (int)(architecture.count < 60 ? architecture.count : 60), architecture.data);
    (void)format_visible(safe, sizeof safe, shown);
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: general.architecture: expected " ARCHITECTURE
        " (DeepSeek V2 to V3.1, Kimi K2, Moonlight, GLM-4.7-Flash), found %s: give the "
        "original checkpoint of DeepSeek-V3.2 and GLM-5, and run others with llama.cpp",
        gguf->file, safe);
}

enum status gguf_config_write(const struct gguf *gguf, struct json_writer *writer,
                              struct error *error) {
    struct config_reader reader = {.gguf = gguf, .json = writer, .error = error};
    const struct gguf_tensor *embedding = gguf_find_tensor(gguf, EMBEDDING);
    enum status status = gguf_config_check(gguf, error);
    if (status) return status;
    if (!embedding || embedding->dims != 2 || embedding->shape[1] > LIMIT_VOCAB)
        return error_set(error, STATUS_NOT_FOUND,
                         "%s: tensor '" EMBEDDING "': expected a matrix of at most %d rows, found "
                         "%s",
                         gguf->file, LIMIT_VOCAB, embedding ? "another" : "none");
    json_writer_print(writer, "{\"tie_word_embeddings\":%s",
                      gguf_find_tensor(gguf, "output.weight") ? "false" : "true");
    config_write_dimensions(&reader, embedding);
    config_write_experts(&reader, embedding);
    config_write_rope(&reader);
    config_write_tokens(&reader, embedding->shape[1]);
    json_writer_text(writer, "}");
    return reader.status;
}
