/* SPDX-License-Identifier: Apache-2.0
 * Protects the sums of open groups: they come to what a softmax over the whole group comes to, also
 * where weights differ by hundreds, and a token counts in the order of positions alone.
 */
#include <math.h>
#include <string.h>

#include "test_case.h"

#include "compute/model/compressor.h"

#define CHANNELS 8
#define TOKENS 128

static float a[TOKENS][CHANNELS], gate[TOKENS][CHANNELS], positions[CHANNELS];
static float memory[3][CHANNELS];
static const struct compressor_sum sum = {memory[0], memory[1], memory[2]};

static void draw(float spread) {
    uint32_t state = 12345;
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t c = 0; c < CHANNELS; c++) {
            state = state * 1664525u + 1013904223u;
            a[t][c] = (float)(state >> 8) / (float)(1 << 23) - 1;
            state = state * 1664525u + 1013904223u;
            gate[t][c] = ((float)(state >> 8) / (float)(1 << 23) - 1) * spread;
            positions[c] = (float)c / 4;
        }
}

static double expected_at(uint32_t c, uint32_t tokens) {
    double largest = -INFINITY, weights = 0, values = 0;
    for (uint32_t t = 0; t < tokens; t++)
        largest = fmax(largest, (double)gate[t][c]);
    for (uint32_t t = 0; t < tokens; t++) {
        weights += exp((double)gate[t][c] - largest);
        values += exp((double)gate[t][c] - largest) * (double)a[t][c];
    }
    return values / weights;
}

TEST(a_group_comes_to_its_softmax) {
    static const float spreads[] = {0.1f, 3, 500};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t tokens = 1; tokens <= TOKENS; tokens *= 2) {
            draw(spreads[i]);
            compressor_clear(sum, CHANNELS);
            for (uint32_t t = 0; t < tokens; t++)
                compressor_add(sum, a[t], gate[t], positions, CHANNELS);
            for (uint32_t c = 0; c < CHANNELS; c++)
                assert_true(fabs((double)(sum.weighted[c] / sum.sum[c]) - expected_at(c, tokens)) <
                            1e-6);
        }
}

TEST(channels_do_not_depend_on_each_other) {
    float alone[3] = {-INFINITY, 0, 0};
    const struct compressor_sum one = {alone, alone + 1, alone + 2};
    draw(2);
    compressor_clear(sum, CHANNELS);
    for (uint32_t t = 0; t < TOKENS; t++) {
        compressor_add(sum, a[t], gate[t], NULL, CHANNELS);
        compressor_add(one, &a[t][5], &gate[t][5], NULL, 1);
    }
    assert_memory_equal(&memory[0][5], &alone[0], sizeof(float));
    assert_memory_equal(&memory[1][5], &alone[1], sizeof(float));
    assert_memory_equal(&memory[2][5], &alone[2], sizeof(float));
}

TEST(overlapping_groups_take_twice_the_numbers) {
    const struct shape overlapping = {.overlaps = true}, other = {.overlaps = false};
    assert_int_equal(compressor_sums(&overlapping, 4), 6);
    assert_int_equal(compressor_sums(&overlapping, 128), 3);
    assert_int_equal(compressor_sums(&other, 2), 3);
    assert_int_equal(compressor_sums(&other, 1), 0);
}
