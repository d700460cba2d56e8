/* SPDX-License-Identifier: Apache-2.0
 * Faults drawn at random. Each kind is a Poisson process with a rate of its own, lasts for an
 * exponential time, and strikes all places with the same probability. Each kind has a random stream
 * of its own, so a change of one rate does not change the faults of other kinds.
 */
#pragma once

#include "simulate/simulator/simulator.h"
#include "simulate/simulator/simulator_faults.h"

struct fault_rate {
    double per_hour; /* in the whole fleet */
    double lasts_s;  /* mean; drawn between a hundredth of it and ten times it */
    double factor;   /* for kinds that have one */
};

struct fault_rates {
    struct fault_rate kinds[SIMULATOR_FAULT_KIND_COUNT];
};

/* Draws faults of the fleet of `options` that begin in [begin_ns, end_ns), sorted by time. Returns
 * how many. If there are more than `max`, the latest of each kind are left out first. */
uint32_t draw_faults(const struct simulator_options *options, const struct fault_rates *rates,
                     int64_t begin_ns, int64_t end_ns, uint64_t seed,
                     struct simulator_fault *faults_out, uint32_t max);

/* Sets unit and other: the place of the index-th fault of that kind. */
void draw_faults_place(const struct simulator_options *options, uint64_t seed, uint32_t index,
                       struct simulator_fault *fault);

/* Sorts by time. Faults at the same time keep their order. */
void draw_faults_sort(struct simulator_fault *faults, uint32_t count);
