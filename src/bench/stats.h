/* SPDX-License-Identifier: Apache-2.0
 * Statistics of a series of measured values.
 */
#pragma once

#include <stddef.h>

struct stats {
    size_t count; /* 0: all other members are 0, too */
    double mean, p50, p90, p95, p99, max;
};

/* Sorts the values. Percentiles are interpolated linearly between two values, as numpy.percentile
 * does. */
struct stats stats_of(double *values, size_t count);

/* The figures of repeated runs. */
struct stats_spread {
    double median, low, high;
};

/* Sorts the values, count >= 1. `low` and `high` leave out this share of the values at either end;
 * 0: they are the least and the most. */
struct stats_spread stats_spread(double *values, size_t count, double share);

/* Sorts the values, count >= 1. Of an even count the upper one in the middle. */
double stats_median(double *values, size_t count);
