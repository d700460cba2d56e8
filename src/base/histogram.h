/* SPDX-License-Identifier: Apache-2.0
 * Histograms of fixed buckets: counts of values up to each bound, and of those beyond the last,
 * with their sum. Values and bounds are whole numbers of the caller's unit (nanoseconds, tokens),
 * so that nothing is lost to rounding however many are added. A zeroed struct is an empty
 * histogram; memory never grows.
 *
 * The two scales serve all of Fathom: a bucket is 2 to 2.5 times as wide as the one before.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 24

struct histogram_scale {
    uint32_t bound_count;                  /* 1..HISTOGRAM_BOUNDS_MAX */
    uint64_t bounds[HISTOGRAM_BOUNDS_MAX]; /* ascending; a bucket holds values <= its bound */
};

extern const struct histogram_scale histogram_times;  /* ns: 100 us, 250 us, 500 us … 500 s */
extern const struct histogram_scale histogram_counts; /* 1, 2, 4 … 262144 */

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* of each bucket alone; the last of all holds what
                                                * is beyond the scale */
    uint64_t sum;
};

void histogram_add(struct histogram *histogram, const struct histogram_scale *scale,
                   uint64_t value);

/* All values added so far. */
uint64_t histogram_total(const struct histogram *histogram);

#endif
