/* SPDX-License-Identifier: Apache-2.0
 * Protects what both forms of attention share: the softmax block by block is that of all scores at
 * once, and a span of KV rows is what a run may see of a block.
 */
#include "compute/model/attention_core.h"

#include <math.h>

#include "test_case.h"

#include "base/random.h"

static const struct kernels *plain(void) {
    const struct kernels *kernels;
    assert_int_equal(kernels_select(KERNEL_LEVEL_C, &kernels, NULL), STATUS_OK);
    return kernels;
}

/* Blocks of many sizes, whose largest score comes early, late, or in between. */
TEST(softmax_by_blocks_is_that_of_all_scores) {
    enum { COUNT = 300 };
    for (uint32_t draw = 0; draw < 50; draw++) {
        float scores[COUNT], weights[COUNT], max = -INFINITY, sum = 0;
        double true_max = -INFINITY, true_sum = 0, scale = 0.3;
        for (uint32_t i = 0; i < COUNT; i++) {
            scores[i] = 40 * (float)random_uniform(draw, 0, i) - 20;
            true_max = fmax(true_max, (double)scores[i]);
        }
        for (uint32_t i = 0; i < COUNT; i++)
            true_sum += exp(scale * ((double)scores[i] - true_max));
        for (uint32_t at = 0; at < COUNT;) {
            uint32_t count = 1 + (uint32_t)(random_uniform(draw, 1, at) * 64);
            float factor;
            if (count > COUNT - at) count = COUNT - at;
            memcpy(weights + at, scores + at, count * sizeof *scores);
            attention_core_softmax(plain(), weights + at, count, (float)scale, &max, &sum, &factor);
            for (uint32_t i = 0; i < at; i++) /* as the caller does with what it has gathered */
                weights[i] *= factor;
            at += count;
        }
        assert_true(fabs((double)sum / true_sum - 1) < 1e-5);
        for (uint32_t i = 0; i < COUNT; i++) {
            double expected = exp(scale * ((double)scores[i] - true_max));
            assert_true(fabs((double)weights[i] - expected) < 1e-5);
        }
    }
}

/* An MTP layer's run begins behind its first row. */
TEST(a_span_is_what_a_run_may_see_of_a_block) {
    struct model model = {.kernels = plain()};
    const struct page_id pages[] = {{3}, {1}};
    struct error error;
    enum { WIDTH = 8 };
    const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_BF16, WIDTH, 2, 0);
    assert_int_equal(kv_pages_open(&model.kv, &format, 1 << 20, &error), STATUS_OK);
    const struct pass pass = {.model = &model, .layer = 1};
    struct run run = {.pages = pages, .kv_shift = 1};
    struct kv_span first = attention_core_span(&pass, &run, 0, 100);
    struct kv_span second = attention_core_span(&pass, &run, 1, 100);
    assert_ptr_equal(first.slice, kv_pages_slice(&model.kv, 3, 1));
    assert_int_equal(first.start, 1);
    assert_int_equal(first.first, 1);
    assert_int_equal(first.count, KV_BLOCK_TOKENS - 1);
    assert_ptr_equal(second.slice, kv_pages_slice(&model.kv, 1, 1));
    assert_int_equal(second.start, KV_BLOCK_TOKENS);
    assert_int_equal(second.count, 100 - KV_BLOCK_TOKENS);
    float written[WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8}, rows[36 * WIDTH];
    kv_pages_write(&model.kv, plain(), KV_GROUP_MLA,
                   kv_pages_row(&model.kv, 1, 1, KV_GROUP_MLA, 35), written);
    attention_core_load(&model, &second, rows);
    assert_memory_equal(rows + 35 * WIDTH, written, sizeof written);
    kv_pages_close(&model.kv);
}

/* Tokens of positions 62 to 66, of which the last three are in the second block. */
TEST(a_walk_gives_each_token_the_rows_up_to_its_own) {
    struct model model = {.kernels = plain()};
    const struct page_id pages[] = {{3}, {1}};
    struct error error;
    enum { WIDTH = 8 };
    const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_F32, WIDTH, 2, 0);
    assert_int_equal(kv_pages_open(&model.kv, &format, 1 << 20, &error), STATUS_OK);
    const struct pass pass = {.model = &model, .layer = 1};
    const struct run run = {.first = 10, .token_count = 5, .first_position = 62, .pages = pages};
    const struct {
        uint32_t token, start, seen;
    } steps[] = {{10, 0, 63}, {11, 0, 64}, {12, 0, 64}, {13, 0, 64},
                 {14, 0, 64}, {12, 64, 1}, {13, 64, 2}, {14, 64, 3}};
    struct core_walk walk = attention_core_begin(&pass, &run, 10, 15);
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        assert_true(attention_core_next(&walk));
        assert_int_equal(walk.token, steps[i].token);
        assert_int_equal(walk.chunk.spans[0].start, steps[i].start);
        assert_int_equal(walk.seen, steps[i].seen);
        assert_int_equal(walk.chunk.is_first, steps[i].start == 0);
        assert_ptr_equal(walk.chunk.floats, walk.chunk.spans[0].slice);
    }
    assert_false(attention_core_next(&walk));
    kv_pages_close(&model.kv);
}
