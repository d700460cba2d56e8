/* SPDX-License-Identifier: Apache-2.0
 * Protects the numbers of a model in a GGUF file: each key of llama.cpp's architecture deepseek2
 * becomes the one of config.json, older files get what they leave out, and what is missing or of
 * another architecture is refused by its name.
 */
#include "test_case.h"

#include "base/check.h"
#include "compute/weights/gguf_config.h"
#include "compute/weights/shape.h"
#include "gguf_bytes.h"

#define KEY(name) "deepseek2." name

static char memory[1 << 20], json[1 << 16];
static struct error error;

enum change { NOTHING, OLD_V3, OLD_V2, YARN, TIED };

static void put_model(struct gguf_bytes *file, enum change change) {
    const bool old = change == OLD_V3 || change == OLD_V2;
    const float bias[] = {0};
    gguf_bytes_text(file, "general.architecture", "deepseek2");
    gguf_bytes_count(file, KEY("block_count"), 5);
    gguf_bytes_count(file, KEY("nextn_predict_layers"), 1);
    gguf_bytes_count(file, KEY("context_length"), 4096);
    gguf_bytes_count(file, KEY("embedding_length"), 64);
    gguf_bytes_put(gguf_bytes_array(file, KEY("feed_forward_length"), GGUF_INT32, 2),
                   (int32_t[]){96, 96}, 8);
    gguf_bytes_count(file, KEY("attention.head_count"), 4);
    gguf_bytes_count(file, KEY("attention.kv_lora_rank"), 32);
    gguf_bytes_count(file, KEY("attention.key_length"), old ? 48 : 40);
    gguf_bytes_count(file, KEY("attention.value_length"), old ? 24 : 32);
    if (!old) {
        gguf_bytes_count(file, KEY("attention.key_length_mla"), 48);
        gguf_bytes_count(file, KEY("attention.value_length_mla"), 24);
    }
    gguf_bytes_count(file, KEY("rope.dimension_count"), 16);
    gguf_bytes_float(file, KEY("rope.freq_base"), 50000);
    gguf_bytes_float(file, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    gguf_bytes_count(file, KEY("leading_dense_block_count"), 1);
    gguf_bytes_count(file, KEY("expert_count"), change == OLD_V3 ? 256 : 160);
    gguf_bytes_count(file, KEY("expert_used_count"), 6);
    gguf_bytes_count(file, KEY("expert_shared_count"), 2);
    gguf_bytes_count(file, KEY("expert_feed_forward_length"), 32);
    gguf_bytes_float(file, KEY("expert_weights_scale"), 2.5f);
    if (change != OLD_V2) {
        gguf_bytes_count(file, KEY("expert_gating_func"), 2);
        gguf_bytes_bool(file, KEY("expert_weights_norm"), true);
        gguf_bytes_tensor(file, "blk.1.exp_probs_b.bias", 0, 1, (uint64_t[]){1}, bias, 4);
    }
    if (!old) {
        gguf_bytes_count(file, KEY("expert_group_count"), 16);
        gguf_bytes_count(file, KEY("expert_group_used_count"), 2);
    }
    if (change == YARN) {
        gguf_bytes_text(file, KEY("rope.scaling.type"), "yarn");
        gguf_bytes_float(file, KEY("rope.scaling.factor"), 40);
        gguf_bytes_count(file, KEY("rope.scaling.original_context_length"), 1024);
        gguf_bytes_float(file, KEY("rope.scaling.yarn_log_multiplier"), 0.0707f);
    }
    gguf_bytes_count(file, "tokenizer.ggml.bos_token_id", 0);
    gguf_bytes_count(file, "tokenizer.ggml.eos_token_id", 1);
    gguf_bytes_count(file, "tokenizer.ggml.eot_token_id", 1);
    struct gguf_buffer *tokens = gguf_bytes_array(file, "tokenizer.ggml.tokens", GGUF_STRING, 3);
    gguf_bytes_put_string(tokens, bytes_of("a"));
    gguf_bytes_put_string(tokens, bytes_of("b"));
    gguf_bytes_put_string(tokens, bytes_of("<|im_end|>"));
    gguf_bytes_tensor(file, "token_embd.weight", 0, 2, (uint64_t[]){1, 3}, (float[3]){0}, 12);
    if (change != TIED)
        gguf_bytes_tensor(file, "output.weight", 0, 2, (uint64_t[]){1, 3}, (float[3]){0}, 12);
}

static enum status parse(struct gguf_bytes *built, struct shape *shape) {
    struct bytes file = gguf_bytes_end(built);
    struct json_writer writer = {.out = json, .room = sizeof json};
    struct arena arena;
    struct gguf gguf;
    arena_over(&arena, memory, sizeof memory);
    enum status status = gguf_read(file, "m.gguf", &arena, &gguf, &error);
    if (!status) status = gguf_config_write(&gguf, &writer, &error);
    if (!status) status = shape_parse((struct bytes){json, writer.count}, "m.gguf", shape, &error);
    free((void *)(uintptr_t)file.data);
    return status;
}

static struct shape shape_of(enum change change) {
    struct gguf_bytes file = {.version = 3};
    struct shape shape;
    put_model(&file, change);
    if (parse(&file, &shape)) fail_msg("%s", error.text);
    return shape;
}

TEST(keys_become_the_shape) {
    struct shape shape = shape_of(NOTHING);
    assert_int_equal(shape.architecture, ARCHITECTURE_DEEPSEEK_V3);
    assert_true(shape.layers == 4 && shape.mtp_layers == 1 && shape.vocab == 3);
    assert_true(shape.hidden == 64 && shape.dense_width == 96 && shape.heads == 4);
    assert_true(shape.q_rank == 0 && shape.kv_rank == 32 && shape.nope_dim == 32);
    assert_true(shape.rope_dim == 16 && shape.value_dim == 24 && shape.context_max == 4096);
    assert_true(shape.rope_theta == 50000 && shape.rms_epsilon == 1e-5f && !shape.yarn);
    assert_true(shape.experts == 160 && shape.experts_per_token == 6 && shape.shared_experts == 2);
    assert_true(shape.expert_width == 32 && shape.routed_scaling == 2.5f);
    assert_true(shape.normalize_weights && shape.scoring == ROUTER_SIGMOID);
    assert_true(shape.method == ROUTER_NOAUX_TC && shape.groups == 16 && shape.groups_kept == 2);
    assert_false(shape_layer_is_moe(&shape, 0));
    assert_true(shape_layer_is_moe(&shape, 1) && !shape.tied_head && shape.bos_token == 0);
    assert_true(shape.eos_token_count == 2 && shape.eos_tokens[0] == 1);
    assert_int_equal(shape.eos_tokens[1], 2); /* known by its text */
}

TEST(older_files_get_what_they_leave_out) {
    struct shape shape = shape_of(OLD_V3);
    assert_true(shape.groups == 8 && shape.groups_kept == 4 && shape.nope_dim == 32);
    assert_true(shape.value_dim == 24);
    shape = shape_of(OLD_V2);
    assert_int_equal(shape.architecture, ARCHITECTURE_DEEPSEEK_V2);
    assert_true(shape.scoring == ROUTER_SOFTMAX && shape.method == ROUTER_GROUP_LIMITED);
    assert_true(shape.groups == 8 && shape.groups_kept == 3 && !shape.normalize_weights);
    assert_true(shape.routed_scaling == 2.5f);
}

TEST(yarn_and_a_tied_head) {
    struct shape shape = shape_of(YARN);
    assert_true(shape.yarn && shape.yarn_factor == 40 && shape.yarn_original_context == 1024);
    assert_true(shape.yarn_mscale == 0.707f && shape.yarn_mscale_all_dim == 0.707f);
    assert_true(shape.rope_amplitude == 1);
    assert_true(shape_of(TIED).tied_head);
}

static void refuse(struct gguf_bytes *file, const char *expected) {
    struct shape shape;
    assert_int_not_equal(parse(file, &shape), STATUS_OK);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, expected)) fail_msg("'%s' lacks '%s'", error.text, expected);
}

TEST(what_does_not_run_is_named) {
    struct gguf_bytes file = {.version = 3};
    gguf_bytes_text(&file, "general.architecture", "llama\033");
    refuse(&file, "general.architecture: expected deepseek2 (DeepSeek V2 to V3.1, Kimi K2, "
                  "Moonlight, GLM-4.7-Flash), found llama\\x1b: ");
    file = (struct gguf_bytes){.version = 3};
    gguf_bytes_text(&file, "general.architecture", "deepseek2");
    refuse(&file, "tensor 'token_embd.weight': expected a matrix");
    gguf_bytes_text(&file, "general.architecture", "deepseek2");
    gguf_bytes_count(&file, KEY("block_count"), 5);
    gguf_bytes_tensor(&file, "token_embd.weight", 0, 2, (uint64_t[]){1, 3}, (float[3]){0}, 12);
    refuse(&file, "deepseek2.rope.dimension_count: expected a count, found nothing");
    put_model(&file, NOTHING);
    gguf_bytes_text(&file, KEY("rope.scaling.type"), "linear");
    refuse(&file, "deepseek2.rope.scaling.type: expected none or yarn, found another value");
}
