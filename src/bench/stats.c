/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stats.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* For sorted values, count >= 1; share in [0, 1]. */
static double stats_percentile(const double *sorted, size_t count, double share) {
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

struct stats stats_of(double *values, size_t count) {
    struct stats stats = {.count = count};
    if (count == 0) return stats;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++)
        stats.mean += values[i] / (double)count;
    stats.p50 = stats_percentile(values, count, 0.50);
    stats.p90 = stats_percentile(values, count, 0.90);
    stats.p95 = stats_percentile(values, count, 0.95);
    stats.p99 = stats_percentile(values, count, 0.99);
    stats.max = values[count - 1];
    return stats;
}

struct stats_spread stats_spread(double *values, size_t count, double share) {
    size_t left_out = (size_t)(share * (double)count);
    qsort(values, count, sizeof *values, by_value);
    return (struct stats_spread){
        .median = values[count / 2], .low = values[left_out], .high = values[count - 1 - left_out]};
}

double stats_median(double *values, size_t count) {
    return stats_spread(values, count, 0).median;
}
