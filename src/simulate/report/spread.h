/* SPDX-License-Identifier: Apache-2.0
 * The distribution of times: counts in buckets with a width of less than 1 % of their value, so a
 * percentile has enough digits for any report, and memory does not grow with the requests. A zeroed
 * struct is empty.
 */
#pragma once

#include <stdint.h>

#define SPREAD_PARTS 128 /* buckets for each doubling */
#define SPREAD_BUCKETS (42 * SPREAD_PARTS)

struct time_spread {
    uint64_t counts[SPREAD_BUCKETS];
    uint64_t total;
    double sum;
};

/* Adds nanoseconds. Negative values count as 0, values beyond 2^48 (three days) as 2^48. */
void spread_add(struct time_spread *spread, int64_t ns);

/* The value below which this share of all values is; 0 if there are none. */
double spread_quantile(const struct time_spread *spread, double share);
double spread_mean(const struct time_spread *spread);

/* The share of values up to ns. */
double spread_below(const struct time_spread *spread, double ns);
