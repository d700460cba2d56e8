/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/prices.h"

#include <math.h>

#include "base/check.h"

#define PRICE(member) offsetof(struct prices, member)
#define MODEL(member) offsetof(struct prices_model, member)
#define PERIOD(member) offsetof(struct prices_period, member)

/* The keys of a calendar, for an object of either kind. */
#define LIST_KEYS(AT)                                                                              \
    {"input_hit", KEY_NUMBER, AT(calendar.tokens.input_hit), .needed = true},                      \
        {"input_miss", KEY_NUMBER, AT(calendar.tokens.input_miss), .needed = true},                \
        {"output", KEY_NUMBER, AT(calendar.tokens.output), .needed = true}, {                      \
        "periods", .kind = KEY_OTHER                                                               \
    }

static const struct tree_key prices_keys[] = {
    {"name", KEY_TEXT, .offset = offsetof(struct prices, name)},
    {"currency", KEY_TEXT, offsetof(struct prices, currency), .needed = true},
    {"node_hour", KEY_NUMBER, PRICE(node_hour), .needed = true},
    LIST_KEYS(PRICE),
    {"models", .kind = KEY_OTHER},
};

static const struct tree_key model_keys[] = {
    {"name", KEY_TEXT, MODEL(name), .needed = true},
    LIST_KEYS(MODEL),
};

static const struct tree_key period_keys[] = {
    {"from_hour", KEY_NUMBER, PERIOD(from_hour), .maximum = 24, .needed = true},
    {"to_hour", KEY_NUMBER, PERIOD(to_hour), .maximum = 24, .needed = true},
    {"input_hit", KEY_NUMBER, .offset = PERIOD(tokens.input_hit)},
    {"input_miss", KEY_NUMBER, .offset = PERIOD(tokens.input_miss)},
    {"output", KEY_NUMBER, .offset = PERIOD(tokens.output)},
};

/* Finds the array with that key. It must not have more elements than the limit. NULL if there is
 * none. */
static enum status find_array(const struct tree_place *list, const struct tree *tree,
                              const char *key, size_t most, const struct tree **array_out) {
    const struct tree *array = tree ? tree_member(tree, key) : NULL;
    if (array && tree_kind(array) != TREE_ARRAY)
        return tree_keys_refuse(list, "expected an array, found %s", tree_name(array));
    if (array && tree_count(array) > most)
        return tree_keys_refuse(list, "at most %u", (unsigned)most);
    *array_out = array;
    return STATUS_OK;
}

static enum status read_periods(const struct tree_place *place, const struct tree *tree,
                                struct prices_calendar *calendar) {
    const struct tree *periods = NULL;
    struct tree_place list = tree_keys_below(place, "periods");
    enum status status = find_array(&list, tree, "periods", PRICES_PERIODS_MAX, &periods);
    for (size_t i = 0; !status && periods && i < tree_count(periods); i++) {
        struct prices_period *period = &calendar->periods[calendar->period_count++];
        struct tree_place below = tree_keys_element(&list, i);
        period->tokens = calendar->tokens;
        status = tree_keys_read(&below, tree_at(periods, i), period_keys, ARRAY_COUNT(period_keys),
                                period);
    }
    return status;
}

static const struct prices_model *find_model(const struct prices *prices, struct bytes name) {
    for (uint32_t i = 0; i < prices->model_count; i++)
        if (bytes_equal(bytes_of(prices->models[i].name), name)) return &prices->models[i];
    return NULL;
}

static enum status read_model(const struct tree_place *place, const struct tree *tree,
                              struct prices *prices) {
    struct prices_model *model = &prices->models[prices->model_count];
    enum status status = tree_keys_read(place, tree, model_keys, ARRAY_COUNT(model_keys), model);
    if (!status) status = read_periods(place, tree, &model->calendar);
    if (status) return status;
    struct tree_place name = tree_keys_below(place, "name");
    if (!model->name[0]) return tree_keys_refuse(&name, "expected a name, found an empty one");
    if (find_model(prices, bytes_of(model->name)))
        return tree_keys_refuse(&name, "'%s' has prices already", model->name);
    prices->model_count++;
    return STATUS_OK;
}

enum status prices_read(const struct tree_place *place, const struct tree *tree,
                        struct prices *prices_out) {
    struct prices prices = {.name = ""};
    const struct tree *models = NULL;
    struct tree_place list = tree_keys_below(place, "models");
    enum status status =
        tree_keys_read(place, tree, prices_keys, ARRAY_COUNT(prices_keys), &prices);
    if (!status) status = read_periods(place, tree, &prices.calendar);
    if (!status) status = find_array(&list, tree, "models", PRICES_MODELS_MAX, &models);
    for (size_t i = 0; !status && models && i < tree_count(models); i++) {
        struct tree_place below = tree_keys_element(&list, i);
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
