/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#include "test_case.h"

/* A bound belongs to its own bucket, the next value to the next one; what is beyond is kept. */
TEST(bounds_are_inclusive) {
    struct histogram histogram = {0};
    const struct histogram_scale *scale = &histogram_counts;
    for (uint32_t i = 0; i < scale->bound_count; i++) {
        histogram_add(&histogram, scale, scale->bounds[i]);
        assert_int_equal(histogram.counts[i], i ? 2 : 1); /* the one before + 1 */
        histogram_add(&histogram, scale, scale->bounds[i] + 1);
    }
    assert_int_equal(histogram.counts[0], 1);
    assert_int_equal(histogram.counts[HISTOGRAM_BOUNDS_MAX], 1);
    histogram_add(&histogram, scale, UINT32_MAX);
    histogram_add(&histogram, scale, 0);
    assert_int_equal(histogram.counts[0], 2);
    assert_int_equal(histogram.counts[HISTOGRAM_BOUNDS_MAX], 2);
    assert_int_equal(histogram_total(&histogram), 2 * scale->bound_count + 2);
    uint64_t sum = UINT32_MAX;
    for (uint32_t i = 0; i < scale->bound_count; i++)
        sum += 2 * scale->bounds[i] + 1;
    assert_int_equal(histogram.sum, sum);
}

/* The bucket search relies on it, and so do readers of le="…". */
TEST(the_bounds_of_a_scale_ascend) {
    const struct histogram_scale *scales[] = {&histogram_times, &histogram_counts};
    for (int s = 0; s < 2; s++) {
        assert_in_range(scales[s]->bound_count, 1, HISTOGRAM_BOUNDS_MAX);
        for (uint32_t i = 1; i < scales[s]->bound_count; i++) {
            assert_true(scales[s]->bounds[i] > scales[s]->bounds[i - 1]);
            assert_true(scales[s]->bounds[i] * 2 <= scales[s]->bounds[i - 1] * 5);
        }
    }
}
