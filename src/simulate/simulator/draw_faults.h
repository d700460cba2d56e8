/* SPDX-License-Identifier: Apache-2.0
 * Draws random faults. Each kind is a Poisson process with its own rate, lasts for an exponential
 * time, and strikes all places with equal probability. Each kind has its own random stream, so a
 * change of one rate does not change the faults of other kinds.
 */
#pragma once

#include "simulate/simulator/simulator.h"
#include "simulate/simulator/simulator_faults.h"

struct fault_rate {
    double per_hour; /* in the whole fleet */
    double lasts_s;  /* mean; draws are between a hundredth of it and ten times it */
    double factor;   /* for the kinds that have one */
};

struct fault_rates {
    struct fault_rate kinds[SIMULATOR_FAULT_KIND_COUNT];
};

/* Draws faults for the fleet of `options` that begin in [begin_ns, end_ns), sorted by time. Returns
 * their number. If there are more than `max`, the latest of each kind are dropped first. */
uint32_t draw_faults(const struct simulator_options *options, const struct fault_rates *rates,
                     int64_t begin_ns, int64_t end_ns, uint64_t seed,
                     struct simulator_fault *faults_out, uint32_t max);

/* Draws the place of the fault, the index-th of its kind: sets `unit` and `other`. */
void draw_faults_place(const struct simulator_options *options, uint64_t seed, uint32_t index,
                       struct simulator_fault *fault);

/* Sorts by time. Faults at the same time keep their order. */
void draw_faults_sort(struct simulator_fault *faults, uint32_t count);
