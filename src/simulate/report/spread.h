/* SPDX-License-Identifier: Apache-2.0
 * The distribution of many times. It counts them in buckets with a width of less than 1 % of their
 * value. So percentiles have enough digits for any report, and memory does not grow with the number
 * of requests. A zeroed struct is empty.
 */
#pragma once

#include <stdint.h>

#define SPREAD_PARTS 128 /* buckets per power of two */
#define SPREAD_BUCKETS (42 * SPREAD_PARTS)

struct time_spread {
    uint64_t counts[SPREAD_BUCKETS];
    uint64_t total;
    double sum;
};

/* Adds a time. Negative values count as 0, and values above 2^48 ns (three days) as 2^48. */
void spread_add(struct time_spread *spread, int64_t ns);

/* The value below which this share of all values lies; 0 if there are none. */
double spread_quantile(const struct time_spread *spread, double share);
double spread_mean(const struct time_spread *spread);

/* The share of values up to ns. */
double spread_below(const struct time_spread *spread, double ns);
