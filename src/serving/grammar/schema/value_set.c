/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/value_set.h"

#include "serving/grammar/automata/number_set.h"

enum status value_set_open(struct schema_state *state) {
    state->array_any = (struct array_set){.length_max = UINT32_MAX};
    state->object_any = (struct object_set){.count_max = UINT32_MAX};
    const struct automaton *numbers;
    struct number_set all = {0};
    enum status status = number_set_automaton_of_numbers(&state->work, &all, &numbers);
    if (!status) status = language_of_automaton(&state->languages, numbers, &state->number_any);
    if (!status)
        status = automaton_of_regex(&state->work, BYTES_LITERAL("-?(0|[1-9][0-9]*)(\\.[0-9]+)?"),
                                    &numbers, state->error);
    if (!status) status = language_of_automaton(&state->languages, numbers, &state->number_plain);
    if (status) return state_failed(state, status);
    state->any_sets[0] = &state->array_any;
    state->any_sets[1] = &state->object_any;
    state->value_any = (struct value_set){
        .bits = SHAPE_NULL | SHAPE_TRUE | SHAPE_FALSE,
        .number = state->number_any,
        .string = LANGUAGE_TEXT,
        .arrays = {state->any_sets, 1, 0},
        .objects = {state->any_sets + 1, 1, 0},
    };
    state->value_none = (struct value_set){0};
    return STATUS_OK;
}

enum status value_set_list_of(struct schema_state *state, const void *set, size_t bytes,
                              struct set_list *out) {
    const void *kept;
    enum status status = schema_state_keep(state, set, bytes, &kept);
    if (!status) status = schema_state_keep(state, &kept, sizeof kept, &out->sets);
    out->count = 1;
    return status;
}

/* ---- unions of array sets and of object sets ---- */

static const struct set_kind {
    enum status (*both)(struct schema_state *, const void *, const void *, const void **);
    enum status (*add)(struct schema_state *, struct set_list *, const void *);
    enum status (*without)(struct schema_state *, const void *, const void *, struct set_list *);
} set_kinds[2] = {{array_set_and, array_set_add, array_set_without},
                  {object_set_and, object_set_add, object_set_without}};

static bool holds_all(const struct schema_state *state, const struct set_list *list, int kind) {
    return list->count == 1 && list->sets[0] == state->any_sets[kind];
}

static enum status and_lists(struct schema_state *state, int kind, const struct set_list *a,
                             const struct set_list *b, struct set_list *out) {
    *out = (struct set_list){0};
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++) {
            const void *both;
            enum status status = set_kinds[kind].both(state, a->sets[i], b->sets[k], &both);
            if (!status && both) status = set_kinds[kind].add(state, out, both);
            if (status) return status;
        }
    return STATUS_OK;
}

static enum status or_lists(struct schema_state *state, int kind, const struct set_list *a,
                            const struct set_list *b, struct set_list *out) {
    enum status status = STATUS_OK;
    bool b_holds = a->count == 0 || (holds_all(state, b, kind) && !state->unevaluated);
    *out = b->count && b_holds ? *b : *a;
    if (b->count == 0 || b_holds || (holds_all(state, a, kind) && !state->unevaluated))
        return STATUS_OK;
    *out = (struct set_list){0};
    for (uint32_t i = 0; i < a->count && !status; i++)
        status = set_kinds[kind].add(state, out, a->sets[i]);
    for (uint32_t i = 0; i < b->count && !status; i++)
        status = set_kinds[kind].add(state, out, b->sets[i]);
    return status;
}

static enum status without_lists(struct schema_state *state, int kind, const struct set_list *a,
                                 const struct set_list *b, struct set_list *out) {
    *out = holds_all(state, b, kind) ? (struct set_list){0} : *a;
    for (uint32_t i = 0; i < b->count; i++) {
        struct set_list all = {0};
        for (uint32_t k = 0; k < out->count; k++) {
            const void *set = out->sets[k], *both;
            enum status status = set_kinds[kind].both(state, set, b->sets[i], &both);
            if (!status)
                status = both ? set_kinds[kind].without(state, set, b->sets[i], &all)
                              : set_kinds[kind].add(state, &all, set);
            if (status) return status;
        }
        *out = all;
    }
    return STATUS_OK;
}

typedef enum status list_operation(struct schema_state *, int, const struct set_list *,
                                   const struct set_list *, struct set_list *);

static enum status combine_lists(struct schema_state *state, list_operation *operation,
                                 const struct value_set *a, const struct value_set *b,
                                 struct value_set *out) {
    enum status status = operation(state, 0, &a->arrays, &b->arrays, &out->arrays);
    return status ? status : operation(state, 1, &a->objects, &b->objects, &out->objects);
}

/* ---- value sets ---- */

static enum status and_numbers(struct schema_state *state, uint32_t a, uint32_t b, uint32_t *out) {
    if (a == state->number_any || b == state->number_any) {
        *out = a == state->number_any ? b : a;
        return STATUS_OK;
    }
    return schema_state_combine(state, AUTOMATON_AND, a, b, out);
}

enum status value_set_and(struct schema_state *state, const struct value_set *a,
                          const struct value_set *b, struct value_set *out) {
    bool strings = a->string != LANGUAGE_NONE && b->string != LANGUAGE_NONE;
    struct value_set both = {.bits = a->bits & b->bits,
                             .incomplete = strings && (a->incomplete || b->incomplete)};
    enum status status = and_numbers(state, a->number, b->number, &both.number);
    if (status) return status;
    status = schema_state_combine(state, AUTOMATON_AND, a->string, b->string, &both.string);
    if (status) return status;
    status = combine_lists(state, and_lists, a, b, &both);
    if (!status) *out = both;
    return status;
}

enum status value_set_or(struct schema_state *state, const struct value_set *a,
                         const struct value_set *b, struct value_set *out) {
    struct value_set any = {.bits = a->bits | b->bits,
                            .incomplete = a->incomplete || b->incomplete};
    enum status status = STATUS_OK;
    if (a->number == state->number_any || b->number == state->number_any)
        any.number = state->number_any;
    else
        status = schema_state_combine(state, AUTOMATON_OR, a->number, b->number, &any.number);
    if (!status)
        status = schema_state_combine(state, AUTOMATON_OR, a->string, b->string, &any.string);
    if (status) return state_failed(state, status);
    status = combine_lists(state, or_lists, a, b, &any);
    if (!status) *out = any;
    return status;
}

/* A language of numbers may lack spellings with an exponent. The difference therefore contains
 * numbers without exponent only, for which `b` is complete. */
static enum status without_numbers(struct schema_state *state, uint32_t a, uint32_t b,
                                   uint32_t *out) {
    *out = a;
    if (a == LANGUAGE_NONE || b == LANGUAGE_NONE) return STATUS_OK;
    *out = LANGUAGE_NONE;
    if (b == state->number_any || a == b) return STATUS_OK;
    enum status status = schema_state_combine(state, AUTOMATON_AND, a, state->number_plain, out);
    if (!status) status = schema_state_combine(state, AUTOMATON_WITHOUT, *out, b, out);
    return status ? state_failed(state, status) : STATUS_OK;
}

enum status value_set_without(struct schema_state *state, const struct value_set *a,
                              const struct value_set *b, struct value_set *out) {
    struct value_set rest = {.bits = a->bits & ~b->bits, .incomplete = a->incomplete};
    enum status status = without_numbers(state, a->number, b->number, &rest.number);
    if (status) return status;
    status = schema_state_combine(state, AUTOMATON_WITHOUT, a->string, b->string, &rest.string);
    if (status) return state_failed(state, status);
    if (b->incomplete && rest.string != LANGUAGE_NONE)
        return state_error(
            state, STATUS_UNSUPPORTED,
            "cannot take away a format that is held in part: hostname, idn-email, or "
            "one with hosts and a maxLength above 256");
    status = combine_lists(state, without_lists, a, b, &rest);
    if (!status) *out = rest;
    return status;
}

/* ---- spellings of numbers in answers ---- */

static enum status open_spellings(struct schema_state *state) {
    const struct automaton *broken, *spelt, *whole;
    if (state->number_broken != LANGUAGE_NONE) return STATUS_OK;
    enum status status = automaton_of_regex(
        &state->work, BYTES_LITERAL("-?(0|[1-9][0-9]*)\\.[0-9]*[1-9]"), &broken, state->error);
    if (!status) status = number_set_automaton_of_spellings(&state->work, false, &spelt);
    if (!status) status = number_set_automaton_of_spellings(&state->work, true, &whole);
    struct language_table *languages = &state->languages;
    if (!status) status = language_of_automaton(languages, spelt, &state->number_spelt);
    if (!status) status = language_of_automaton(languages, whole, &state->whole_spelt);
    if (!status) status = language_of_automaton(languages, broken, &state->number_broken);
    return status;
}

/* Every set contains a spelling without exponent of each of its numbers. */
enum status value_set_spell(struct schema_state *state, struct value_set *set) {
    if (set->number == LANGUAGE_NONE || state->options->any_spelling) return STATUS_OK;
    enum status status = open_spellings(state);
    uint32_t broken = LANGUAGE_NONE;
    if (!status)
        status =
            schema_state_combine(state, AUTOMATON_AND, set->number, state->number_broken, &broken);
    uint32_t spelt = broken == LANGUAGE_NONE ? state->whole_spelt : state->number_spelt;
    if (!status && set->number == state->number_any)
        set->number = spelt;
    else if (!status)
        status = schema_state_combine(state, AUTOMATON_AND, set->number, spelt, &set->number);
    return status ? state_failed(state, status) : STATUS_OK;
}
