/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario_faults.h"

#include "base/check.h"
#include "simulate/simulator/draw_faults.h"

#define NAMES                                                                                      \
    "unit-dies|node-dies|rack-dies|units-cut|gateway-cut|rank-slow|disks-slow|disks-fail|"         \
    "experts-hot|crowd" /* as simulator_faults_name */

#define FAULT(member) offsetof(struct simulator_fault, member)
#define RANDOM(member) offsetof(struct random_fault, member)

static const struct tree_key list_keys[] = {
    {"kind", KEY_CHOICE, FAULT(kind), .choices = NAMES, .needed = true},
    {"at_s", KEY_TIME, FAULT(at_ns), .needed = true},
    {"lasts_s", KEY_TIME, .offset = FAULT(lasts_ns)},
    {"unit", KEY_COUNT, .offset = FAULT(unit)},
    {"other", KEY_COUNT, .offset = FAULT(other)},
    {"factor", KEY_NUMBER, FAULT(factor), .maximum = 1e6},
};

struct random_fault {
    uint32_t kind;
    struct fault_rate rate;
    int64_t from_ns, until_ns;
};

static const struct tree_key random_keys[] = {
    {"kind", KEY_CHOICE, RANDOM(kind), .choices = NAMES, .needed = true},
    {"per_hour", KEY_NUMBER, RANDOM(rate.per_hour), .maximum = 3600, .needed = true},
    {"lasts_s", KEY_NUMBER, RANDOM(rate.lasts_s), .maximum = 1e6, .needed = true},
    {"factor", KEY_NUMBER, RANDOM(rate.factor), .maximum = 1e6},
    {"from_s", KEY_TIME, .offset = RANDOM(from_ns)},
    {"until_s", KEY_TIME, .offset = RANDOM(until_ns)},
};

#define LIMIT(member) offsetof(struct fault_limits, member)

static const struct tree_key faults_keys[] = {
    {"ttft_limit_s", KEY_TIME, .offset = LIMIT(ttft_ns)},
    {"tpot_limit_s", KEY_TIME, .offset = LIMIT(tpot_ns)},
    {"list", .kind = KEY_OTHER},
    {"random", .kind = KEY_OTHER},
};

struct fault_list {
    struct simulator_fault *faults; /* [SCENARIO_FAULTS_MAX] */
    uint32_t count;
};

static enum status scenario_faults_read_listed(const struct tree_place *place,
                                               const struct tree *list,
                                               const struct simulator_options *options,
                                               struct fault_list *out) {
    enum status status = STATUS_OK;
    if (!list) return STATUS_OK;
    if (tree_kind(list) != TREE_ARRAY || tree_count(list) > SCENARIO_FAULTS_MAX)
        return tree_keys_refuse(place, "expected a list of at most %d faults", SCENARIO_FAULTS_MAX);
    for (size_t i = 0; !status && i < tree_count(list); i++) {
        struct tree_place below = tree_keys_element(place, i);
        struct simulator_fault *fault = &out->faults[out->count];
        *fault = (struct simulator_fault){.factor = 1};
        status = tree_keys_read(&below, tree_at(list, i), list_keys, ARRAY_COUNT(list_keys), fault);
        if (!status && !tree_member(tree_at(list, i), "unit"))
            draw_faults_place(options, options->seed, out->count, fault);
        out->count++;
    }
    return status;
}

static enum status read_one_random(const struct tree_place *place, const struct tree *tree,
                                   const struct simulator_options *options,
                                   struct fault_list *out) {
    struct random_fault random = {.rate.factor = 1, .from_ns = options->warm_ns};
    if (options->measure_ns) random.until_ns = options->warm_ns + options->measure_ns;
    enum status status =
        tree_keys_read(place, tree, random_keys, ARRAY_COUNT(random_keys), &random);
    if (!status && random.until_ns <= random.from_ns)
        return tree_keys_refuse(place, "expected until_s, later than from_s");
    struct fault_rates rates = {0};
    rates.kinds[random.kind] = random.rate;
    if (!status)
        out->count += draw_faults(options, &rates, random.from_ns, random.until_ns, options->seed,
                                  out->faults + out->count, SCENARIO_FAULTS_MAX - out->count);
    return status;
}

static enum status read_random(const struct tree_place *place, const struct tree *list,
                               const struct simulator_options *options, struct fault_list *out) {
    enum status status = STATUS_OK;
    if (!list) return STATUS_OK;
    if (tree_kind(list) != TREE_ARRAY)
        return tree_keys_refuse(place, "expected a list of kinds of faults with their rates");
    for (size_t i = 0; !status && i < tree_count(list); i++) {
        struct tree_place below = tree_keys_element(place, i);
        status = read_one_random(&below, tree_at(list, i), options, out);
    }
    return status;
}

enum status scenario_faults_read(struct arena *arena, const struct tree_place *root,
                                 const struct tree *tree, struct simulator_options *options,
                                 struct fault_limits *limits) {
    struct tree_place place = tree_keys_below(root, "faults");
    struct tree_place list = tree_keys_below(&place, "list");
    struct tree_place random = tree_keys_below(&place, "random");
    struct fault_list all = {0};
    enum status status;
    *limits = (struct fault_limits){.ttft_ns = 2000000000, .tpot_ns = 50000000};
    if (!tree) return STATUS_OK;
    all.faults = arena_take_zeroed(arena, SCENARIO_FAULTS_MAX * sizeof *all.faults);
    if (!all.faults) return error_set(root->error, STATUS_NO_MEMORY, "no memory for the faults");
    if (tree_kind(tree) == TREE_ARRAY) {
        status = scenario_faults_read_listed(&place, tree, options, &all);
    } else {
        status = tree_keys_read(&place, tree, faults_keys, ARRAY_COUNT(faults_keys), limits);
        if (!status)
            status = scenario_faults_read_listed(&list, tree_member(tree, "list"), options, &all);
        if (!status) status = read_random(&random, tree_member(tree, "random"), options, &all);
    }
    if (status) return status;
    draw_faults_sort(all.faults, all.count);
    options->faults = all.faults;
    options->fault_count = all.count;
    const struct simulator_fault *wrong = simulator_faults_wrong(options);
    if (wrong)
        return tree_keys_refuse(&place, "%s at %.3f s names what the fleet does not have",
                                simulator_faults_name((enum simulator_fault_kind)wrong->kind),
                                (double)wrong->at_ns * 1e-9);
    return STATUS_OK;
}
