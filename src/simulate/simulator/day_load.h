/* SPDX-License-Identifier: Apache-2.0
 * The load of a fleet in a steady state, derived from published means. Lengths are lognormal and
 * bounded. Prompts and answers are independent of each other. The module chooses the
 * distribution with the chosen spreads that has the published means (struct day_moments).
 *
 * A steady fleet has requests in the middle of their answers. The chance that one of them has an
 * answer of o tokens is o times that of an arriving request, and each of its tokens is equally
 * likely to be the next one (renewal theory: the inspection paradox). In the run such a request is
 * one with a prompt that includes the tokens generated so far.
 *
 * Lengths are drawn from a low-discrepancy sequence (M. Roberts: the Kronecker sequence of powers
 * of 1/g, g^4 = g + 1), so few requests suffice to have the means of many. Arrivals are Poisson.
 */
#pragma once

#include "simulate/simulator/simulator_request.h"

/* Known means and chosen parameters. */
struct day_moments {
    double in_out;    /* prompt tokens for each answer token */
    double hit_share; /* share of prompt tokens that are cached */
    double kv_mean;   /* KV tokens read for each answer token */
    /* Chosen: */
    double prompt_cv, answer_cv; /* standard deviation over mean */
    double first_share;          /* share of requests that begin a conversation. They hit nothing;
                                  * the others hit the same share of their prompts */
    uint32_t prompt_max, answer_max;
};

/* The distributions that have these moments, including bounds and whole blocks. */
struct day_lengths {
    struct day_moments moments;
    double prompt_mu, prompt_sigma, answer_mu, answer_sigma; /* of logarithms */
    /* Share of the prompt, for a request that hits. */
    double hit_of_prompt;
    double prompt_mean, answer_mean; /* tokens, as drawn */
};

/* Returns false if no distribution has these moments (for example if kv_mean is too small for
 * in_out and answer_cv). */
bool day_load_solve(const struct day_moments *moments, struct day_lengths *lengths_out);

struct day_load {
    struct day_lengths lengths;
    double rate;              /* arrivals a second */
    uint32_t standing_count;  /* requests in the middle of their answers at the start */
    uint32_t waiting_count;   /* requests that arrive at begin_ns, all at once: the fleet's prompts
                               * that are not computed yet */
    int64_t begin_ns, end_ns; /* the period of arrivals */
    uint64_t seed;
    /* The source's own state: */
    uint64_t drawn;
    double clock_s;
};

/* Set `drawn` and `clock_s` to zero first. `load` must live as long as the source. */
struct simulator_source day_load_source(struct day_load *load);
