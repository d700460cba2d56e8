/* SPDX-License-Identifier: Apache-2.0
 * A source of requests that replays a trace (struct simulator_source). Lengths and times are scaled
 * by given factors, and the trace is played several times. Prompts share prefixes only within a
 * play. Several plays may run at once, each starting at another place in the trace. A trace of a
 * small service can thus load a large fleet without bursts that never occurred.
 */
#pragma once

#include "simulate/load/load_trace.h"
#include "simulate/simulator/simulator_request.h"

#define LOAD_REPLAY_ABREAST_MAX 256

struct load_replay_options {
    const struct load_trace *trace; /* must live as long as the source */
    uint32_t block_tokens;          /* in place of LOAD_TRACE_BLOCK_TOKENS, which scales
                                     * lengths */
    uint32_t tokens_max;            /* prompts, and then answers, are cut to fit; 0: no limit */
    double speed;                   /* factor on the recorded speed */
    double requests_per_s;          /* if > 0, replaces speed: the rate of all plays together */
    uint32_t plays;                 /* consecutive plays, >= 1; 0: no end */
    uint32_t abreast;               /* plays at once, 1..LOAD_REPLAY_ABREAST_MAX */
    uint64_t requests;              /* limit; 0: none */
    uint64_t seed;
};

struct load_replay;

size_t load_replay_bytes(const struct load_replay_options *options);

/* Returns STATUS_INVALID if the trace has no arrival times and no rate is given. */
enum status load_replay_open(struct arena *arena, const struct load_replay_options *options,
                             struct load_replay **replay_out, struct error *error) MUST_USE;

struct simulator_source load_replay_source(struct load_replay *replay);
