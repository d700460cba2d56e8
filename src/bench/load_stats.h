/* SPDX-License-Identifier: Apache-2.0
 * Statistics of a series of measured values: mean, percentiles, maximum.
 */
#ifndef BENCH_LOAD_STATS_H
#define BENCH_LOAD_STATS_H

#include <stddef.h>

struct load_stats {
    size_t count; /* 0: all other members are 0, too */
    double mean, p50, p90, p95, p99, max;
};

/* Sorts the values. */
struct load_stats load_stats_of(double *values, size_t count);

/* For sorted values, count >= 1; share in [0, 1]. Interpolates linearly between two values, as
 * numpy.percentile does. */
double load_stats_percentile(const double *sorted, size_t count, double share);

#endif
