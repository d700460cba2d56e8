/* SPDX-License-Identifier: Apache-2.0
 * Protects what the tests' program offers: both emulated devices open by their names, each with
 * numerics of its own, and there is no GPU.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_program.h"
#include "compute/model/model.h"

static enum status open_on(const char *name, char numerics_out[32], struct error *error) {
    static char directory[512];
    struct model *model;
    snprintf(directory, sizeof directory, "%s/v2lite-softmax-greedy-yarn", golden_home());
    struct model_options options = {.directory = directory,
                                    .activations = ACTIVATIONS_BF16,
                                    .threads = 1,
                                    .step_tokens_max = 1,
                                    .step_rows_max = 1,
                                    .kv_bytes = 1 << 20};
    enum status status = compute_gpu_find(name, &options.device, error);
    if (status == STATUS_OK) status = model_open(&options, &model, error);
    if (status != STATUS_OK) return status;
    snprintf(numerics_out, 32, "%s", model_numerics_id(model));
    model_close(model);
    return STATUS_OK;
}

TEST(emulated_kernels_open_by_their_devices_name) {
    struct error error;
    char kernels[32], bodies[32];
    compute_gpu_offer(&gpu_program);
    assert_int_equal(compute_gpu_check("emulated-kernels", &error), STATUS_OK);
    assert_int_equal(compute_gpu_check("emulated", &error), STATUS_OK);
    assert_int_equal(compute_gpu_check("cuda", &error), STATUS_UNSUPPORTED);
    assert_int_equal(open_on("emulated-kernels", kernels, &error), STATUS_OK);
    assert_int_equal(open_on("emulated", bodies, &error), STATUS_OK);
    assert_non_null(strstr(kernels, "hopper2e.bf16"));
    assert_non_null(strstr(bodies, "reference1.bf16"));
}
