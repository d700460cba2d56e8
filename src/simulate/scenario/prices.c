/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/prices.h"

#include <math.h>

#include "base/check.h"

#define PRICE(member) offsetof(struct prices, member)
#define MODEL(member) offsetof(struct prices_model, member)
#define PERIOD(member) offsetof(struct prices_period, member)

/* The keys of a calendar, in an object of either kind. */
#define LIST_KEYS(AT)                                                                              \
    {.name = "input_hit",                                                                          \
     .kind = SCENARIO_NUMBER,                                                                      \
     .offset = AT(calendar.tokens.input_hit),                                                      \
     .needed = true},                                                                              \
        {.name = "input_miss",                                                                     \
         .kind = SCENARIO_NUMBER,                                                                  \
         .offset = AT(calendar.tokens.input_miss),                                                 \
         .needed = true},                                                                          \
        {.name = "output",                                                                         \
         .kind = SCENARIO_NUMBER,                                                                  \
         .offset = AT(calendar.tokens.output),                                                     \
         .needed = true},                                                                          \
    {                                                                                              \
        .name = "periods", .kind = SCENARIO_OTHER                                                  \
    }

static const struct scenario_key prices_keys[] = {
    {.name = "name", .kind = SCENARIO_TEXT, .offset = offsetof(struct prices, name)},
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "source", .kind = SCENARIO_OTHER},
    {.name = "currency",
     .kind = SCENARIO_TEXT,
     .offset = offsetof(struct prices, currency),
     .needed = true},
    {.name = "node_hour", .kind = SCENARIO_NUMBER, .offset = PRICE(node_hour), .needed = true},
    LIST_KEYS(PRICE),
    {.name = "models", .kind = SCENARIO_OTHER},
};

static const struct scenario_key model_keys[] = {
    {.name = "name", .kind = SCENARIO_TEXT, .offset = MODEL(name), .needed = true},
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "source", .kind = SCENARIO_OTHER},
    LIST_KEYS(MODEL),
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

/* The array with that key, which must not have more elements, or NULL. */
static enum status find_array(const struct scenario_place *list, const struct tree *tree,
                              const char *key, size_t most, const struct tree **array_out) {
    const struct tree *array = tree ? tree_member(tree, key) : NULL;
    if (array && tree_kind(array) != TREE_ARRAY)
        return scenario_keys_refuse(list, "expected an array, found %s", tree_name(array));
    if (array && tree_count(array) > most)
        return scenario_keys_refuse(list, "at most %u", (unsigned)most);
    *array_out = array;
    return STATUS_OK;
}

static enum status read_periods(const struct scenario_place *place, const struct tree *tree,
                                struct prices_calendar *calendar) {
    const struct tree *periods = NULL;
    struct scenario_place list = scenario_keys_below(place, "periods");
    enum status status = find_array(&list, tree, "periods", PRICES_PERIODS_MAX, &periods);
    for (size_t i = 0; !status && periods && i < tree_count(periods); i++) {
        struct prices_period *period = &calendar->periods[calendar->period_count++];
        struct scenario_place below = scenario_keys_element(&list, i);
        period->tokens = calendar->tokens;
        status = scenario_keys_read(&below, tree_at(periods, i), period_keys,
                                    ARRAY_COUNT(period_keys), period);
    }
    return status;
}

static const struct prices_model *find_model(const struct prices *prices, struct bytes name) {
    for (uint32_t i = 0; i < prices->model_count; i++)
        if (bytes_equal(bytes_of(prices->models[i].name), name)) return &prices->models[i];
    return NULL;
}

static enum status read_model(const struct scenario_place *place, const struct tree *tree,
                              struct prices *prices) {
    struct prices_model *model = &prices->models[prices->model_count];
    enum status status =
        scenario_keys_read(place, tree, model_keys, ARRAY_COUNT(model_keys), model);
    if (!status) status = read_periods(place, tree, &model->calendar);
    if (status) return status;
    struct scenario_place name = scenario_keys_below(place, "name");
    if (!model->name[0]) return scenario_keys_refuse(&name, "expected a name, found an empty one");
    if (find_model(prices, bytes_of(model->name)))
        return scenario_keys_refuse(&name, "'%s' has prices already", model->name);
    prices->model_count++;
    return STATUS_OK;
}

enum status prices_read(const struct scenario_place *place, const struct tree *tree,
                        struct prices *prices_out) {
    struct prices prices = {.name = ""};
    const struct tree *models = NULL;
    struct scenario_place list = scenario_keys_below(place, "models");
    enum status status =
        scenario_keys_read(place, tree, prices_keys, ARRAY_COUNT(prices_keys), &prices);
    if (!status) status = read_periods(place, tree, &prices.calendar);
    if (!status) status = find_array(&list, tree, "models", PRICES_MODELS_MAX, &models);
    for (size_t i = 0; !status && models && i < tree_count(models); i++) {
        struct scenario_place below = scenario_keys_element(&list, i);
        status = read_model(&below, tree_at(models, i), &prices);
    }
    if (!status) *prices_out = prices;
    return status;
}

const struct prices_calendar *prices_of_model(const struct prices *prices, struct bytes model) {
    const struct prices_model *found = find_model(prices, model);
    return found ? &found->calendar : &prices->calendar;
}

struct token_prices prices_at(const struct prices_calendar *calendar, double hour) {
    hour -= 24 * floor(hour / 24);
    for (uint32_t i = 0; i < calendar->period_count; i++) {
        const struct prices_period *period = &calendar->periods[i];
        bool after = hour >= period->from_hour, before = hour < period->to_hour;
        if (period->from_hour <= period->to_hour ? after && before : after || before)
            return period->tokens;
    }
    return calendar->tokens;
}

double prices_income(const struct token_prices *prices, double hit_tokens, double miss_tokens,
                     double output_tokens) {
    return (hit_tokens * prices->input_hit + miss_tokens * prices->input_miss +
            output_tokens * prices->output) *
           1e-6;
}
