/* SPDX-License-Identifier: Apache-2.0
 * Protects the values of weights: the bytes of each type of tensor are worth the same floats
 * everywhere, and a value that is not a number is named with its place.
 */
#include <math.h>

#include "test_case.h"

#include "base/check.h"
#include "compute/weights/tensor.h"

TEST(values_become_floats) {
    static const uint8_t bytes[] = {0x00, 0x80, 0x3F, 0x80, 0xBF, 0x00, 0x3C, 0x7E, 0x01};
    float out[2];
    struct tensor tensor = {.name = "t", .file = "f", .dims = 1, .shape = {2, 1}};
    tensor.type = TENSOR_BF16, tensor.data = bytes + 1, tensor.bytes = 4;
    tensor_to_float(&tensor, 0, 2, out);
    assert_true(out[0] == 1.0f && out[1] == -1.0f);
    tensor_to_float(&tensor, 1, 1, out);
    assert_true(out[0] == -1.0f);
    tensor.type = TENSOR_F16, tensor.data = bytes + 5, tensor.bytes = 2;
    tensor_to_float(&tensor, 0, 1, out);
    assert_true(out[0] == 1.0f);
    tensor.type = TENSOR_E4M3, tensor.data = bytes + 7, tensor.bytes = 2;
    tensor_to_float(&tensor, 0, 2, out);
    assert_true(out[0] == 448.0f && out[1] == 0x1p-9f);
    const float values[2] = {2.5f, -INFINITY};
    struct error error;
    tensor.type = TENSOR_F32, tensor.data = values, tensor.bytes = 8;
    tensor_to_float(&tensor, 0, 2, out);
    assert_memory_equal(out, values, sizeof values);
    assert_int_equal(tensor_check_finite(&tensor, &error), STATUS_CORRUPT);
    assert_string_equal(error.text, "f: tensor 't': expected finite values, found -inf at [1]");
    tensor.bytes = 4, tensor.shape[0] = 1;
    assert_int_equal(tensor_check_finite(&tensor, &error), STATUS_OK);
}

TEST(values_of_mxfp4_and_its_scales) {
    static const uint8_t codes[] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
    static const float values[] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    static const uint8_t exponents[] = {0, 127, 254, 255};
    float found[16];
    struct tensor tensor = {.name = "t",
                            .file = "f",
                            .type = TENSOR_MXFP4,
                            .dims = 2,
                            .shape = {1, 16},
                            .data = codes,
                            .bytes = sizeof codes};
    tensor_to_float(&tensor, 0, 16, found);
    assert_memory_equal(found, values, sizeof values);
    tensor.type = TENSOR_E8M0, tensor.data = exponents, tensor.bytes = 4;
    tensor_to_float(&tensor, 0, 4, found);
    assert_true(found[0] == 0x1p-127f && found[1] == 1 && found[2] == 0x1p127f && isnan(found[3]));
}
