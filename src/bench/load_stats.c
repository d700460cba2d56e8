/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_stats.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double load_stats_percentile(const double *sorted, size_t count, double share) {
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

struct load_stats load_stats_of(double *values, size_t count) {
    struct load_stats stats = {.count = count};
    if (count == 0) return stats;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++)
        stats.mean += values[i] / (double)count;
    stats.p50 = load_stats_percentile(values, count, 0.50);
    stats.p90 = load_stats_percentile(values, count, 0.90);
    stats.p95 = load_stats_percentile(values, count, 0.95);
    stats.p99 = load_stats_percentile(values, count, 0.99);
    stats.max = values[count - 1];
    return stats;
}
