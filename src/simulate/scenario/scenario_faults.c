/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario_faults.h"

#include "base/check.h"
#include "simulate/simulator/draw_faults.h"

#define NAMES                                                                                      \
    "unit-dies|node-dies|rack-dies|units-cut|gateway-cut|rank-slow|disks-slow|disks-fail|"         \
    "experts-hot|crowd" /* as simulator_faults_name */

#define FAULT(member) offsetof(struct simulator_fault, member)
#define RANDOM(member) offsetof(struct random_fault, member)

static const struct scenario_key list_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "kind",
     .kind = SCENARIO_CHOICE,
     .offset = FAULT(kind),
     .choices = NAMES,
     .needed = true},
    {.name = "at_s", .kind = SCENARIO_TIME, .offset = FAULT(at_ns), .needed = true},
    {.name = "lasts_s", .kind = SCENARIO_TIME, .offset = FAULT(lasts_ns)},
    {.name = "unit", .kind = SCENARIO_COUNT, .offset = FAULT(unit)},
    {.name = "other", .kind = SCENARIO_COUNT, .offset = FAULT(other)},
    {.name = "factor", .kind = SCENARIO_NUMBER, .offset = FAULT(factor), .maximum = 1e6},
};

struct random_fault {
    uint32_t kind;
    struct fault_rate rate;
    int64_t from_ns, until_ns;
};

static const struct scenario_key random_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "kind",
     .kind = SCENARIO_CHOICE,
     .offset = RANDOM(kind),
     .choices = NAMES,
     .needed = true},
    {.name = "per_hour",
     .kind = SCENARIO_NUMBER,
     .offset = RANDOM(rate.per_hour),
     .maximum = 3600,
     .needed = true},
    {.name = "lasts_s",
     .kind = SCENARIO_NUMBER,
     .offset = RANDOM(rate.lasts_s),
     .maximum = 1e6,
     .needed = true},
    {.name = "factor", .kind = SCENARIO_NUMBER, .offset = RANDOM(rate.factor), .maximum = 1e6},
    {.name = "from_s", .kind = SCENARIO_TIME, .offset = RANDOM(from_ns)},
    {.name = "until_s", .kind = SCENARIO_TIME, .offset = RANDOM(until_ns)},
};

#define LIMIT(member) offsetof(struct fault_limits, member)

static const struct scenario_key faults_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "ttft_limit_s", .kind = SCENARIO_TIME, .offset = LIMIT(ttft_ns)},
    {.name = "tpot_limit_s", .kind = SCENARIO_TIME, .offset = LIMIT(tpot_ns)},
    {.name = "list", .kind = SCENARIO_OTHER},
    {.name = "random", .kind = SCENARIO_OTHER},
};

struct fault_list {
    struct simulator_fault *faults; /* [SCENARIO_FAULTS_MAX] */
    uint32_t count;
};

static enum status scenario_faults_read_listed(const struct scenario_place *place,
                                               const struct tree *list,
                                               const struct simulator_options *options,
                                               struct fault_list *out) {
    enum status status = STATUS_OK;
    if (!list) return STATUS_OK;
    if (tree_kind(list) != TREE_ARRAY || tree_count(list) > SCENARIO_FAULTS_MAX)
        return scenario_keys_refuse(place, "expected a list of at most %d faults",
                                    SCENARIO_FAULTS_MAX);
    for (size_t i = 0; !status && i < tree_count(list); i++) {
        struct scenario_place below = scenario_keys_element(place, i);
        struct simulator_fault *fault = &out->faults[out->count];
        *fault = (struct simulator_fault){.factor = 1};
        status =
            scenario_keys_read(&below, tree_at(list, i), list_keys, ARRAY_COUNT(list_keys), fault);
        if (!status && !tree_member(tree_at(list, i), "unit"))
            draw_faults_place(options, options->seed, out->count, fault);
        out->count++;
    }
    return status;
}

static enum status read_one_random(const struct scenario_place *place, const struct tree *tree,
                                   const struct simulator_options *options,
                                   struct fault_list *out) {
    struct random_fault random = {.rate.factor = 1, .from_ns = options->warm_ns};
    if (options->measure_ns) random.until_ns = options->warm_ns + options->measure_ns;
    enum status status =
        scenario_keys_read(place, tree, random_keys, ARRAY_COUNT(random_keys), &random);
    if (!status && random.until_ns <= random.from_ns)
        return scenario_keys_refuse(place, "expected until_s, later than from_s");
    struct fault_rates rates = {0};
    rates.kinds[random.kind] = random.rate;
    if (!status)
        out->count += draw_faults(options, &rates, random.from_ns, random.until_ns, options->seed,
                                  out->faults + out->count, SCENARIO_FAULTS_MAX - out->count);
    return status;
}

static enum status read_random(const struct scenario_place *place, const struct tree *list,
                               const struct simulator_options *options, struct fault_list *out) {
    enum status status = STATUS_OK;
    if (!list) return STATUS_OK;
    if (tree_kind(list) != TREE_ARRAY)
        return scenario_keys_refuse(place, "expected a list of kinds of faults with their rates");
    for (size_t i = 0; !status && i < tree_count(list); i++) {
        struct scenario_place below = scenario_keys_element(place, i);
        status = read_one_random(&below, tree_at(list, i), options, out);
    }
    return status;
}

enum status scenario_faults_read(struct arena *arena, const struct scenario_place *root,
                                 const struct tree *tree, struct simulator_options *options,
                                 struct fault_limits *limits) {
    struct scenario_place place = scenario_keys_below(root, "faults");
    struct scenario_place list = scenario_keys_below(&place, "list");
    struct scenario_place random = scenario_keys_below(&place, "random");
    struct fault_list all = {0};
    enum status status;
    *limits = (struct fault_limits){.ttft_ns = 2000000000, .tpot_ns = 50000000};
    if (!tree) return STATUS_OK;
    all.faults = arena_take_zeroed(arena, SCENARIO_FAULTS_MAX * sizeof *all.faults);
    if (!all.faults) return error_set(root->error, STATUS_NO_MEMORY, "no memory for the faults");
    if (tree_kind(tree) == TREE_ARRAY) {
        status = scenario_faults_read_listed(&place, tree, options, &all);
    } else {
        status = scenario_keys_read(&place, tree, faults_keys, ARRAY_COUNT(faults_keys), limits);
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
        return scenario_keys_refuse(&place, "%s at %.3f s names what the fleet does not have",
                                    simulator_faults_name((enum simulator_fault_kind)wrong->kind),
                                    (double)wrong->at_ns * 1e-9);
    return STATUS_OK;
}
