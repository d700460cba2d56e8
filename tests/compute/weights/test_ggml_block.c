/* SPDX-License-Identifier: Apache-2.0
 * Protects the values of GGUF's quantized types: they are bit by bit what ggml's own functions make
 * of the same blocks (ggml_blocks.txt, recorded by record_ggml.c), and the tests' own quantizers
 * come near the values that they were given.
 */
#include <math.h>

#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/weights/ggml_block.h"
#include "gguf_bytes.h"

#define VALUES 512

static const char *recorded;

static uint32_t digits(const char **at, uint32_t count) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; i++, ++*at)
        value = value << 4 | (uint32_t)(**at <= '9' ? **at - '0' : **at - 'a' + 10);
    return value;
}

TEST(values_are_ggmls_bit_by_bit) {
    static char line[32768];
    uint32_t types = 0;
    FILE *file = fopen(recorded, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); types++) {
        uint8_t blocks[VALUES * 4];
        float values[VALUES], whole[VALUES];
        char name[16];
        const char *at = strchr(line, ' ') + 1, *unused;
        assert_int_equal(sscanf(line, "%15s", name), 1);
        const enum tensor_type type = ggml_block_find(gguf_bytes_number(name), &unused);
        assert_string_equal(ggml_block_name(type), name);
        const size_t bytes = gguf_bytes_size(name, VALUES);
        for (size_t i = 0; i < bytes; i++)
            blocks[i] = (uint8_t)digits(&at, 2);
        assert_int_equal(*at++, ' ');
        for (size_t i = 0; i < VALUES; i += ggml_block_values(type))
            ggml_block_to_float(type, blocks + i / ggml_block_values(type) * ggml_block_bytes(type),
                                values + i);
        for (size_t i = 0; i < VALUES; i++) {
            const uint32_t expected = digits(&at, 8);
            if (float_bits(values[i]) != expected)
                fail_msg("%s: value %zu is %08x, expected %08x", name, i, float_bits(values[i]),
                         expected);
        }
        /* any part of a row, as a tensor */
        struct tensor tensor = {
            .type = type, .dims = 2, .data = blocks, .bytes = bytes, .shape = {1, VALUES}};
        tensor_to_float(&tensor, 0, 37, whole);
        tensor_to_float(&tensor, 37, VALUES - 37, whole + 37);
        assert_memory_equal(whole, values, sizeof values);
    }
    fclose(file);
    assert_int_equal(types, 9);
}

TEST(quantizers_of_the_tests_come_near) {
    static const struct {
        const char *type;
        float error; /* of the largest value */
    } types[] = {{"F32", 0},      {"F16", 0.0005f}, {"BF16", 0.004f}, {"Q8_0", 0.005f},
                 {"Q6_K", 0.02f}, {"Q5_0", 0.04f},  {"Q5_1", 0.04f},  {"Q5_K", 0.05f},
                 {"Q4_0", 0.08f}, {"Q4_1", 0.08f},  {"Q4_K", 0.09f},  {"MXFP4", 0.26f}};
    float values[VALUES], back[VALUES];
    uint8_t blocks[VALUES * 4];
    for (size_t i = 0; i < VALUES; i++)
        values[i] = sinf((float)i * 1.7f) + 0.3f;
    for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
        const char *unused;
        gguf_bytes_quantize(types[t].type, values, VALUES, blocks);
        struct tensor tensor = {.type = ggml_block_find(gguf_bytes_number(types[t].type), &unused),
                                .dims = 1,
                                .data = blocks,
                                .bytes = gguf_bytes_size(types[t].type, VALUES),
                                .shape = {VALUES, 1}};
        tensor_to_float(&tensor, 0, VALUES, back);
        for (size_t i = 0; i < VALUES; i++)
            if (!(fabsf(back[i] - values[i]) <= types[t].error * 1.3f))
                fail_msg("%s: %g became %g", types[t].type, (double)values[i], (double)back[i]);
    }
}

TEST(other_types_are_known_by_their_names) {
    const char *name;
    assert_int_equal(ggml_block_find(16, &name), TENSOR_TYPE_COUNT);
    assert_string_equal(name, "IQ2_XXS");
    assert_int_equal(ggml_block_find(10, &name), TENSOR_TYPE_COUNT);
    assert_string_equal(name, "Q2_K");
    assert_int_equal(ggml_block_find(4711, &name), TENSOR_TYPE_COUNT);
    assert_string_equal(name, "an unknown type");
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    recorded = argv[1];
    return test_cases_run();
}
