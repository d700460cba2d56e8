/* SPDX-License-Identifier: Apache-2.0
 * Histograms with fixed buckets: counts of values up to each bound, a count of larger values,
 * and the sum. Values and bounds are integers in the caller's unit (nanoseconds, tokens), so
 * that sums stay exact. A zeroed struct is an empty histogram. Memory never grows.
 *
 * All of Fathom uses the two scales below. A bucket is 2 to 2.5 times as wide as the previous
 * one.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 24

struct histogram_scale {
    uint32_t bound_count;                  /* 1..HISTOGRAM_BOUNDS_MAX */
    uint64_t bounds[HISTOGRAM_BOUNDS_MAX]; /* ascending; a bucket holds values <= its bound */
};

extern const struct histogram_scale histogram_times;  /* ns: 100 us, 250 us, 500 us … 500 s */
extern const struct histogram_scale histogram_counts; /* 1, 2, 4 … 262144 */

struct histogram {
    /* count of each bucket; the last one counts values beyond the scale */
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1];
    uint64_t sum;
};

void histogram_add(struct histogram *histogram, const struct histogram_scale *scale,
                   uint64_t value);

/* The number of values added. */
uint64_t histogram_total(const struct histogram *histogram);
