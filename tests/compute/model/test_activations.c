/* SPDX-License-Identifier: Apache-2.0
 * Protects the activation modes' names: each has one, and no other is taken.
 */
#include "compute/model/activations.h"

#include "test_case.h"

TEST(each_mode_is_found_by_its_name_and_no_other) {
    struct error error;
    enum activations found = ACTIVATIONS_COUNT;
    for (int mode = 0; mode < ACTIVATIONS_COUNT; mode++) {
        const char *name = activations_name((enum activations)mode);
        assert_int_equal(activations_named(name, &found, &error), STATUS_OK);
        assert_int_equal(found, mode);
    }
    assert_int_equal(activations_named("fp16", &found, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "'fp16': expected f32, bf16, fp8, fp8-f32 or int8"));
}
