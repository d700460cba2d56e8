/* SPDX-License-Identifier: Apache-2.0
 * Protects the loops around the vector kernels: nothing is lost where blocks, tiles and chunks of
 * rows begin and end, and a row has the same bits in any batch and any split of panels.
 */
#include "test_case.h"

#include "problems.h"

/* The shapes where blocks and tiles begin and end, at a size that leaves the first panel. */
TEST(levels_agree_where_blocks_and_tiles_end) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 2;
    for (int type = 0; type < WEIGHT_TYPE_COUNT; type++)
        for (int form = 0; form < PROBLEM_FORMS; form++) {
            struct problem p = problem_make(&state, (enum weight_type)type, 14, 576, 576,
                                            WEIGHTS_RANDOM, NUMBERS_NORMAL, form);
            problem_check(&p, levels, level_count);
            problem_free(&p);
        }
}

TEST(a_row_has_the_same_bits_in_any_batch) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 3;
    for (int type = 0; type < WEIGHT_TYPE_COUNT; type++)
        for (int form = 0; form < PROBLEM_FORMS; form++) {
            struct problem p = problem_make(&state, (enum weight_type)type, 40, 200, 259,
                                            WEIGHTS_RANDOM, NUMBERS_MIXED, form);
            for (uint32_t l = 0; l < level_count; l++)
                problem_check_invariance(&levels[l], &p, &state);
            problem_free(&p);
        }
}

/* The same across the chunks of rows that many rows are cut into. */
TEST(a_row_has_the_same_bits_across_chunks_of_rows) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 4;
    for (int form = 0; form < PROBLEM_FORMS; form++) {
        struct problem p =
            problem_make(&state, WEIGHT_FP8, 400, 70, 140, WEIGHTS_RANDOM, NUMBERS_NORMAL, form);
        for (uint32_t l = 1; l < level_count; l++)
            problem_check_invariance(&levels[l], &p, &state);
        problem_free(&p);
    }
}
