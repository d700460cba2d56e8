/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/fault_costs.h"

void fault_costs_note(void *context, const struct simulator_ended *ended) {
    struct fault_ends *ends = context;
    if (ended->number > ends->count) ends->count = ended->number;
    if (ended->number <= ends->max) ends->ends[ended->number - 1] = *ended;
}

static bool misses_ttft(const struct fault_limits *limits, const struct simulator_ended *ended) {
    if (limits->ttft_ns == 0 || ended->standing) return false;
    return ended->failed || ended->first_ns - ended->arrival_ns > limits->ttft_ns;
}

/* Compares the mean time per output token, without the first token. */
static bool misses_tpot(const struct fault_limits *limits, const struct simulator_ended *ended) {
    if (limits->tpot_ns == 0) return false;
    if (ended->failed) return true;
    return ended->answer_tokens > 1 &&
           ended->last_ns - ended->first_ns > limits->tpot_ns * (ended->answer_tokens - 1);
}

static bool fault_costs_is_there(const struct simulator_fault *fault,
                                 const struct simulator_ended *ended) {
    return ended->end_ns >= fault->at_ns &&
           ended->arrival_ns <= fault->at_ns + fault->lasts_ns + FAULT_COSTS_AFTER_NS;
}

static bool belongs(const struct simulator_fault *faults, uint32_t fault_count, uint32_t kind,
                    const struct simulator_ended *with, const struct simulator_ended *without) {
    for (uint32_t i = 0; i < fault_count; i++)
        if (faults[i].kind == kind &&
            (fault_costs_is_there(&faults[i], with) || fault_costs_is_there(&faults[i], without)))
            return true;
    return false;
}

static void fault_costs_add_request(const struct fault_limits *limits,
                                    const struct simulator_ended *with,
                                    const struct simulator_ended *without,
                                    struct fault_cost *cost) {
    cost->requests++;
    cost->failed += with->failed;
    cost->ttft_missed += misses_ttft(limits, with);
    cost->tpot_missed += misses_tpot(limits, with);
    cost->ttft_without += misses_ttft(limits, without);
    cost->tpot_without += misses_tpot(limits, without);
}

void fault_costs_add(const struct fault_limits *limits, const struct simulator_fault *faults,
                     uint32_t fault_count, const struct fault_ends *with,
                     const struct fault_ends *without, struct fault_cost *costs) {
    for (uint32_t i = 0; i < fault_count; i++)
        costs[faults[i].kind].times++;
    for (uint64_t i = 0; i < with->max && i < without->max; i++) {
        const struct simulator_ended *one = &with->ends[i], *other = &without->ends[i];
        if (one->number == 0 || other->number == 0) continue; /* it did not end in both runs */
        for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++)
            if (belongs(faults, fault_count, kind, one, other))
                fault_costs_add_request(limits, one, other, &costs[kind]);
    }
}
