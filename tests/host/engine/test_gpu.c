/* SPDX-License-Identifier: Apache-2.0
 * Protects what is said of this machine's GPUs: each that is counted is described, and where there
 * are none, every call says so, with the cure or with CUDA's own words.
 */
#include "host/engine/gpu.h"

#include "test_case.h"

TEST(each_gpu_is_described_or_there_is_a_reason_why_none_is) {
    struct error error = {""};
    struct gpu gpu;
    struct gpu_libraries libraries;
    uint32_t count = 0;
    if (gpu_count(&count, &error) == STATUS_OK) {
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(gpu_describe(i, &gpu, &error), STATUS_OK);
            assert_true(gpu.name[0] && gpu.multiprocessors > 0);
            assert_true(gpu.memory_free_bytes <= gpu.memory_bytes);
        }
        assert_int_equal(gpu_libraries(&libraries, &error), STATUS_OK);
        return;
    }
    assert_true(strstr(error.text, "-Dcuda=enabled") || strstr(error.text, "CUDA says '"));
    assert_int_equal(count, 0);
    assert_int_equal(gpu_describe(0, &gpu, &error), STATUS_UNSUPPORTED);
}
