/* SPDX-License-Identifier: Apache-2.0
 * Protects what a program with emulated kernels offers: that device opens by its name, on kernels whose
 * numerics no other has; and what it does not offer is refused in a line that says how to get it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

static void a_program_without_kernels_says_how_to_get_them(void **state) {
    static const char *const cures[][2] = {{"cuda", "-Dcuda=enabled"},
                                           {"emulated", "-Demulated=true"},
                                           {"emulated-kernels", "-Demulated=true"}};
    struct error error;
    char numerics[32];
    compute_gpu_offer(&(struct gpu_offer){.stand_in = false});
    assert_int_equal(compute_gpu_check("cpu", &error), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(compute_gpu_check(cures[i][0], &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.text, cures[i][0]));
        assert_non_null(strstr(error.text, cures[i][1]));
        assert_non_null(strstr(error.text, "--device cpu"));
    }
    assert_int_equal(open_on("emulated-kernels", numerics, &error), STATUS_UNSUPPORTED);
}

static void emulated_kernels_open_by_their_devices_name(void **state) {
    struct error error;
    char kernels[32], bodies[32];
    gpu_program_offer();
    assert_int_equal(compute_gpu_check("emulated-kernels", &error), STATUS_OK);
    assert_int_equal(compute_gpu_check("emulated", &error), STATUS_OK);
    assert_int_equal(compute_gpu_check("cuda", &error), STATUS_UNSUPPORTED);
    assert_int_equal(open_on("emulated-kernels", kernels, &error), STATUS_OK);
    assert_int_equal(open_on("emulated", bodies, &error), STATUS_OK);
    assert_non_null(strstr(kernels, "hopper2e.bf16"));
    assert_non_null(strstr(bodies, "reference1.bf16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_without_kernels_says_how_to_get_them),
        cmocka_unit_test(emulated_kernels_open_by_their_devices_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
