/* SPDX-License-Identifier: Apache-2.0
 * A log-linear histogram. Values below 128 have one bucket each; each power of two above is split
 * into 128 equal buckets.
 */
#include "simulate/report/spread.h"

#define PART_BITS 7

static uint32_t spread_bucket_of(int64_t ns) {
    if (ns < 0) ns = 0;
    uint64_t value = (uint64_t)ns;
    if (value < SPREAD_PARTS) return (uint32_t)value;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(value), shift = top - PART_BITS;
    uint32_t bucket = (shift + 1) * SPREAD_PARTS + (uint32_t)(value >> shift) - SPREAD_PARTS;
    return bucket < SPREAD_BUCKETS ? bucket : SPREAD_BUCKETS - 1;
}

static double start_of(uint32_t bucket) {
    uint32_t doubling = bucket / SPREAD_PARTS, part = bucket % SPREAD_PARTS;
    if (doubling == 0) return part;
    return (double)((uint64_t)(SPREAD_PARTS + part) << (doubling - 1));
}

void spread_add(struct time_spread *spread, int64_t ns) {
    spread->counts[spread_bucket_of(ns)]++;
    spread->total++;
    spread->sum += ns > 0 ? (double)ns : 0;
}

double spread_quantile(const struct time_spread *spread, double share) {
    double wanted = share * (double)spread->total, before = 0;
    if (spread->total == 0) return 0;
    for (uint32_t b = 0; b < SPREAD_BUCKETS; b++) {
        double here = (double)spread->counts[b];
        if (here > 0 && before + here >= wanted) {
            double part = wanted > before ? (wanted - before) / here : 0;
            return start_of(b) + part * (start_of(b + 1) - start_of(b));
        }
        before += here;
    }
    return start_of(SPREAD_BUCKETS);
}

double spread_mean(const struct time_spread *spread) {
    return spread->total ? spread->sum / (double)spread->total : 0;
}

double spread_below(const struct time_spread *spread, double ns) {
    double before = 0;
    for (uint32_t b = 0; spread->total && b < SPREAD_BUCKETS && start_of(b) < ns; b++) {
        double width = start_of(b + 1) - start_of(b), part = (ns - start_of(b)) / width;
        before += (double)spread->counts[b] * (part < 1 ? part : 1);
    }
    return spread->total ? before / (double)spread->total : 0;
}
