/* SPDX-License-Identifier: Apache-2.0 */

#include "base/number.h"
#include "serving/grammar/schema/value_set.h"

#define BREACH_ITEMS_MAX 16 /* items that a difference tries one by one */

enum status array_set_conjunction_of(struct schema_state *state, const struct array_set *array,
                                     uint32_t index, uint32_t *out) {
    uint32_t conjunction = CONJUNCTION_TRUE;
    enum status status = schema_state_spend(state, array->rule_count);
    for (uint32_t i = 0; i < array->rule_count && !status; i++)
        if (array->rules[i].from <= index && index < array->rules[i].to)
            status = schema_state_conjunction_and(state, conjunction, array->rules[i].conjunction,
                                                  &conjunction);
    *out = conjunction;
    return status;
}

static enum status array_set_join_rules(struct schema_state *state, const struct array_set *a,
                                        const struct array_set *b, struct array_set *out) {
    struct item_rule *rules =
        arena_take(state->arena, (a->rule_count + b->rule_count + 1) * sizeof *rules);
    if (!rules) return state_failed(state, STATUS_NO_MEMORY);
    if (a->rule_count) memcpy(rules, a->rules, a->rule_count * sizeof *rules);
    uint32_t count = a->rule_count;
    for (uint32_t i = 0; i < b->rule_count; i++) {
        const struct item_rule *rule = &b->rules[i];
        uint32_t k = 0;
        while (k < a->rule_count && (rules[k].from != rule->from || rules[k].to != rule->to ||
                                     rules[k].conjunction != rule->conjunction))
            k++;
        if (k < a->rule_count)
            rules[k].evaluates |= rule->evaluates;
        else
            rules[count++] = *rule;
    }
    out->rules = rules;
    out->rule_count = count;
    return schema_state_spend(state, 1 + (uint64_t)a->rule_count * b->rule_count / 16);
}

/* Combines the keyword contains of both. */
static enum status join_counts(struct schema_state *state, const struct array_set *a,
                               const struct array_set *b, struct array_set *out) {
    const struct array_set *counting = a->counts ? a : b;
    out->counts = counting->counts;
    out->counted = counting->counted;
    out->counted_from = counting->counted_from;
    out->counted_min = counting->counted_min;
    out->counted_max = counting->counted_max;
    if (!a->counts || !b->counts) return STATUS_OK;
    if (a->counted != b->counted || a->counted_from != b->counted_from)
        return state_error(state, STATUS_UNSUPPORTED,
                           "cannot hold two contains of one array at once");
    out->counted_min = max_u32(a->counted_min, b->counted_min);
    out->counted_max = min_u32(a->counted_max, b->counted_max);
    return STATUS_OK;
}

enum status array_set_and(struct schema_state *state, const void *first_set, const void *second_set,
                          const void **out) {
    const struct array_set *a = first_set, *b = second_set;
    *out = a;
    if (b == &state->array_any || a == b) return STATUS_OK;
    *out = b;
    if (a == &state->array_any) return STATUS_OK;
    *out = NULL;
    struct array_set *both = arena_take(state->arena, sizeof *both);
    if (!both) return state_failed(state, STATUS_NO_MEMORY);
    both->length_min = max_u32(a->length_min, b->length_min);
    both->length_max = min_u32(a->length_max, b->length_max);
    both->unique = a->unique || b->unique;
    enum status status = join_counts(state, a, b, both);
    if (!status) status = array_set_join_rules(state, a, b, both);
    if (status) return status;
    for (uint32_t i = 0; i < both->rule_count; i++)
        if (both->rules[i].conjunction == CONJUNCTION_FALSE)
            both->length_max = min_u32(both->length_max, both->rules[i].from);
    if (both->counts && both->counted_max == UINT32_MAX)
        both->length_min = max_u32(both->length_min, both->counted_min);
    bool none = both->length_min > both->length_max ||
                (both->counts && both->counted_min > both->counted_max);
    for (uint32_t i = 0; i < both->length_min && i < BREACH_ITEMS_MAX && !none; i++) {
        uint32_t conjunction, first, second;
        status = array_set_conjunction_of(state, both, i, &conjunction);
        if (!status) status = array_set_conjunction_of(state, a, i, &first);
        if (!status) status = array_set_conjunction_of(state, b, i, &second);
        if (status) return status;
        none = conjunction == CONJUNCTION_FALSE;
        if (none || first == CONJUNCTION_TRUE || second == CONJUNCTION_TRUE) continue;
        if (conjunction == first && conjunction == second) continue;
        status = schema_state_conjunction_is_empty(state, conjunction, &none);
        if (status) return status;
    }
    if (!none) *out = both;
    return STATUS_OK;
}

static bool same_array(const struct array_set *a, const struct array_set *b) {
    if (a->rule_count != b->rule_count || a->length_min != b->length_min ||
        a->length_max != b->length_max || a->unique != b->unique || a->counts != b->counts)
        return false;
    if (a->counts && (a->counted != b->counted || a->counted_from != b->counted_from ||
                      a->counted_min != b->counted_min || a->counted_max != b->counted_max))
        return false;
    for (uint32_t i = 0; i < a->rule_count; i++)
        if (a->rules[i].from != b->rules[i].from || a->rules[i].to != b->rules[i].to ||
            a->rules[i].conjunction != b->rules[i].conjunction ||
            a->rules[i].evaluates != b->rules[i].evaluates)
            return false;
    return true;
}

enum status array_set_add(struct schema_state *state, struct set_list *all, const void *array) {
    for (uint32_t i = 0; i < all->count; i++)
        if (same_array(all->sets[i], array)) return STATUS_OK;
    if (all->count == VALUE_UNION_MAX)
        return state_error(state, STATUS_TOO_LARGE,
                           "leaves more than %d kinds of arrays to choose from", VALUE_UNION_MAX);
    enum status status =
        schema_state_room(state, &all->sets, all->count, &all->capacity, sizeof *all->sets);
    if (status) return status;
    all->sets[all->count++] = array;
    return schema_state_spend(state, all->count);
}

static enum status array_set_add_both(struct schema_state *state, const struct array_set *a,
                                      const struct array_set *part, struct set_list *all) {
    const void *kept, *both = NULL;
    enum status status = schema_state_keep(state, part, sizeof *part, &kept);
    if (!status) status = array_set_and(state, a, kept, &both);
    return status || !both ? status : array_set_add(state, all, both);
}

/* Adds the arrays of `a` with an item at `index` that violates a literal (UINT32_MAX: with any item
 * there). */
static enum status array_set_add_item(struct schema_state *state, const struct array_set *a,
                                      uint32_t index, uint32_t literal, struct set_list *all) {
    struct array_set part = state->array_any;
    part.length_min = index + 1;
    struct item_rule *rule = arena_take(state->arena, sizeof *rule);
    if (!rule) return state_failed(state, STATUS_NO_MEMORY);
    *rule = (struct item_rule){.from = index, .to = index + 1};
    enum status status = literal == UINT32_MAX
                             ? STATUS_OK
                             : schema_state_conjunction_not(state, literal, &rule->conjunction);
    if (status) return status;
    if (literal != UINT32_MAX) {
        part.rules = rule;
        part.rule_count = 1;
    }
    return array_set_add_both(state, a, &part, all);
}

/* Sets *out if every item that a rule covers violates it, as far as can be determined. */
static enum status breaks_always(struct schema_state *state, const struct array_set *a,
                                 const struct item_rule *rule, bool *out) {
    *out = false;
    uint32_t end = rule->from + 1;
    for (uint32_t i = 0; i < a->rule_count; i++) /* all items from `end` on follow the same rules */
        end =
            max_u32(end, a->rules[i].to == UINT32_MAX ? a->rules[i].from + 1 : a->rules[i].to + 1);
    if (end - rule->from > BREACH_ITEMS_MAX) return STATUS_OK;
    *out = true;
    for (uint32_t i = rule->from; i < end && i < rule->to && *out; i++) {
        uint32_t conjunction;
        enum status status = array_set_conjunction_of(state, a, i, &conjunction);
        if (!status)
            status =
                schema_state_conjunction_and(state, conjunction, rule->conjunction, &conjunction);
        if (!status) status = schema_state_conjunction_is_empty(state, conjunction, out);
        if (status) return status;
    }
    return STATUS_OK;
}

static enum status array_set_add_rule_breach(struct schema_state *state, const struct array_set *a,
                                             const struct item_rule *rule, struct set_list *all) {
    if (rule->conjunction == CONJUNCTION_TRUE) return STATUS_OK;
    if (rule->conjunction == CONJUNCTION_FALSE)
        return array_set_add_item(state, a, rule->from, UINT32_MAX, all);
    for (uint32_t i = 0; i < a->rule_count; i++)
        if (a->rules[i].from <= rule->from && a->rules[i].to >= rule->to &&
            a->rules[i].conjunction == rule->conjunction)
            return STATUS_OK; /* `a` satisfies the rule */
    bool always;
    enum status status = breaks_always(state, a, rule, &always);
    if (status) return status;
    if (always) return array_set_add_item(state, a, rule->from, UINT32_MAX, all);
    const struct conjunction conjunction = state->conjunctions[rule->conjunction];
    uint32_t to = min_u32(rule->to, a->length_max);
    for (uint32_t i = 0; i < conjunction.count && !status; i++) {
        if (to > rule->from && to - rule->from > BREACH_ITEMS_MAX) {
            if (rule->to < a->length_max)
                return state_error(state, STATUS_UNSUPPORTED,
                                   "asks which of more than %d items breaks a rule",
                                   BREACH_ITEMS_MAX);
            struct array_set part = state->array_any;
            part.counts = true;
            part.counted = conjunction.literals[i] ^ 1;
            part.counted_from = rule->from;
            part.counted_min = 1;
            part.counted_max = UINT32_MAX;
            part.length_min = rule->from + 1;
            status = array_set_add_both(state, a, &part, all);
            continue;
        }
        for (uint32_t index = rule->from; index < to && !status; index++)
            status = array_set_add_item(state, a, index, conjunction.literals[i], all);
    }
    return status;
}

static enum status add_count_breach(struct schema_state *state, const struct array_set *a,
                                    const struct array_set *b, struct set_list *all) {
    enum status status = STATUS_OK;
    struct array_set part = state->array_any;
    part.counts = true;
    part.counted = b->counted;
    part.counted_from = b->counted_from;
    part.counted_max = UINT32_MAX;
    if (b->counted_min > 0) {
        part.counted_max = b->counted_min - 1;
        status = array_set_add_both(state, a, &part, all);
    }
    if (!status && b->counted_max < UINT32_MAX) {
        part.counted_max = UINT32_MAX;
        part.counted_min = b->counted_max + 1;
        status = array_set_add_both(state, a, &part, all);
    }
    return status;
}

enum status array_set_without(struct schema_state *state, const void *first, const void *second,
                              struct set_list *all) {
    const struct array_set *a = first, *b = second;
    enum status status = STATUS_OK;
    struct array_set part = state->array_any;
    if (b->length_min > a->length_min) {
        part.length_max = b->length_min - 1;
        status = array_set_add_both(state, a, &part, all);
        part.length_max = UINT32_MAX;
    }
    if (!status && b->length_max < a->length_max) {
        part.length_min = b->length_max + 1;
        status = array_set_add_both(state, a, &part, all);
    }
    for (uint32_t i = 0; i < b->rule_count && !status; i++)
        status = array_set_add_rule_breach(state, a, &b->rules[i], all);
    if (!status && b->counts) status = add_count_breach(state, a, b, all);
    if (!status && b->unique && !a->unique && a->length_max > 1)
        return state_error(state, STATUS_UNSUPPORTED,
                           "cannot hold that items must repeat, against uniqueItems");
    return status;
}
