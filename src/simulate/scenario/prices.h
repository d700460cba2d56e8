/* SPDX-License-Identifier: Apache-2.0
 * Prices: what a node costs an hour, and what tokens bring in by the time of the day. A prices file
 * has a list price and may have periods in which another one holds (an off-peak discount).
 */
#ifndef SIMULATE_SCENARIO_PRICES_H
#define SIMULATE_SCENARIO_PRICES_H

#include "simulate/scenario/scenario_keys.h"

#define PRICES_PERIODS_MAX 8

struct token_prices { /* of a million tokens */
    double input_hit, input_miss, output;
};

struct prices_period {
    double from_hour, to_hour; /* of the day, UTC; over midnight where to < from */
    struct token_prices tokens;
};

struct prices {
    char name[SCENARIO_TEXT_BYTES];
    char currency[SCENARIO_TEXT_BYTES];
    double node_hour; /* 0: there are no prices */
    struct token_prices tokens;
    struct prices_period periods[PRICES_PERIODS_MAX];
    uint32_t period_count;
};

enum status prices_read(const struct scenario_place *place, const struct tree *tree,
                        struct prices *prices_out) MUST_USE;

/* Those of an hour of the day (UTC, any real number; taken modulo 24). */
struct token_prices prices_at(const struct prices *prices, double hour);

/* What so many tokens bring in. */
double prices_income(const struct token_prices *prices, double hit_tokens, double miss_tokens,
                     double output_tokens);

#endif
