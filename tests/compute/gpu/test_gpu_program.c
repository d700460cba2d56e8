/* SPDX-License-Identifier: Apache-2.0
 * Protects the devices of the product: it has no emulated device, and the error names the program
 * that has one; without CUDA it has no kernels for GPUs, and the error says how to get them.
 */
#include "test_case.h"

#include "compute/gpu/gpu_program.h"

TEST(the_product_has_no_emulated_device) {
    static const char *const names[] = {"emulated", "emulated-kernels"};
    struct error error;
    compute_gpu_offer(&gpu_program);
    assert_int_equal(compute_gpu_check("cpu", &error), STATUS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(compute_gpu_check(names[i], &error), STATUS_INVALID);
        assert_non_null(strstr(error.text, names[i]));
        assert_non_null(strstr(error.text, "expected cpu or cuda"));
        assert_non_null(strstr(error.text, "fathom-emulated"));
    }
}

TEST(a_program_without_kernels_says_how_to_get_them) {
    struct error error;
    compute_gpu_offer(&(struct gpu_offer){0});
    assert_int_equal(compute_gpu_check("cuda", &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "--device cuda"));
    assert_non_null(strstr(error.text, "-Dcuda=enabled"));
    assert_non_null(strstr(error.text, "--device cpu"));
}
