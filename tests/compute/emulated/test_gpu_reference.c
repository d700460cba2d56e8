/* SPDX-License-Identifier: Apache-2.0
 * Protects the meaning of the device's kernels (compute/gpu/gpu_kernels.h), by small cases that
 * can be followed by hand: where prepared rows and their scales lie, products over rows of any
 * pitch, by groups too, the order of pairs and of sums. Whole models are compared in test_compute.
 */
#include <math.h>

#include "test_case.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/emulated/gpu_reference.h"
#include "compute/gpu/gpu_kernels.h"

#define run(kernel, arguments) gpu_reference.kernel.start(&(arguments), NULL)

TEST(codes_have_their_scales_block_by_block) {
    enum { N = 200, ROWS = 3, PITCH = 208, STRIDE = 4 };
    static float x[ROWS][N], scales[2 * STRIDE];
    static uint8_t codes[ROWS][PITCH];
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t i = 0; i < N; i++)
            x[row][i] = (float)(row + 1) * (i < QUANT_GROUP ? 1.0f : 4.0f) * (i % 2 ? -1.0f : 0.5f);
    struct gpu_prepare arguments = {.x = x[0],
                                    .first = codes,
                                    .first_scales = scales,
                                    .first_format = {INPUT_FP8, PITCH, STRIDE},
                                    .x_stride = N,
                                    .n = N,
                                    .rows = ROWS};
    run(prepare, arguments);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t i = 0; i < N; i++) {
            float scale = scales[i / QUANT_GROUP * STRIDE + row];
            float largest = (float)(row + 1) * (i < QUANT_GROUP ? 1.0f : 4.0f);
            assert_float_equal(scale, largest / 448, 1e-7);
            assert_float_equal(float_from_e4m3(codes[row][i]) * scale, x[row][i], 1e-4);
        }
}

/* Two matrices of 2 x 3 in slots; rows 0 and 1 go to slot 1, row 2 to slot 0. */
TEST(products_by_groups_take_their_slot) {
    enum { PITCH = 16, SLOT = 2 * PITCH };
    static _Alignas(64) char slots[2 * SLOT];
    const float weights[2][2][3] = {{{1, 2, 3}, {4, 5, 6}}, {{1, 0, 0}, {0, 0, -1}}};
    const float x[3][4] = {{1, 2, 3, 0}, {4, 5, 6, 0}, {1, 1, 1, 0}};
    const struct gpu_group groups[] = {{2, 1, 0}, {0, 2, 1}, {3, 0, 1}};
    float y[3][4] = {{0}};
    for (uint32_t slot = 0; slot < 2; slot++)
        for (uint32_t row = 0; row < 2; row++)
            memcpy(slots + slot * SLOT + row * PITCH, weights[slot][row], sizeof weights[0][0]);
    struct gpu_product arguments = {
        .x = x,
        .weights = slots,
        .y = y[0],
        .groups = groups,
        .format = {INPUT_F32, sizeof x[0], 0},
        .matrix = {.type = WEIGHT_F32, .rows = 2, .cols = 3, .pitch = PITCH},
        .slot_bytes = SLOT,
        .y_stride = 4,
        .rows = 3,
        .group_count = ARRAY_COUNT(groups),
        .slot_count = 2};
    run(product, arguments);
    const float expected[3][2] = {{1, -3}, {4, -6}, {6, 15}};
    for (uint32_t row = 0; row < 3; row++)
        assert_memory_equal(y[row], expected[row], sizeof expected[row]);
}

TEST(pairs_stand_by_expert_then_by_token) {
    const uint32_t experts[3][2] = {{1, 3}, {0, 3}, {1, 2}};
    uint32_t pair_row[6], row_token[6], slot_tokens[4] = {0, 0, 0, 10};
    struct gpu_group groups[4];
    struct gpu_sort arguments = {experts[0], pair_row, row_token, groups, slot_tokens,
                                 NULL,       3,        2,         4};
    run(sort, arguments);
    const uint32_t rows[] = {1, 4, 0, 5, 2, 3}, tokens[] = {1, 0, 2, 2, 0, 1};
    const uint32_t counts[] = {1, 2, 1, 12};
    const struct gpu_group expected[] = {{0, 1, 0}, {1, 2, 1}, {3, 1, 2}, {4, 2, 3}};
    assert_memory_equal(pair_row, rows, sizeof rows);
    assert_memory_equal(row_token, tokens, sizeof tokens);
    assert_memory_equal(slot_tokens, counts, sizeof counts);
    assert_memory_equal(groups, expected, sizeof expected);
}

/* 1 + 2^-9 rounds to 1 in BF16; a group's sum of 3 + 2^-8 to 3. */
TEST(sums_round_as_an_exchange_would) {
    const float results[3] = {1 + 0x1p-9f, 2, 0x1p-8f};
    const uint32_t pair_row[] = {0, 1, 2}, experts[] = {0, 1, 2};
    const float weights[] = {1, 1, 1};
    float y = 7;
    struct gpu_combine arguments = {.results = results,
                                    .pair_row = pair_row,
                                    .experts = experts,
                                    .weights = weights,
                                    .y = &y,
                                    .pitch = sizeof results[0],
                                    .y_stride = 1,
                                    .n = 1,
                                    .tokens = 1,
                                    .per_token = 3};
    run(combine, arguments);
    assert_true(y == 3 + 0x1p-9f + 0x1p-8f);
    arguments.rounds_bf16 = 1;
    run(combine, arguments);
    assert_true(y == 3 + 0x1p-8f);
    arguments.group_experts = 4; /* all in one group, whose sum is rounded */
    run(combine, arguments);
    assert_true(y == 3);
    arguments.group_experts = 2; /* the last alone in its group */
    run(combine, arguments);
    assert_true(y == 3 + 0x1p-8f);
}

/* Two tokens: of the first a sum of two has come, and weighs no more; of the second the second pair
 * is none. */
TEST(sums_take_what_came_summed) {
    const uint16_t results[3] = {0x4040, 0x4000, 0x3F80}; /* BF16: 3, 2, 1 */
    const uint32_t pair_row[] = {0, GPU_SUMMED, 1, 2, GPU_NO_PAIR, GPU_NO_PAIR};
    const uint32_t experts[] = {0, 1, 5, 0, 1, 2};
    const float weights[] = {10, 20, 4, 5, 6, 7};
    float y[2] = {9, 9};
    struct gpu_combine arguments = {.results = results,
                                    .pair_row = pair_row,
                                    .experts = experts,
                                    .weights = weights,
                                    .y = y,
                                    .pitch = sizeof results[0],
                                    .y_stride = 1,
                                    .n = 1,
                                    .tokens = 2,
                                    .per_token = 3,
                                    .group_experts = 4,
                                    .is_bf16 = 1,
                                    .rounds_bf16 = 1};
    run(combine, arguments);
    assert_true(y[0] == 3 + 8 && y[1] == 5);
    arguments.experts = NULL; /* all of one group */
    run(combine, arguments);
    assert_true(y[1] == 5);
}

/* Codes and their two scales to a row as an exchange carries it, and back to another place. */
TEST(rows_are_packed_and_unpacked) {
    enum { N = 130, STEP = 36 }; /* 130 codes, at 132 two scales */
    static uint8_t codes[2][144], back[2][144];
    static float packed[2][STEP], scales[2 * 4] = {1, 2, 0, 0, 3, 4}, scales_back[2 * 4];
    const uint32_t turned[] = {1, 0};
    for (uint32_t i = 0; i < 2 * N; i++)
        codes[i / N][i % N] = (uint8_t)(i + 1);
    struct gpu_gather pack = {.from = codes,
                              .from_scales = scales,
                              .to = packed,
                              .to_scales = packed[0] + 33,
                              .from_format = {INPUT_FP8, 144, 4},
                              .to_format = {INPUT_FP8, sizeof packed[0], 1},
                              .n = N,
                              .rows = 2,
                              .from_scale_step = 1,
                              .to_scale_step = STEP};
    run(gather, pack);
    assert_memory_equal(packed[1], codes[1], N);
    assert_true(packed[0][33] == 1 && packed[0][34] == 3);
    assert_true(packed[1][33] == 2 && packed[1][34] == 4);
    struct gpu_gather unpack = {.from = packed,
                                .from_scales = packed[0] + 33,
                                .row_token = turned,
                                .to = back,
                                .to_scales = scales_back,
                                .from_format = {INPUT_FP8, sizeof packed[0], 1},
                                .to_format = {INPUT_FP8, 144, 4},
                                .n = N,
                                .rows = 2,
                                .from_scale_step = STEP,
                                .to_scale_step = 1};
    run(gather, unpack);
    assert_memory_equal(back[0], codes[1], N);
    assert_true(scales_back[0] == 2 && scales_back[1] == 1);
    assert_true(scales_back[4] == 4 && scales_back[5] == 3);
}

TEST(of_equal_logits_the_first_is_likeliest) {
    const float logits[2][4] = {{1, 3, 3, 2}, {-1, -2, -1, -5}};
    uint32_t found[2];
    struct gpu_draw arguments = {logits[0], NULL, found, 4, 4, 2};
    run(draw, arguments);
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 0);
}

/* A query of zeros looks at two KV rows alike: their mean. What lies before kv_first is not
 * seen. */
TEST(the_core_sees_the_rows_from_kv_first_on) {
    enum { RANK = 2, ROPE = 2, WIDTH = RANK + ROPE };
    const float pages[KV_BLOCK_TOKENS][WIDTH] = {{NAN, NAN, NAN, NAN}, {1, 0, 0, 0}, {0, 1, 0, 0}};
    const float query[WIDTH] = {0, 0, 0, 0};
    const uint32_t kv_index = 2, kv_first = 1, first_page = 1, list[] = {9, 0};
    float u[RANK];
    struct gpu_core arguments = {
        .absorbed = query,
        .kv_index = &kv_index,
        .kv_first = &kv_first,
        .first_page = &first_page,
        .pages = list,
        .memory = (const char *)pages,
        .to = u,
        .kv = {.row_bytes = sizeof pages[0], .width = WIDTH},
        .heads = {.heads = 1, .kv_rank = RANK, .rope_dim = ROPE, .scale = 1},
        .absorbed_pitch = sizeof query,
        .to_pitch = sizeof u,
        .rows = 1};
    run(core, arguments);
    assert_float_equal(u[0], 0.5, 1e-6);
    assert_float_equal(u[1], 0.5, 1e-6);
}
