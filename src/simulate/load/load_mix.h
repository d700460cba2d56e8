/* SPDX-License-Identifier: Apache-2.0
 * A source of random requests (struct simulator_source). Conversations of a given shape begin at
 * random times and last for some turns. The next turn arrives when the previous answer has been
 * streamed, at an assumed speed, and read.
 *
 * A mix may have a past: conversations that began before the run. The first requests are then those
 * in the middle of their answers at time 0 (standing requests). The prefixes that prompts share
 * with earlier ones may be stored already, so the first minute is like any other. Equal options
 * yield equal requests.
 */
#pragma once

#include "base/arena.h"
#include "simulate/load/load_shape.h"
#include "simulate/simulator/simulator_request.h"

struct load_mix_options {
    struct load_shape shape;
    double requests_per_s;
    double arrival_cv; /* of the time between starts of conversations; 1: Poisson */
    double think_s;    /* mean time from an answer's end to the next turn; exponential */
    double ttft_s;     /* assumed, like tpot_s, to determine when a turn ends and which requests are
                        * standing at time 0 */
    double tpot_s;
    bool past;         /* conversations began before the run; standing requests come first */
    bool stored;       /* the KV storage has the prefixes computed in the past */
    uint64_t requests; /* limit, not counting standing requests; 0: no limit */
    uint64_t seed;
};

struct load_mix;

size_t load_mix_bytes(const struct load_mix_options *options);

/* Returns STATUS_INVALID if lengths of this shape do not fit in its tokens_max. */
enum status load_mix_open(struct arena *arena, const struct load_mix_options *options,
                          struct load_mix **mix_out, struct error *error) MUST_USE;

struct simulator_source load_mix_source(struct load_mix *mix);

/* The number of conversations that ended early because too many waited for their next turn. */
uint64_t load_mix_cut(const struct load_mix *mix);
