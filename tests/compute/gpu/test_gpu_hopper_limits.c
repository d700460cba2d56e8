/* SPDX-License-Identifier: Apache-2.0
 * Protects what the kernels for Hopper reject: shapes without a kernel are rejected by their name
 * in config.json, with what was expected and the cure; supported shapes are not. A kv_b of an
 * unsupported type is rejected in any layer that is used.
 */
#include "test_case.h"

#include "../weights/config_text.h"
#include "../weights/sandbox.h"
#include "compute/gpu/gpu_kernels.h"
#include "compute/model/model_state.h"
#include "compute/weights/checkpoint.h"

static const struct shape v3 = {.hidden = 7168,
                                .heads = 128,
                                .q_rank = 1536,
                                .kv_rank = 512,
                                .nope_dim = 128,
                                .rope_dim = 64,
                                .value_dim = 128};

static enum status check_shape(const struct shape *shape, bool rounds, struct error *error) {
    struct model model = {.shape = shape, .rounds_bf16 = rounds};
    return gpu_hopper_limits_takes(&model, false, error);
}

TEST(the_published_shape_is_taken) {
    struct error error;
    assert_int_equal(check_shape(&v3, true, &error), STATUS_OK);
    assert_int_equal(check_shape(&v3, false, &error), STATUS_OK);
}

TEST(what_no_kernel_takes_is_named_with_its_cure) {
    struct shape odd[4] = {v3, v3, v3, v3};
    static const char *const names[] = {"qk_nope_head_dim 136", "v_head_dim 100",
                                        "qk_rope_head_dim 72", "kv_lora_rank 1024"};
    odd[0].nope_dim = 136;
    odd[1].value_dim = 100;
    odd[2].rope_dim = 72;
    odd[3].kv_rank = 1024;
    for (uint32_t i = 0; i < 4; i++) {
        struct error error;
        assert_int_equal(check_shape(&odd[i], true, &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.text, names[i]));
        assert_non_null(strstr(error.text, "--activations f32, or --device cpu"));
        assert_int_equal(check_shape(&odd[i], false, &error), STATUS_OK);
    }
}

TEST(rows_that_do_not_begin_at_16_bytes_are_refused_in_any_mode) {
    struct shape odd = v3;
    struct shape narrow = v3;
    odd.hidden = 7170;
    narrow.heads = 1;
    narrow.value_dim = 102;
    for (int rounds = 0; rounds < 2; rounds++) {
        struct error error;
        assert_int_equal(check_shape(&odd, rounds, &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.text, "hidden_size 7170"));
        assert_non_null(strstr(error.text, "--device cpu"));
        assert_int_equal(check_shape(&narrow, rounds, &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.text, "num_attention_heads x v_head_dim 102"));
    }
}

enum { LAYERS = 2 };

/* Of a checkpoint in BF16, the kv_b of one layer is of F16. */
static enum status check_kv_b_of(void **state, uint32_t layer, bool rounds, bool mtp,
                                 struct error *error) {
    struct model model = {.rounds_bf16 = rounds};
    char name[64], before[96], after[96];
    sandbox_write(*state, (struct random_checkpoint){
                              .config = CONFIG({"num_hidden_layers", "2"}, /* LAYERS */
                                               {"num_nextn_predict_layers", "1"},
                                               {"qk_rope_head_dim", "8"}, {"v_head_dim", "8"})});
    snprintf(name, sizeof name, "layers.%u.self_attn.kv_b_proj.weight", layer);
    snprintf(before, sizeof before, "%s\":{\"dtype\":\"BF16", name);
    snprintf(after, sizeof after, "%s\":{\"dtype\":\"F16", name);
    sandbox_edit(*state, "model.safetensors", before, after);
    if (checkpoint_open(*state, CHECKPOINT_WHOLE, &model.checkpoint, error) != STATUS_OK)
        fail_msg("%s", error->text);
    model.shape = checkpoint_shape(model.checkpoint);
    enum status status = gpu_hopper_limits_takes(&model, mtp, error);
    checkpoint_close(model.checkpoint);
    if (status) assert_non_null(strstr(error->text, name));
    return status;
}

TEST_AROUND(a_kv_b_of_f16_is_refused_in_any_layer_that_is_wanted, sandbox_make, sandbox_remove) {
    struct error error;
    assert_int_equal(check_kv_b_of(cmocka_state, 1, true, false, &error), STATUS_UNSUPPORTED);
    assert_int_equal(check_kv_b_of(cmocka_state, LAYERS, true, true, &error), STATUS_UNSUPPORTED);
    assert_int_equal(check_kv_b_of(cmocka_state, LAYERS, true, false, &error), STATUS_OK);
    assert_int_equal(check_kv_b_of(cmocka_state, LAYERS, false, true, &error), STATUS_OK);
}
