/* SPDX-License-Identifier: Apache-2.0
 * Faults drawn at random: each kind comes at a rate of its own (a Poisson process), lasts for an
 * exponential time, and strikes any place alike. Each kind has a stream of chance of its own, so a
 * rate that changes leaves the other kinds' faults where they are.
 */
#ifndef SIMULATE_TWIN_DRAW_FAULTS_H
#define SIMULATE_TWIN_DRAW_FAULTS_H

#include "simulate/twin/twin.h"
#include "simulate/twin/twin_faults.h"

struct fault_rate {
    double per_hour; /* of the whole fleet */
    double lasts_s;  /* mean; at least a hundredth of it is drawn, and ten times at most */
    double factor;   /* of kinds that have one */
};

struct fault_rates {
    struct fault_rate kinds[TWIN_FAULT_KIND_COUNT];
};

/* Faults of `options`' fleet that begin in [begin_ns, end_ns), by time. Returns how many; faults
 * beyond `max` are left out, the latest of each kind first. */
uint32_t draw_faults(const struct twin_options *options, const struct fault_rates *rates,
                     int64_t begin_ns, int64_t end_ns, uint64_t seed, struct twin_fault *faults_out,
                     uint32_t max);

/* Where a fault of that kind strikes, for the index-th time: sets its unit and other. */
void draw_faults_place(const struct twin_options *options, uint64_t seed, uint32_t index,
                       struct twin_fault *fault);

/* By time; those of the same time stay in their order. */
void draw_faults_sort(struct twin_fault *faults, uint32_t count);

#endif
