/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull

const struct histogram_scale histogram_times = {
    21,
    {100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US, 5 * MS,  10 * MS,
     25 * MS,  50 * MS,  100 * MS, 250 * MS, 500 * MS,  1 * S,   2500 * MS,
     5 * S,    10 * S,   25 * S,   50 * S,   100 * S,   250 * S, 500 * S},
};

const struct histogram_scale histogram_counts = {
    19,
    {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072,
     262144},
};

void histogram_add(struct histogram *histogram, const struct histogram_scale *scale,
                   uint64_t value) {
    uint32_t bucket = 0;
    while (bucket < scale->bound_count && value > scale->bounds[bucket])
        bucket++;
    if (bucket == scale->bound_count) bucket = HISTOGRAM_BOUNDS_MAX;
    histogram->counts[bucket]++;
    histogram->sum += value;
}

uint64_t histogram_total(const struct histogram *histogram) {
    uint64_t total = 0;
    for (uint32_t i = 0; i <= HISTOGRAM_BOUNDS_MAX; i++)
        total += histogram->counts[i];
    return total;
}
