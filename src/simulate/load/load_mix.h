/* SPDX-License-Identifier: Apache-2.0
 * A source of random requests (struct simulator_source). Conversations of a given shape begin at
 * random, last for some turns, and end. A turn arrives when the previous one has been answered, at
 * the assumed speed of answers, and read.
 *
 * A mix may have a past: conversations that began before the run. The first requests are then those
 * in the middle of their answers at time 0 (standing), and the parts that prompts share with
 * earlier ones are already stored, so the first minute is like any other. The same options yield
 * the same requests.
 */
#pragma once

#include "base/arena.h"
#include "simulate/load/load_shape.h"
#include "simulate/simulator/simulator_request.h"

struct load_mix_options {
    struct load_shape shape;
    double requests_per_s;
    double arrival_cv; /* of the gaps between conversations' begins; 1: Poisson */
    double think_s;    /* from an answer's end to the next turn, mean; exponential */
    double ttft_s;     /* assumed of answers, to determine when a turn ends and which requests are
                        * standing at 0 */
    double tpot_s;
    bool past;         /* conversations began before the run; its standing requests are first */
    bool stored;       /* the fleet's storage has the prefixes computed in the past */
    uint64_t requests; /* limit without standing ones; 0: no limit */
    uint64_t seed;
};

struct load_mix;

size_t load_mix_bytes(const struct load_mix_options *options);

/* Returns STATUS_INVALID if the shape's lengths do not fit its tokens_max. */
enum status load_mix_open(struct arena *arena, const struct load_mix_options *options,
                          struct load_mix **mix_out, struct error *error) MUST_USE;

struct simulator_source load_mix_source(struct load_mix *mix);

/* The number of conversations that ended early because too many waited for their next turn. */
uint64_t load_mix_cut(const struct load_mix *mix);
