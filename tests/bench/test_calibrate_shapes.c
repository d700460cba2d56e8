/* SPDX-License-Identifier: Apache-2.0
 * Protects what a hardware file says of a measured step: a wrong count there is a wrong time of
 * every step of the twin.
 */
#include "bench/calibrate_shapes.h"

#include "base/check.h"
#include "test_case.h"

static const struct calibrate_limits limits[] = {
    {.ranks = 1, .rows_max = 64, .tokens_max = 512, .context_max = 1024},
    {.ranks = 2, .rows_max = 64, .tokens_max = 512, .context_max = 1024},
    {.ranks = 144, .rows_max = 512, .tokens_max = 16384, .context_max = 8192},
    {.ranks = 1, .rows_max = 1, .tokens_max = 128, .context_max = 128},
};

TEST(every_shape_fits_the_limits) {
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        struct calibrate_shape shapes[CALIBRATE_SHAPES_MAX];
        uint32_t count = calibrate_shapes_list(&limits[i], shapes);
        assert_true(count > 0);
        for (uint32_t j = 0; j < count; j++) {
            const struct calibrate_shape *shape = &shapes[j];
            assert_true(shape->chunks + shape->rows >= 1);
            assert_true(shape->chunks + shape->rows <= limits[i].rows_max);
            assert_true(shape->chunks * shape->chunk_tokens + shape->rows <= limits[i].tokens_max);
            assert_true(shape->cached + shape->chunk_tokens <= limits[i].context_max);
            assert_true(shape->context <= limits[i].context_max);
            assert_int_equal(shape->cached % 64, 0);
            assert_true(!shape->rows || shape->context > 0);
            assert_true(limits[i].ranks > 1 || !shape->one_busy);
        }
    }
}

/* Without these a twin would have to guess beyond what was measured. */
TEST(the_largest_steps_are_among_them) {
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        struct calibrate_shape shapes[CALIBRATE_SHAPES_MAX];
        uint32_t count = calibrate_shapes_list(&limits[i], shapes);
        bool rows = false, tokens = false, alone = false;
        for (uint32_t j = 0; j < count; j++) {
            rows = rows || (shapes[j].rows == limits[i].rows_max &&
                            shapes[j].context == limits[i].context_max);
            tokens = tokens || shapes[j].chunk_tokens == limits[i].tokens_max ||
                     shapes[j].chunk_tokens == limits[i].context_max;
            alone = alone || shapes[j].one_busy;
        }
        assert_true(rows && alone == (limits[i].ranks > 1));
        assert_true(tokens);
    }
}

/* Two chunks of 16 behind 64, and three answers at 100: counted by hand. */
TEST(a_share_counts_what_each_token_attends_to) {
    struct calibrate_shape shape = {
        .chunks = 2, .chunk_tokens = 16, .cached = 64, .rows = 3, .context = 100};
    struct calibrate_share share = calibrate_shapes_share(&shape);
    uint64_t attended = 0;
    for (uint64_t token = 0; token < 16; token++)
        attended += 2 * (64 + token + 1);
    assert_int_equal(share.prompt_tokens, 32);
    assert_int_equal(share.attended, attended);
    assert_int_equal(share.cached, 128);
    assert_int_equal(share.answer_rows, 3);
    assert_int_equal(share.answer_tokens, 3);
    assert_int_equal(share.context, 300);
}
