/* SPDX-License-Identifier: Apache-2.0
 * A source of drawn requests (struct twin_source): conversations of a given shape begin at random,
 * go on for some turns, and end. A turn comes when the one before it was answered, as fast as
 * answers are assumed to be, and read.
 *
 * A mix may have a past: conversations that began before the run. Then the first requests are those
 * in the middle of their answers at time 0 (standing), and what prompts share with earlier ones is
 * stored already, so that the first minute is as any other. The same options give the same
 * requests.
 */
#ifndef SIMULATE_LOAD_LOAD_MIX_H
#define SIMULATE_LOAD_LOAD_MIX_H

#include "base/arena.h"
#include "simulate/load/load_shape.h"
#include "simulate/twin/twin_request.h"

struct load_mix_options {
    struct load_shape shape;
    double requests_per_s;
    double arrival_cv; /* of the gaps between conversations' begins; 1: Poisson */
    double think_s;    /* from an answer's end to the next turn, mean; exponential */
    double ttft_s;     /* assumed of answers, to know when a turn ends and who stands at 0 */
    double tpot_s;
    bool past;         /* conversations began before the run; its standing requests come first */
    bool stored;       /* what was computed in the past lies in the fleet's storage */
    uint64_t requests; /* so many, standing ones apart, then none; 0: no end */
    uint64_t seed;
};

struct load_mix;

size_t load_mix_bytes(const struct load_mix_options *options);

/* STATUS_INVALID: the shape's lengths do not fit its tokens_max. */
enum status load_mix_open(struct arena *arena, const struct load_mix_options *options,
                          struct load_mix **mix_out, struct error *error) MUST_USE;

struct twin_source load_mix_source(struct load_mix *mix);

/* Conversations that ended early, because too many waited for their next turn. */
uint64_t load_mix_cut(const struct load_mix *mix);

#endif
