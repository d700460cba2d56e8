/* SPDX-License-Identifier: Apache-2.0
 * Statistics of a series of measured values.
 */
#pragma once

#include <stddef.h>

struct stats {
    size_t count; /* if 0, all other members are 0, too */
    double mean, p50, p90, p95, p99, max;
};

/* Sorts the values. Percentiles are interpolated linearly between the nearest two values, as in
 * numpy.percentile. */
struct stats stats_of(double *values, size_t count);

/* The median and the range of the results of repeated runs. */
struct stats_spread {
    double median, low, high;
};

/* Sorts the values; count >= 1. The range leaves out this share of the values (below 0.5) at each
 * end. With a share of 0 it extends from the minimum to the maximum. */
struct stats_spread stats_spread(double *values, size_t count, double share);

/* Sorts the values; count >= 1. If the count is even, the upper of the middle two is the median. */
double stats_median(double *values, size_t count);
