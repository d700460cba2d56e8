/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/prices.h"

#include <math.h>

#include "base/check.h"

#define PRICE(member) offsetof(struct prices, member)
#define PERIOD(member) offsetof(struct prices_period, member)

static const struct scenario_key prices_keys[] = {
    {.name = "name", .kind = SCENARIO_TEXT, .offset = offsetof(struct prices, name)},
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "source", .kind = SCENARIO_OTHER},
    {.name = "currency",
     .kind = SCENARIO_TEXT,
     .offset = offsetof(struct prices, currency),
     .needed = true},
    {.name = "node_hour", .kind = SCENARIO_NUMBER, .offset = PRICE(node_hour), .needed = true},
    {.name = "input_hit",
     .kind = SCENARIO_NUMBER,
     .offset = PRICE(tokens.input_hit),
     .needed = true},
    {.name = "input_miss",
     .kind = SCENARIO_NUMBER,
     .offset = PRICE(tokens.input_miss),
     .needed = true},
    {.name = "output", .kind = SCENARIO_NUMBER, .offset = PRICE(tokens.output), .needed = true},
    {.name = "periods", .kind = SCENARIO_OTHER},
};

static const struct scenario_key period_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "from_hour",
     .kind = SCENARIO_NUMBER,
     .offset = PERIOD(from_hour),
     .maximum = 24,
     .needed = true},
    {.name = "to_hour",
     .kind = SCENARIO_NUMBER,
     .offset = PERIOD(to_hour),
     .maximum = 24,
     .needed = true},
    {.name = "input_hit", .kind = SCENARIO_NUMBER, .offset = PERIOD(tokens.input_hit)},
    {.name = "input_miss", .kind = SCENARIO_NUMBER, .offset = PERIOD(tokens.input_miss)},
    {.name = "output", .kind = SCENARIO_NUMBER, .offset = PERIOD(tokens.output)},
};

enum status prices_read(const struct scenario_place *place, const struct tree *tree,
                        struct prices *prices_out) {
    struct prices prices = {.name = ""};
    enum status status =
        scenario_keys_read(place, tree, prices_keys, ARRAY_COUNT(prices_keys), &prices);
    const struct tree *periods = tree ? tree_member(tree, "periods") : NULL;
    struct scenario_place list = scenario_keys_below(place, "periods");
    if (!status && periods && tree_kind(periods) != TREE_ARRAY)
        return scenario_keys_refuse(&list, "expected an array, found %s",
                                    tree_kind_name(tree_kind(periods)));
    if (!status && tree_count(periods) > PRICES_PERIODS_MAX)
        return scenario_keys_refuse(&list, "at most %d", PRICES_PERIODS_MAX);
    for (size_t i = 0; !status && i < tree_count(periods); i++) {
        struct prices_period *period = &prices.periods[prices.period_count++];
        struct scenario_place below = scenario_keys_element(&list, i);
        period->tokens = prices.tokens;
        status = scenario_keys_read(&below, tree_at(periods, i), period_keys,
                                    ARRAY_COUNT(period_keys), period);
    }
    if (!status) *prices_out = prices;
    return status;
}

struct token_prices prices_at(const struct prices *prices, double hour) {
    hour -= 24 * floor(hour / 24);
    for (uint32_t i = 0; i < prices->period_count; i++) {
        const struct prices_period *period = &prices->periods[i];
        bool after = hour >= period->from_hour, before = hour < period->to_hour;
        if (period->from_hour <= period->to_hour ? after && before : after || before)
            return period->tokens;
    }
    return prices->tokens;
}

double prices_income(const struct token_prices *prices, double hit_tokens, double miss_tokens,
                     double output_tokens) {
    return (hit_tokens * prices->input_hit + miss_tokens * prices->input_miss +
            output_tokens * prices->output) *
           1e-6;
}
