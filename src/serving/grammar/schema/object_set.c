/* SPDX-License-Identifier: Apache-2.0 */

#include "base/number.h"
#include "serving/grammar/schema/value_set.h"

#define COMPARED_MAX 4096  /* conjunctions created to compare object sets */
#define CHOICE_NAMES_MAX 4 /* listed names of a difference that tries all their subsets */

static bool in_list(const uint32_t *list, uint32_t count, uint32_t value) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (list[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && list[low] == value;
}

bool object_set_keys_have_name(const struct schema_state *state, uint32_t key_set, uint32_t name) {
    const struct key_set *keys = &state->key_sets[key_set];
    bool has = false;
    if (keys->name_count && keys->names[keys->name_count - 1] >= name)
        has = in_list(keys->names, keys->name_count, name);
    for (uint32_t i = 0; i < keys->language_count && !has; i++) {
        const struct automaton *automaton =
            state->languages.languages[keys->languages[i]].automaton;
        uint32_t label;
        has = automaton_accepts(automaton, state->names[name], &label);
    }
    for (uint32_t i = 0; i < keys->key_set_count && !has; i++)
        has = object_set_keys_have_name(state, keys->key_sets[i], name);
    return has != keys->negated;
}

bool object_set_keys_have_other(const struct schema_state *state, uint32_t key_set,
                                const uint32_t *languages, uint32_t language_count,
                                uint64_t inside) {
    const struct key_set *keys = &state->key_sets[key_set];
    bool has = false;
    for (uint32_t i = 0; i < keys->language_count && !has; i++)
        for (uint32_t k = 0; k < language_count && !has; k++)
            has = languages[k] == keys->languages[i] && (inside >> k & 1);
    for (uint32_t i = 0; i < keys->key_set_count && !has; i++)
        has =
            object_set_keys_have_other(state, keys->key_sets[i], languages, language_count, inside);
    return has != keys->negated;
}

enum status object_set_conjunction_of(struct schema_state *state, const struct object_set *object,
                                      uint32_t name, uint32_t *out) {
    uint32_t conjunction = CONJUNCTION_TRUE;
    enum status status = schema_state_spend(state, object->rule_count);
    for (uint32_t i = 0; i < object->rule_count && !status; i++)
        if (object_set_keys_have_name(state, object->rules[i].key_set, name))
            status = schema_state_conjunction_and(state, conjunction, object->rules[i].conjunction,
                                                  &conjunction);
    *out = conjunction;
    return status;
}

/* Combines the rules of both, without duplicates. */
static enum status object_set_join_rules(struct schema_state *state, const struct object_set *a,
                                         const struct object_set *b, struct object_set *out) {
    out->rules = a->rules;
    out->rule_count = a->rule_count;
    if (b->rule_count == 0) return STATUS_OK;
    if (a->rule_count == 0) {
        out->rules = b->rules;
        out->rule_count = b->rule_count;
        return STATUS_OK;
    }
    struct key_rule *rules =
        arena_take(state->arena, (a->rule_count + b->rule_count) * sizeof *rules);
    if (!rules) return state_failed(state, STATUS_NO_MEMORY);
    memcpy(rules, a->rules, a->rule_count * sizeof *rules);
    uint32_t count = a->rule_count;
    for (uint32_t i = 0; i < b->rule_count; i++) {
        uint32_t k = 0;
        while (k < a->rule_count && (rules[k].key_set != b->rules[i].key_set ||
                                     rules[k].conjunction != b->rules[i].conjunction))
            k++;
        if (k < a->rule_count)
            rules[k].evaluates |= b->rules[i].evaluates;
        else
            rules[count++] = b->rules[i];
    }
    out->rules = rules;
    out->rule_count = count;
    return schema_state_spend(state, 1 + (uint64_t)a->rule_count * b->rule_count / 16);
}

static enum status join_required(struct schema_state *state, const struct object_set *a,
                                 const struct object_set *b, struct object_set *out) {
    out->required = a->required_count ? a->required : b->required;
    out->required_count = a->required_count ? a->required_count : b->required_count;
    if (a->required_count == 0 || b->required_count == 0) return STATUS_OK;
    uint32_t *names =
        arena_take(state->arena, (a->required_count + b->required_count) * sizeof *names);
    if (!names) return state_failed(state, STATUS_NO_MEMORY);
    uint32_t i = 0, k = 0, count = 0;
    while (i < a->required_count || k < b->required_count) {
        bool second =
            i == a->required_count || (k < b->required_count && b->required[k] < a->required[i]);
        uint32_t name = second ? b->required[k++] : a->required[i++];
        if (count == 0 || names[count - 1] != name) names[count++] = name;
    }
    out->required = names;
    out->required_count = count;
    return STATUS_OK;
}

static enum status join_needs(struct schema_state *state, const struct object_set *a,
                              const struct object_set *b, struct object_set *out) {
    out->dependencies = a->dependency_count ? a->dependencies : b->dependencies;
    out->dependency_count = a->dependency_count ? a->dependency_count : b->dependency_count;
    if (a->dependency_count == 0 || b->dependency_count == 0) return STATUS_OK;
    struct key_dependency *dependencies = arena_take(
        state->arena, (a->dependency_count + b->dependency_count) * sizeof *dependencies);
    if (!dependencies) return state_failed(state, STATUS_NO_MEMORY);
    memcpy(dependencies, a->dependencies, a->dependency_count * sizeof *dependencies);
    uint32_t count = a->dependency_count;
    for (uint32_t i = 0; i < b->dependency_count; i++) {
        uint32_t k = 0;
        while (k < count && (dependencies[k].name != b->dependencies[i].name ||
                             dependencies[k].other != b->dependencies[i].other))
            k++;
        if (k == count) dependencies[count++] = b->dependencies[i];
    }
    out->dependencies = dependencies;
    out->dependency_count = count;
    return STATUS_OK;
}

/* Sets *out if some property that `a` requires cannot exist in the intersection, as far as can be
 * determined. Only conjunctions with parts of both are new and need to be checked. */
static enum status lacks_required(struct schema_state *state, const struct object_set *a,
                                  const struct object_set *b, bool *out) {
    for (uint32_t i = 0; i < a->required_count && !*out; i++) {
        uint32_t conjunction, first, second;
        enum status status = object_set_conjunction_of(state, a, a->required[i], &first);
        if (!status) status = object_set_conjunction_of(state, b, a->required[i], &second);
        if (!status) status = schema_state_conjunction_and(state, first, second, &conjunction);
        if (status) return status;
        *out = conjunction == CONJUNCTION_FALSE;
        if (*out || first == CONJUNCTION_TRUE || second == CONJUNCTION_TRUE || first == second)
            continue;
        status = schema_state_conjunction_is_empty(state, conjunction, out);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status object_set_and(struct schema_state *state, const void *first, const void *second,
                           const void **out) {
    const struct object_set *a = first, *b = second;
    *out = a;
    if (b == &state->object_any || a == b) return STATUS_OK;
    *out = b;
    if (a == &state->object_any) return STATUS_OK;
    *out = NULL;
    bool lacks = false;
    enum status status = lacks_required(state, a, b, &lacks);
    if (!status && !lacks) status = lacks_required(state, b, a, &lacks);
    if (status || lacks) return status;
    struct object_set *both = arena_take(state->arena, sizeof *both);
    if (!both) return state_failed(state, STATUS_NO_MEMORY);
    both->count_min = max_u32(a->count_min, b->count_min);
    both->count_max = min_u32(a->count_max, b->count_max);
    if (both->count_min > both->count_max) return STATUS_OK;
    status = object_set_join_rules(state, a, b, both);
    if (!status) status = join_required(state, a, b, both);
    if (!status) status = join_needs(state, a, b, both);
    if (status) return status;
    if (!status && both->required_count <= both->count_max) *out = both;
    return status;
}

static bool same_object(const struct object_set *a, const struct object_set *b) {
    return a == b ||
           (a->rule_count == b->rule_count && a->required_count == b->required_count &&
            a->dependency_count == b->dependency_count && a->count_min == b->count_min &&
            a->count_max == b->count_max &&
            (a->required_count == 0 ||
             memcmp(a->required, b->required, a->required_count * sizeof *a->required) == 0) &&
            (a->dependency_count == 0 ||
             memcmp(a->dependencies, b->dependencies,
                    a->dependency_count * sizeof *a->dependencies) == 0));
}

static bool same_rules(const struct object_set *a, const struct object_set *b) {
    for (uint32_t i = 0; i < a->rule_count; i++)
        if (a->rules[i].key_set != b->rules[i].key_set ||
            a->rules[i].conjunction != b->rules[i].conjunction ||
            a->rules[i].evaluates != b->rules[i].evaluates)
            return false;
    return true;
}

/* ---- subsets ---- */

/* Sets *out if all values that satisfy `a` satisfy `b`, as far as can be determined. Compares only
 * sets without arrays and objects, because that is quick. */
static enum status conjunction_within(struct schema_state *state, uint32_t a, uint32_t b,
                                      bool *out) {
    bool never;
    uint32_t before = state->conjunction_count;
    *out = a == b || a == CONJUNCTION_FALSE || b == CONJUNCTION_TRUE;
    if (*out || b == CONJUNCTION_FALSE || state->compared_count >= COMPARED_MAX) return STATUS_OK;
    enum status status = schema_state_conjunction_is_empty(state, a, &never);
    if (status || state->conjunctions[a].reading != READING_DONE) return status;
    if (state->conjunctions[a].set->arrays.count || state->conjunctions[a].set->objects.count)
        return STATUS_OK;
    const struct conjunction wanted = state->conjunctions[b];
    *out = true;
    for (uint32_t i = 0; i < wanted.count && *out; i++) {
        uint32_t breach;
        status = schema_state_conjunction_not(state, wanted.literals[i], &breach);
        if (!status) status = schema_state_conjunction_and(state, a, breach, &breach);
        if (!status) status = schema_state_conjunction_is_empty(state, breach, out);
        if (status) return status;
    }
    state->compared_count += state->conjunction_count - before;
    return STATUS_OK;
}

/* Sets *out if every object of `a` satisfies the rule, as far as can be determined. */
static enum status satisfies_rule(struct schema_state *state, const struct object_set *a,
                                  const struct key_rule *rule, bool *out) {
    const struct key_set *keys = &state->key_sets[rule->key_set];
    uint32_t conjunction;
    *out = rule->conjunction == CONJUNCTION_TRUE;
    enum status status = schema_state_spend(state, 1 + a->rule_count);
    for (uint32_t i = 0; i < a->rule_count && !*out; i++)
        *out = a->rules[i].key_set == rule->key_set && a->rules[i].conjunction == rule->conjunction;
    bool one = keys->name_count == 1 && !keys->language_count && !keys->key_set_count;
    if (status || *out || !one || keys->negated) return status;
    status = object_set_conjunction_of(state, a, keys->names[0], &conjunction);
    return status ? status : conjunction_within(state, conjunction, rule->conjunction, out);
}

/* Sets *out if every object of `a` is one of `b`, as far as can be determined. */
static enum status object_within(struct schema_state *state, const struct object_set *a,
                                 const struct object_set *b, bool *out) {
    *out = false;
    enum status status = schema_state_spend(state, 1 + b->required_count);
    if (status || a->count_min < b->count_min || a->count_max > b->count_max) return status;
    for (uint32_t i = 0; i < b->required_count; i++)
        if (!in_list(a->required, a->required_count, b->required[i])) return STATUS_OK;
    for (uint32_t i = 0; i < b->dependency_count; i++) {
        uint32_t k = 0;
        while (k < a->dependency_count && (a->dependencies[k].name != b->dependencies[i].name ||
                                           a->dependencies[k].other != b->dependencies[i].other))
            k++;
        if (k == a->dependency_count &&
            !in_list(a->required, a->required_count, b->dependencies[i].other))
            return STATUS_OK;
    }
    *out = true;
    for (uint32_t i = 0; i < b->rule_count && *out && !status; i++)
        status = satisfies_rule(state, a, &b->rules[i], out);
    return status;
}

enum status object_set_thin(struct schema_state *state, struct set_list *all) {
    uint32_t kept = 0;
    if (state->unevaluated) return STATUS_OK;
    for (uint32_t i = 0; i < all->count; i++) {
        bool within = false;
        for (uint32_t k = 0; k < all->count && !within; k++) {
            if (k == i || !all->sets[k]) continue;
            enum status status = object_within(state, all->sets[i], all->sets[k], &within);
            if (status) return status;
        }
        if (within) all->sets[i] = NULL;
    }
    for (uint32_t i = 0; i < all->count; i++)
        if (all->sets[i]) all->sets[kept++] = all->sets[i];
    all->count = kept;
    return STATUS_OK;
}

enum status object_set_add(struct schema_state *state, struct set_list *all, const void *object) {
    for (uint32_t i = 0; i < all->count; i++)
        if (same_object(all->sets[i], object) && same_rules(all->sets[i], object)) return STATUS_OK;
    enum status status = all->count == VALUE_UNION_MAX ? object_set_thin(state, all) : STATUS_OK;
    if (status) return status;
    if (all->count == VALUE_UNION_MAX)
        return state_error(state, STATUS_TOO_LARGE,
                           "leaves more than %d kinds of objects to choose from", VALUE_UNION_MAX);
    status = schema_state_room(state, &all->sets, all->count, &all->capacity, sizeof *all->sets);
    if (status) return status;
    all->sets[all->count++] = object;
    return schema_state_spend(state, all->count);
}

/* Adds the intersection of `a` and `b`. */
static enum status object_set_add_both(struct schema_state *state, const struct object_set *a,
                                       const struct object_set *b, struct set_list *all) {
    const void *both;
    enum status status = object_set_and(state, a, b, &both);
    return status || !both ? status : object_set_add(state, all, both);
}

/* The objects with a property `name` that satisfies the conjunction. If it is not `present`,
 * objects without it are included. */
static enum status object_of_property(struct schema_state *state, uint32_t name,
                                      uint32_t conjunction, bool present,
                                      const struct object_set **out) {
    struct object_set object = state->object_any;
    struct key_rule rule = {.conjunction = conjunction};
    enum status status = schema_state_key_set_of_name(state, name, &rule.key_set);
    object.required_count = present;
    object.rule_count = conjunction != CONJUNCTION_TRUE;
    if (!status) status = schema_state_keep(state, &name, sizeof name, &object.required);
    if (!status) status = schema_state_keep(state, &rule, sizeof rule, &object.rules);
    return status ? status : schema_state_keep(state, &object, sizeof object, out);
}

/* The objects with min to max keys. */
static enum status object_of_counts(struct schema_state *state, uint32_t min, uint32_t max,
                                    const struct object_set **out) {
    struct object_set object = state->object_any;
    object.count_min = min;
    object.count_max = max;
    return schema_state_keep(state, &object, sizeof object, out);
}

static enum status object_set_add_property(struct schema_state *state, const struct object_set *a,
                                           uint32_t name, uint32_t conjunction, bool present,
                                           struct set_list *all) {
    const struct object_set *part = NULL;
    enum status status = object_of_property(state, name, conjunction, present, &part);
    return status ? status : object_set_add_both(state, a, part, all);
}

/* Adds the objects of `a` with a property `name` that violates the conjunction. */
static enum status add_breach(struct schema_state *state, const struct object_set *a, uint32_t name,
                              uint32_t conjunction, struct set_list *all) {
    if (conjunction == CONJUNCTION_FALSE)
        return object_set_add_property(state, a, name, CONJUNCTION_TRUE, true, all);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < state->conjunctions[conjunction].count && !status; i++) {
        uint32_t contrary;
        status = schema_state_conjunction_not(state, state->conjunctions[conjunction].literals[i],
                                              &contrary);
        if (!status) status = object_set_add_property(state, a, name, contrary, true, all);
    }
    return status;
}

/* The key set of a rule that allows listed names only, or NULL if there is no such rule. */
static const struct key_set *closed_to(const struct schema_state *state,
                                       const struct object_set *object) {
    for (uint32_t i = 0; i < object->rule_count; i++) {
        const struct key_set *keys = &state->key_sets[object->rules[i].key_set];
        if (object->rules[i].conjunction == CONJUNCTION_FALSE && keys->negated &&
            !keys->language_count && !keys->key_set_count)
            return keys;
    }
    return NULL;
}

/* Adds the objects of `a` with a key that is not listed: for each subset of listed names that
 * exist, the objects with more keys than that. */
static enum status add_other_key(struct schema_state *state, const struct object_set *a,
                                 const struct key_set *keys, struct set_list *all) {
    enum status status = STATUS_OK;
    for (uint32_t choice = 0; choice < 1u << keys->name_count && !status; choice++) {
        const void *part = a;
        uint32_t present = 0;
        for (uint32_t i = 0; i < keys->name_count && part && !status; i++) {
            bool there = choice >> i & 1;
            const struct object_set *one = NULL;
            present += there;
            status = object_of_property(state, keys->names[i],
                                        there ? CONJUNCTION_TRUE : CONJUNCTION_FALSE, there, &one);
            if (!status) status = object_set_and(state, part, one, &part);
        }
        if (status || !part) continue;
        const struct object_set *more = NULL;
        status = object_of_counts(state, present + 1, UINT32_MAX, &more);
        if (!status) status = object_set_add_both(state, part, more, all);
    }
    return status;
}

/* The keyword that a rule came from. */
static const char *keyword_of(const struct key_rule *rule, const struct key_set *keys) {
    if (keys->key_set_count) return "unevaluatedProperties";
    if (!keys->negated) return "patternProperties";
    return rule->evaluates ? "additionalProperties" : "propertyNames";
}

/* Adds the objects of `a` that violate a rule: some key in its key set violates its conjunction. */
static enum status object_set_add_rule_breach(struct schema_state *state,
                                              const struct object_set *a,
                                              const struct key_rule *rule, struct set_list *all) {
    if (rule->conjunction == CONJUNCTION_TRUE) return STATUS_OK;
    for (uint32_t i = 0; i < a->rule_count; i++)
        if (a->rules[i].key_set == rule->key_set && a->rules[i].conjunction == rule->conjunction)
            return STATUS_OK; /* `a` satisfies the rule */
    const struct key_set keys = state->key_sets[rule->key_set];
    bool named = !keys.negated && !keys.language_count && !keys.key_set_count;
    const struct key_set *closed = closed_to(state, a);
    enum status status = STATUS_OK;
    if (named || closed) {
        const struct key_set names = named ? keys : *closed;
        for (uint32_t i = 0; i < names.name_count && !status; i++)
            if (named || object_set_keys_have_name(state, rule->key_set, names.names[i]))
                status = add_breach(state, a, names.names[i], rule->conjunction, all);
        return status;
    }
    if (keys.negated && !keys.language_count && !keys.key_set_count &&
        rule->conjunction == CONJUNCTION_FALSE && keys.name_count <= CHOICE_NAMES_MAX)
        return add_other_key(state, a, &keys, all);
    return state_error(state, STATUS_UNSUPPORTED,
                       "cannot hold that some property of any name breaks %s",
                       keyword_of(rule, &keys));
}

enum status object_set_without(struct schema_state *state, const void *first, const void *second,
                               struct set_list *all) {
    const struct object_set *a = first, *b = second;
    enum status status = STATUS_OK;
    const struct object_set *part = NULL;
    if (b->count_min > 0 && a->count_min < b->count_min) {
        status = object_of_counts(state, 0, b->count_min - 1, &part);
        if (!status) status = object_set_add_both(state, a, part, all);
    }
    if (!status && b->count_max < a->count_max) {
        status = object_of_counts(state, b->count_max + 1, UINT32_MAX, &part);
        if (!status) status = object_set_add_both(state, a, part, all);
    }
    for (uint32_t i = 0; i < b->required_count && !status; i++)
        if (!in_list(a->required, a->required_count, b->required[i]))
            status =
                object_set_add_property(state, a, b->required[i], CONJUNCTION_FALSE, false, all);
    for (uint32_t i = 0; i < b->rule_count && !status; i++)
        status = object_set_add_rule_breach(state, a, &b->rules[i], all);
    for (uint32_t i = 0; i < b->dependency_count && !status; i++) {
        const struct object_set *lacking = NULL;
        const void *both = NULL;
        status =
            object_of_property(state, b->dependencies[i].other, CONJUNCTION_FALSE, false, &lacking);
        if (!status) status = object_set_and(state, a, lacking, &both);
        if (!status && both)
            status = object_set_add_property(state, both, b->dependencies[i].name, CONJUNCTION_TRUE,
                                             true, all);
    }
    return status;
}
