/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario_day.h"

#include "base/check.h"

#define DAY(member) offsetof(struct day_options, member)

static const struct tree_key day_keys[] = {
    {"input_tokens", KEY_NUMBER, DAY(input_tokens), .needed = true},
    {"output_tokens", KEY_NUMBER, DAY(output_tokens), .needed = true},
    {"hours", KEY_OTHER, .needed = true},
    {"nodes", KEY_OTHER, .needed = true},
    {"waiting_s", KEY_NUMBER, DAY(waiting_s), .maximum = 600},
    {"moments", KEY_OTHER, .needed = true},
    {"prompt_cv", KEY_NUMBER, DAY(moments.prompt_cv), .minimum = 0.01, .maximum = 10},
    {"answer_cv", KEY_NUMBER, DAY(moments.answer_cv), .minimum = 0.01, .maximum = 10},
    {"first_share", KEY_NUMBER, DAY(moments.first_share), .maximum = 1},
    {"prompt_max", KEY_COUNT, DAY(moments.prompt_max), .minimum = KV_BLOCK_TOKENS,
     .maximum = LIMIT_CONTEXT},
    {"answer_max", KEY_COUNT, DAY(moments.answer_max), .minimum = 1, .maximum = LIMIT_CONTEXT},
};

static const struct tree_key moments_keys[] = {
    {"prompt_answer_ratio", KEY_NUMBER, offsetof(struct day_moments, in_out), .minimum = 1e-3,
     .maximum = 1e6, .needed = true},
    {"hit_share", KEY_NUMBER, offsetof(struct day_moments, hit_share), .maximum = 0.999,
     .needed = true},
    {"kv_tokens", KEY_NUMBER, offsetof(struct day_moments, kv_mean), .minimum = 1, .maximum = 1e6,
     .needed = true},
};

#define STEP(member) offsetof(struct day_step, member)

static const struct tree_key step_keys[] = {
    {"hour", KEY_NUMBER, STEP(hour), .maximum = 23.99, .needed = true},
    {"decode_units", KEY_COUNT, STEP(decode_units), .minimum = 1, .maximum = 4096, .needed = true},
    {"prefill_units", KEY_COUNT, STEP(prefill_units), .minimum = 1, .maximum = 4096,
     .needed = true},
};

static enum status read_hours(const struct tree_place *day, const struct tree *tree,
                              struct day_options *out) {
    struct tree_place place = tree_keys_below(day, "hours");
    double sum = 0;
    if (tree_count(tree) != DAY_HOURS)
        return tree_keys_refuse(&place, "expected a list of %d numbers, the load of each hour",
                                DAY_HOURS);
    for (size_t i = 0; i < DAY_HOURS; i++) {
        struct tree_place below = tree_keys_element(&place, i);
        if (!tree_get_number(tree_keys_plain(tree_at(tree, i)), &out->load[i]) ||
            !(out->load[i] >= 0 && out->load[i] < 1e15))
            return tree_keys_refuse(&below, "expected a number from 0 on");
        sum += out->load[i];
    }
    if (sum <= 0) return tree_keys_refuse(&place, "expected an hour with a load");
    return STATUS_OK;
}

static enum status read_nodes(const struct tree_place *day, const struct tree *tree,
                              struct day_options *out) {
    struct tree_place place = tree_keys_below(day, "nodes");
    size_t count = tree_count(tree);
    if (count < 1 || count > DAY_STEPS_MAX)
        return tree_keys_refuse(&place, "expected a list of 1 to %d changes", DAY_STEPS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct tree_place below = tree_keys_element(&place, i);
        struct day_step *step = &out->steps[i];
        enum status status =
            tree_keys_read(&below, tree_at(tree, i), step_keys, ARRAY_COUNT(step_keys), step);
        if (status) return status;
        if (i == 0 ? step->hour != 0 : step->hour <= step[-1].hour)
            return tree_keys_refuse(&below, "the first change is at hour 0, and each one after "
                                            "that is later than the one before");
    }
    out->step_count = (uint32_t)count;
    return STATUS_OK;
}

enum status scenario_day_read(const struct tree_place *place, const struct tree *tree,
                              struct day_options *day_out) {
    struct tree_place day = tree_keys_below(place, "day");
    struct tree_place below = tree_keys_below(&day, "moments");
    struct day_lengths lengths;
    *day_out = (struct day_options){.moments = {.prompt_cv = 1,
                                                .answer_cv = 1,
                                                .first_share = 0,
                                                .prompt_max = 65536,
                                                .answer_max = 16384}};
    enum status status = tree_keys_read(&day, tree, day_keys, ARRAY_COUNT(day_keys), day_out);
    if (!status)
        status = tree_keys_read(&below, tree_member(tree, "moments"), moments_keys,
                                ARRAY_COUNT(moments_keys), &day_out->moments);
    if (!status) status = read_hours(&day, tree_keys_plain(tree_member(tree, "hours")), day_out);
    if (!status) status = read_nodes(&day, tree_keys_plain(tree_member(tree, "nodes")), day_out);
    if (!status && !day_load_solve(&day_out->moments, &lengths))
        status = tree_keys_refuse(&below, "no lengths have these means: change kv_tokens, the "
                                          "cvs, prompt_max or first_share");
    return status;
}
