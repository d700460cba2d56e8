/* SPDX-License-Identifier: Apache-2.0
 * Prices: the cost of a node per hour, and the income from tokens by time of day. A prices file has
 * list prices and may have periods with other prices (an off-peak discount). A model may have its
 * own calendar, selected by the model name of the request.
 */
#pragma once

#include "simulate/hardware/tree_keys.h"

#define PRICES_PERIODS_MAX 8
#define PRICES_MODELS_MAX 16

struct token_prices { /* per million tokens */
    double input_hit, input_miss, output;
};

struct prices_period {
    double from_hour, to_hour; /* of the day, UTC; past midnight if to < from */
    struct token_prices tokens;
};

struct prices_calendar {
    struct token_prices tokens; /* list prices, valid outside of all periods */
    struct prices_period periods[PRICES_PERIODS_MAX];
    uint32_t period_count;
};

struct prices_model {
    char name[TREE_TEXT_BYTES];
    struct prices_calendar calendar;
};

struct prices {
    char name[TREE_TEXT_BYTES];
    char currency[TREE_TEXT_BYTES];
    double node_hour;                              /* 0: there are no prices */
    struct prices_calendar calendar;               /* for models that are not in `models` */
    struct prices_model models[PRICES_MODELS_MAX]; /* [model_count], all names differ */
    uint32_t model_count;
};

enum status prices_read(const struct tree_place *place, const struct tree *tree,
                        struct prices *prices_out) MUST_USE;

/* The calendar of the model with that name. */
const struct prices_calendar *prices_of_model(const struct prices *prices, struct bytes model);

/* The prices at an hour of the day (UTC; any real number, taken modulo 24). */
struct token_prices prices_at(const struct prices_calendar *calendar, double hour);

/* The income from these tokens. */
double prices_income(const struct token_prices *prices, double hit_tokens, double miss_tokens,
                     double output_tokens);
