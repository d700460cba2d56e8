/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/draw_faults.h"

#include <math.h>

#include "base/number.h"
#include "base/random.h"

#define STREAM_FIRST 64 /* two streams for each kind; a third stream draws the place */
#define HOUR_NS 3600e9

enum { GAP, LENGTH, PLACE, STREAMS };

static uint32_t draw_faults_stream_of(uint32_t kind, uint32_t what) {
    return STREAM_FIRST + kind * STREAMS + what;
}

static uint32_t draw_faults_below(uint64_t seed, uint32_t kind, uint32_t index, uint32_t count) {
    return (uint32_t)(random_uniform(seed, draw_faults_stream_of(kind, PLACE), index) * count);
}

static double draw_faults_exponential(uint64_t seed, uint32_t stream, uint32_t index) {
    return -log(1 - random_uniform(seed, stream, index));
}

/* The size of a rack, which has consecutive units: a quarter of the fleet. */
static uint32_t rack_units(uint32_t units) {
    return max_u32(1, units / 4);
}

void draw_faults_place(const struct simulator_options *options, uint64_t seed, uint32_t index,
                       struct simulator_fault *fault) {
    uint32_t units = simulator_unit_count(options), kind = fault->kind;
    fault->unit = draw_faults_below(seed, kind, 2 * index, units);
    fault->other = 0;
    switch ((enum simulator_fault_kind)kind) {
    case SIMULATOR_FAULT_RACK_DIES:
        fault->other = min_u32(units, fault->unit + rack_units(units)) - 1;
        break;
    case SIMULATOR_FAULT_UNITS_CUT:
        if (units > 1)
            fault->other =
                (fault->unit + 1 + draw_faults_below(seed, kind, 2 * index + 1, units - 1)) % units;
        break;
    case SIMULATOR_FAULT_GATEWAY_CUT:
        fault->other = draw_faults_below(seed, kind, 2 * index + 1, options->gateways);
        break;
    case SIMULATOR_FAULT_RANK_SLOW:
        fault->other = draw_faults_below(seed, kind, 2 * index + 1,
                                         simulator_kind_of(options, fault->unit)->ranks);
        break;
    default:
        break;
    }
}

void draw_faults_sort(struct simulator_fault *faults, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        struct simulator_fault fault = faults[i];
        uint32_t at = i;
        for (; at > 0 && faults[at - 1].at_ns > fault.at_ns; at--)
            faults[at] = faults[at - 1];
        faults[at] = fault;
    }
}

uint32_t draw_faults(const struct simulator_options *options, const struct fault_rates *rates,
                     int64_t begin_ns, int64_t end_ns, uint64_t seed,
                     struct simulator_fault *faults, uint32_t max) {
    uint32_t count = 0;
    for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++) {
        const struct fault_rate *rate = &rates->kinds[kind];
        double at_ns = (double)begin_ns;
        if (kind == SIMULATOR_FAULT_UNITS_CUT && simulator_unit_count(options) < 2) continue;
        for (uint32_t index = 0; rate->per_hour > 0 && count < max; index++) {
            at_ns += draw_faults_exponential(seed, draw_faults_stream_of(kind, GAP), index) *
                     HOUR_NS / rate->per_hour;
            if (at_ns >= (double)end_ns) break;
            double lasts =
                draw_faults_exponential(seed, draw_faults_stream_of(kind, LENGTH), index);
            struct simulator_fault *fault = &faults[count++];
            *fault = (struct simulator_fault){
                .at_ns = (int64_t)at_ns,
                .lasts_ns = (int64_t)(fmax(0.01, fmin(lasts, 10)) * rate->lasts_s * 1e9),
                .kind = kind,
                .factor = rate->factor};
            draw_faults_place(options, seed, index, fault);
        }
    }
    draw_faults_sort(faults, count);
    return count;
}
