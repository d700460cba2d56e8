/* SPDX-License-Identifier: Apache-2.0
 * The cost of faults. The same requests are run twice, with and without the faults, and compared
 * one by one. A request belongs to a fault if in either run it was in the fleet at some time from
 * the start of the fault to FAULT_COSTS_AFTER_NS after its end, when restarted units have filled
 * their caches again. If faults of several kinds overlap, each kind is charged.
 */
#pragma once

#include "simulate/simulator/simulator.h"
#include "simulate/simulator/simulator_faults.h"

#define FAULT_COSTS_AFTER_NS ((int64_t)10000000000)

struct fault_limits { /* 0: no limit */
    int64_t ttft_ns, tpot_ns;
};

/* The ends of the requests of a run, by request number: ends[number - 1]. */
struct fault_ends {
    struct simulator_ended *ends; /* [max], zeroed memory of the caller */
    uint64_t max, count; /* count: the largest number seen; requests beyond max are ignored */
};

struct fault_cost { /* of one kind of fault */
    uint64_t times;
    uint64_t requests;                   /* that belong to these faults */
    uint64_t ttft_missed, tpot_missed;   /* with the faults; a failed request misses both limits */
    uint64_t ttft_without, tpot_without; /* in the run without faults */
    uint64_t failed;                     /* refused or cut */
};

/* The callback simulator_options.ended. `context` is a struct fault_ends. */
void fault_costs_note(void *context, const struct simulator_ended *ended);

/* Adds to costs[SIMULATOR_FAULT_KIND_COUNT]. Standing requests have no TTFT. */
void fault_costs_add(const struct fault_limits *limits, const struct simulator_fault *faults,
                     uint32_t fault_count, const struct fault_ends *with,
                     const struct fault_ends *without, struct fault_cost *costs);
