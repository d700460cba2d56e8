/* SPDX-License-Identifier: Apache-2.0
 * What a run of measured values looks like: mean, percentiles, maximum.
 */
#ifndef BENCH_LOAD_STATS_H
#define BENCH_LOAD_STATS_H

#include <stddef.h>

struct load_stats {
    size_t count; /* 0: all the rest is 0, too */
    double mean, p50, p90, p95, p99, max;
};

/* Sorts the values. */
struct load_stats load_stats_of(double *values, size_t count);

/* Of sorted values, count >= 1; share in [0, 1]. Between two values it goes in a straight line, as
 * numpy.percentile does. */
double load_stats_percentile(const double *sorted, size_t count, double share);

#endif
