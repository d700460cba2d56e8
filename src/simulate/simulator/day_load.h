/* SPDX-License-Identifier: Apache-2.0
 * The load of a fleet in a steady state, derived from published means. Lengths of prompts and
 * answers are lognormal, bounded, and independent of each other. The module finds the distribution
 * that has the published means (struct day_moments), given chosen spreads.
 *
 * A fleet in a steady state has requests in the middle of their answers. Compared with an arriving
 * request, one of these has an answer of o tokens with a probability that is weighted by o, and
 * each of its tokens is equally likely to be the next (renewal theory: the inspection paradox). In
 * the run, the prompt of such a request includes the tokens that were generated before.
 *
 * Lengths are drawn from a low-discrepancy sequence (M. Roberts: the Kronecker sequence of powers
 * of 1/g, g^4 = g + 1), so that few requests have the means of many. Arrivals are Poisson.
 */
#pragma once

#include "simulate/simulator/simulator_request.h"

/* Known means and chosen parameters. */
struct day_moments {
    double in_out;    /* prompt tokens per answer token */
    double hit_share; /* share of prompt tokens that are cached */
    double kv_mean;   /* KV tokens read per answer token */
    /* Chosen: */
    double prompt_cv, answer_cv; /* standard deviation over mean */
    double first_share;          /* share of requests that begin a conversation. They hit nothing;
                                  * all others hit the same share of their prompts */
    uint32_t prompt_max, answer_max;
};

/* The distributions that have these moments, including bounds and whole blocks. */
struct day_lengths {
    struct day_moments moments;
    double prompt_mu, prompt_sigma, answer_mu, answer_sigma; /* of logarithms */
    /* Cached share of the prompt, for a request that hits. */
    double hit_of_prompt;
    double prompt_mean, answer_mean; /* tokens, as drawn */
};

/* Returns false if no distribution has these moments, for example if kv_mean is too small for
 * in_out and answer_cv. */
bool day_load_solve(const struct day_moments *moments, struct day_lengths *lengths_out);

struct day_load {
    struct day_lengths lengths;
    double rate;              /* arrivals per second */
    uint32_t standing_count;  /* requests in the middle of their answers at the start */
    uint32_t waiting_count;   /* requests that all arrive at begin_ns, for prompts that the fleet
                               * has not computed yet */
    int64_t begin_ns, end_ns; /* the period of arrivals */
    uint64_t seed;
    /* State of the source: */
    uint64_t drawn;
    double clock_s;
};

/* Set `drawn` and `clock_s` to zero before. `load` must live as long as the source. */
struct simulator_source day_load_source(struct day_load *load);
