/* SPDX-License-Identifier: Apache-2.0
 * Protects the layout of packed weights: a row read back is the row that was packed, whatever the
 * type and however many calls packed it.
 */
#include "test_case.h"

#include "problems.h"
#include "unpack_row.h"

/* unpack_row is the inverse of packing and scaling. */
TEST(a_packed_row_reads_back_as_it_was) {
    uint64_t state = 5;
    for (int type = 0; type < WEIGHT_TYPE_COUNT; type++) {
        struct problem p = problem_make(&state, (enum weight_type)type, 1, 150, 131, WEIGHTS_RANDOM,
                                        NUMBERS_NORMAL, 0);
        for (uint32_t row = 0; row < 150; row++) {
            float out[256]; /* 131 and whole groups */
            unpack_row(&p.weights, row, out);
            for (uint32_t c = 0; c < p.weights.cols; c++)
                assert_true(out[c] == (float)problem_weight(&p, row, c));
        }
        problem_free(&p);
    }
}
