/* SPDX-License-Identifier: Apache-2.0
 * The cost of faults: the same requests in two runs that differ in their faults alone, compared one
 * by one. A request belongs to a fault if it was in the fleet, in either run, at some time from the
 * fault's beginning to FAULT_COSTS_AFTER_NS after its end, when restarted units have filled their
 * caches again. If faults of several kinds overlap, each kind is charged.
 */
#pragma once

#include "simulate/simulator/simulator.h"
#include "simulate/simulator/simulator_faults.h"

#define FAULT_COSTS_AFTER_NS ((int64_t)10000000000)

struct fault_limits { /* 0: none */
    int64_t ttft_ns, tpot_ns;
};

/* The ends of a run's requests by number: ends[number - 1]. */
struct fault_ends {
    struct simulator_ended *ends; /* [max] zeroed memory of the caller */
    uint64_t max, count; /* count: the largest number seen; requests beyond max are ignored */
};

struct fault_cost { /* of one kind */
    uint64_t times;
    uint64_t requests;                   /* requests that belong to its faults */
    uint64_t ttft_missed, tpot_missed;   /* with the faults; a failed request misses both limits */
    uint64_t ttft_without, tpot_without; /* without any fault */
    uint64_t failed;                     /* refused or cut */
};

/* The callback simulator_options.ended. Its context is the struct fault_ends. */
void fault_costs_note(void *context, const struct simulator_ended *ended);

/* Adds to costs[SIMULATOR_FAULT_KIND_COUNT]. Requests in the middle of their answers at the start
 * of the run have no TTFT. */
void fault_costs_add(const struct fault_limits *limits, const struct simulator_fault *faults,
                     uint32_t fault_count, const struct fault_ends *with,
                     const struct fault_ends *without, struct fault_cost *costs);
