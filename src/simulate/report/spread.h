/* SPDX-License-Identifier: Apache-2.0
 * How times are spread: counts in buckets of less than 1 % of their value, so that a percentile is
 * as exact as anybody reads it, and memory does not grow with the requests. A zeroed struct is an
 * empty spread.
 */
#ifndef SIMULATE_REPORT_SPREAD_H
#define SIMULATE_REPORT_SPREAD_H

#include <stdint.h>

#define SPREAD_PARTS 128 /* buckets for each doubling */
#define SPREAD_BUCKETS (42 * SPREAD_PARTS)

struct time_spread {
    uint64_t counts[SPREAD_BUCKETS];
    uint64_t total;
    double sum;
};

/* Nanoseconds; negative ones count as 0, what is beyond 2^48 (three days) as that. */
void spread_add(struct time_spread *spread, int64_t ns);

/* The value below which a share of all lies; 0 where there are none. */
double spread_quantile(const struct time_spread *spread, double share);
double spread_mean(const struct time_spread *spread);

/* The share of values up to ns. */
double spread_below(const struct time_spread *spread, double ns);

#endif
