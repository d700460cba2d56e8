/* SPDX-License-Identifier: Apache-2.0
 * The load of a fleet in a steady state, from what is published of it: means. Lengths are lognormal
 * and bounded; prompts and answers are independent of each other. Of all distributions with these
 * spreads that one is taken whose means are the published ones (struct day_moments).
 *
 * A steady fleet has requests in the middle of their answers. The chance that one of them has an
 * answer of o tokens is o times as large as that of one that arrives, and each of its tokens may be
 * the next one as likely as any other (renewal theory: the inspection paradox). Such a request
 * stands in the run as one whose prompt has what was said already.
 *
 * Lengths are drawn from a sequence of low discrepancy (M. Roberts: the Kronecker sequence of
 * powers of 1/g, g^4 = g + 1), so that few requests have the means of many; arrivals are Poisson.
 */
#ifndef SIMULATE_TWIN_DAY_LOAD_H
#define SIMULATE_TWIN_DAY_LOAD_H

#include "simulate/twin/twin_request.h"

/* What is known, and what is chosen. */
struct day_moments {
    double in_out;    /* prompt tokens for each answer token */
    double hit_share; /* of prompt tokens, that were computed before */
    double kv_mean;   /* KV tokens read for each answer token */
    /* chosen: */
    double prompt_cv, answer_cv; /* standard deviation over mean */
    double first_share;          /* of requests that begin a conversation: they hit nothing; the
                                  * others hit the same share of their prompts */
    uint32_t prompt_max, answer_max;
};

/* The distributions that have these moments, bounds and whole blocks counted in. */
struct day_lengths {
    struct day_moments moments;
    double prompt_mu, prompt_sigma, answer_mu, answer_sigma; /* of logarithms */
    double hit_of_prompt;                                    /* of one that hits */
    double prompt_mean, answer_mean;                         /* tokens, as drawn */
};

/* False: no distribution has them (a kv_mean too small for in_out and answer_cv, say). */
bool day_load_solve(const struct day_moments *moments, struct day_lengths *lengths_out);

struct day_load {
    struct day_lengths lengths;
    double rate;              /* arrivals a second */
    uint32_t standing_count;  /* that are in the middle of their answers at the start */
    uint32_t waiting_count;   /* that arrive at begin_ns, all at once: what the fleet has of
                                  * prompts that are not computed yet */
    int64_t begin_ns, end_ns; /* arrivals lie between them */
    uint64_t seed;
    /* the source's own: */
    uint64_t drawn;
    double clock_s;
};

/* Zero `drawn` and `clock_s` first. `load` lives as long as the source. */
struct twin_source day_load_source(struct day_load *load);

#endif
