/* SPDX-License-Identifier: Apache-2.0
 * Protects the arithmetic of matrix products: every level gives the bits of the plain C twin (or,
 * for the BF16 dot product, stays within rounding of an independent double-precision product) and
 * touches nothing outside its buffers.
 */
#include "test_case.h"

#include "problems.h"

#include "base/check.h"
#include "base/number.h"

/* Every shape and kind of number: levels agree, and with the exact product within rounding. */
TEST(levels_agree_for_every_shape_and_kind_of_number) {
    static const uint32_t sizes[] = {1, 15, 16, 17, 33, 96, 127, 128, 129, 300};
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 7, 11, 12, 13, 25};
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 1;
    uint32_t turn = 0;
    for (int type = 0; type < WEIGHT_TYPE_COUNT; type++)
        for (size_t n = 0; n < ARRAY_COUNT(sizes); n++)
            for (size_t k = 0; k < ARRAY_COUNT(sizes); k++, turn++) {
                enum weight_kind kind = (enum weight_kind)(turn % 7 < 5 ? 0 : turn % 7 - 4);
                enum numbers numbers = (enum numbers)(turn % NUMBERS_COUNT);
                if (kind != WEIGHTS_RANDOM && type != WEIGHT_FP8) numbers = NUMBERS_NORMAL;
                struct problem p = problem_make(&state, (enum weight_type)type, rows[turn % 10],
                                                sizes[n], sizes[k], kind, numbers,
                                                (int)((turn + turn / 10) % PROBLEM_FORMS));
                problem_check(&p, levels, level_count);
                problem_free(&p);
            }
}

/* Every FP8 code times 1 and times 2^8's neighbours comes out exactly. */
TEST(every_fp8_code_is_exact) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint8_t codes[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (i & 0x7F) == 0x7F ? 0 : (uint8_t)i;
    _Alignas(64) uint8_t packed[256];
    matmul_pack(WEIGHT_FP8, codes, 256, 1, 0, 256, packed);
    float scales[2] = {1, 1}, x[3] = {1, -0.5f, 0x1p100f};
    struct packed_matrix weights = {
        .type = WEIGHT_FP8, .rows = 256, .cols = 1, .data = packed, .scales = scales};
    for (uint32_t l = 0; l < level_count; l++)
        for (int form = 0; form < 2; form++) {
            float y[3 * 256];
            struct matmul job = {.weights = &weights,
                                 .x = x,
                                 .x_stride = 1,
                                 .y = y,
                                 .y_stride = 256,
                                 .m = 3,
                                 .x_is_bf16 = form == 1};
            levels[l].matmul(&job, 0, 8);
            for (int r = 0; r < 3; r++)
                for (int i = 0; i < 256; i++) /* -0 becomes 0 when it joins the sum */
                    if (y[r * 256 + i] != x[r] * float_from_e4m3(codes[i]))
                        fail_msg("%s: code %02x times %g is %g", levels[l].name, codes[i],
                                 (double)x[r], (double)y[r * 256 + i]);
        }
}

/* Scales that a level's shortcuts may not take: zero, as of a block without weights, negative, tiny
 * and huge. */
TEST(any_scale_of_a_block_is_taken) {
    static const float scales[] = {0.25f, 0, 0x1p-119f, -0.5f, 0x1p110f, 1e-4f};
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 7;
    for (uint32_t rows = 1; rows < 40; rows += 33)
        for (int form = 1; form < PROBLEM_FORMS; form++) {
            struct problem p = problem_make(&state, WEIGHT_FP8, rows, 700, 300, WEIGHTS_RANDOM,
                                            NUMBERS_NORMAL, form);
            const size_t blocks = divide_up(300, QUANT_GROUP), all = p.scale_bytes / sizeof(float);
            for (size_t i = 0; i < all;
                 i++) /* whole rows of W, and then each block's another one */
                p.scales[i] = scales[(rows == 1 ? i / blocks : i) % ARRAY_COUNT(scales)];
            problem_check(&p, levels, level_count);
            problem_free(&p);
        }
}
