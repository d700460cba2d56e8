/* SPDX-License-Identifier: Apache-2.0
 * Protects how a model opens on the emulated device: with the reference bodies, or with the kernels
 * that its options name.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/emulated/gpu_reference.h"
#include "compute/model/model.h"

TEST(a_model_opens_with_the_reference_bodies_unless_it_names_kernels) {
    static char directory[512];
    struct gpu_kernels others = gpu_reference;
    others.numerics = "others1";
    snprintf(directory, sizeof directory, "%s/v2lite-softmax-greedy-yarn", golden_home());
    for (uint32_t i = 0; i < 2; i++) {
        struct error error;
        struct model *model;
        struct model_options options = {.directory = directory,
                                        .device = &model_on_emulated,
                                        .device_kernels = i ? &others : NULL,
                                        .threads = 1,
                                        .step_tokens_max = 1,
                                        .step_rows_max = 1,
                                        .kv_bytes = 1 << 20};
        assert_int_equal(model_open(&options, &model, &error), STATUS_OK);
        assert_non_null(strstr(model_numerics_id(model), i ? "others1" : "reference1"));
        model_close(model);
    }
}
