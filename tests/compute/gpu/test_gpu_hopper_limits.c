/* SPDX-License-Identifier: Apache-2.0
 * Protects what the kernels for Hopper refuse: shapes that they do not take are told by the name that
 * config.json has for them, with what was expected and what to do; those that they take are not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "compute/gpu/gpu_kernels.h"
#include "compute/model/model_state.h"

static const struct shape v3 = {.hidden = 7168,
                                .heads = 128,
                                .q_rank = 1536,
                                .kv_rank = 512,
                                .nope_dim = 128,
                                .rope_dim = 64,
                                .value_dim = 128};

static enum status check_shape(const struct shape *shape, bool rounds, struct error *error) {
    struct model model = {.shape = shape, .rounds_bf16 = rounds};
    return gpu_hopper_takes(&model, error);
}

static void the_published_shape_is_taken(void **state) {
    struct error error;
    assert_int_equal(check_shape(&v3, true, &error), STATUS_OK);
    assert_int_equal(check_shape(&v3, false, &error), STATUS_OK);
}

static void what_no_kernel_takes_is_named_with_its_cure(void **state) {
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

static void rows_that_do_not_begin_at_16_bytes_are_refused_in_any_mode(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_shape_is_taken),
        cmocka_unit_test(what_no_kernel_takes_is_named_with_its_cure),
        cmocka_unit_test(rows_that_do_not_begin_at_16_bytes_are_refused_in_any_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
