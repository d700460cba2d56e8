/* SPDX-License-Identifier: Apache-2.0
 * Protects the names of devices, and that a model on a device rejects what it cannot do, with the
 * alternative in the error. test_compute compares the computed values.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/model/model.h"

TEST(a_device_is_found_by_its_name) {
    const struct model_device *const devices[] = {&model_on_cpu, &model_on_cuda,
                                                  &model_on_emulated};
    const char *const names[] = {"cpu", "cuda", "emulated"};
    const struct model_device *found = NULL;
    struct error error;
    compute_gpu_offer(&(struct gpu_offer){.emulated = {&model_on_emulated}});
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(compute_gpu_find(names[i], &found, &error), STATUS_OK);
        assert_ptr_equal(found, devices[i]);
    }
    assert_int_equal(compute_gpu_find("tpu", &found, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "--device tpu: expected cpu or cuda"));
}

TEST(what_a_device_cannot_do_is_refused) {
    static char directory[512];
    struct error error;
    struct model *model;
    snprintf(directory, sizeof directory, "%s/v2lite-softmax-greedy-yarn", golden_home());
    struct model_options options = {.directory = directory,
                                    .device = &model_on_cuda,
                                    .step_tokens_max = 1,
                                    .step_rows_max = 1,
                                    .kv_bytes = 1 << 20};
    assert_int_equal(model_open(&options, &model, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "--device cpu"));
}
