/* SPDX-License-Identifier: Apache-2.0
 * What faults cost: the same requests in two runs that differ in their faults alone, compared one by
 * one. A request belongs to a fault if it was in the fleet, in either run, at some time from the
 * fault's beginning until FAULT_COSTS_AFTER_NS behind its end, by when units that came back empty
 * have their caches again. Where faults of several kinds meet, each kind is charged.
 */
#ifndef SIMULATE_TWIN_FAULT_COSTS_H
#define SIMULATE_TWIN_FAULT_COSTS_H

#include "simulate/twin/twin.h"
#include "simulate/twin/twin_faults.h"

#define FAULT_COSTS_AFTER_NS ((int64_t)10000000000)

struct fault_limits { /* 0: none */
    int64_t ttft_ns, tpot_ns;
};

/* The ends of a run's requests, by their numbers: ends[number - 1]. */
struct fault_ends {
    struct twin_ended *ends; /* [max]; the caller's, zeroed */
    uint64_t max, count;     /* count: the largest number seen; beyond max none is kept */
};

struct fault_cost { /* of a kind */
    uint64_t times;
    uint64_t requests;                   /* that belong to its faults */
    uint64_t ttft_missed, tpot_missed;   /* of them, with the faults; a failed one misses both */
    uint64_t ttft_without, tpot_without; /* the same requests without any fault */
    uint64_t failed;                     /* refused or cut, of them */
};

/* As twin_options.ended, with the struct fault_ends as context. */
void fault_costs_note(void *context, const struct twin_ended *ended);

/* Requests in the middle of their answers when the run began have no TTFT. Adds to
 * costs[TWIN_FAULT_KIND_COUNT]. */
void fault_costs_add(const struct fault_limits *limits, const struct twin_fault *faults,
                     uint32_t fault_count, const struct fault_ends *with,
                     const struct fault_ends *without, struct fault_cost *costs);

#endif
