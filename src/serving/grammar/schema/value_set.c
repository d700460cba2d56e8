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
    const struct array_set **array = arena_take(state->arena, sizeof(struct array_set *));
    const struct object_set **object = arena_take(state->arena, sizeof(struct object_set *));
    if (!array || !object) return state_failed(state, STATUS_NO_MEMORY);
    *array = &state->array_any;
    *object = &state->object_any;
    state->value_any = (struct value_set){
        .bits = SHAPE_NULL | SHAPE_TRUE | SHAPE_FALSE,
        .number = state->number_any,
        .string = LANGUAGE_TEXT,
        .arrays = array,
        .array_count = 1,
        .objects = object,
        .object_count = 1,
    };
    state->value_none = (struct value_set){0};
    return STATUS_OK;
}

static bool holds_all_arrays(const struct schema_state *state, const struct value_set *set) {
    return set->array_count == 1 && set->arrays[0] == &state->array_any;
}

static bool holds_all_objects(const struct schema_state *state, const struct value_set *set) {
    return set->object_count == 1 && set->objects[0] == &state->object_any;
}

static enum status and_arrays(struct schema_state *state, const struct value_set *a,
                              const struct value_set *b, struct value_set *out) {
    struct array_union all = {0};
    for (uint32_t i = 0; i < a->array_count; i++) {
        for (uint32_t k = 0; k < b->array_count; k++) {
            const struct array_set *both;
            enum status status = array_set_and(state, a->arrays[i], b->arrays[k], &both);
            if (!status && both) status = array_set_union_add(state, &all, both);
            if (status) return status;
        }
    }
    out->arrays = all.arrays;
    out->array_count = all.count;
    return STATUS_OK;
}

static enum status and_objects(struct schema_state *state, const struct value_set *a,
                               const struct value_set *b, struct value_set *out) {
    struct object_union all = {0};
    for (uint32_t i = 0; i < a->object_count; i++) {
        for (uint32_t k = 0; k < b->object_count; k++) {
            const struct object_set *both;
            enum status status = object_set_and(state, a->objects[i], b->objects[k], &both);
            if (!status && both) status = object_set_union_add(state, &all, both);
            if (status) return status;
        }
    }
    out->objects = all.objects;
    out->object_count = all.count;
    return STATUS_OK;
}

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
                             .narrow = strings && (a->narrow || b->narrow)};
    enum status status = and_numbers(state, a->number, b->number, &both.number);
    if (status) return status;
    status = schema_state_combine(state, AUTOMATON_AND, a->string, b->string, &both.string);
    if (status) return status;
    status = and_arrays(state, a, b, &both);
    if (!status) status = and_objects(state, a, b, &both);
    if (!status) *out = both;
    return status;
}

static enum status or_arrays(struct schema_state *state, const struct value_set *a,
                             const struct value_set *b, struct value_set *out) {
    out->arrays = a->arrays;
    out->array_count = a->array_count;
    if (b->array_count == 0) return STATUS_OK;
    if (a->array_count == 0 || (holds_all_arrays(state, b) && !state->unevaluated)) {
        out->arrays = b->arrays;
        out->array_count = b->array_count;
        return STATUS_OK;
    }
    if (holds_all_arrays(state, a) && !state->unevaluated) return STATUS_OK;
    struct array_union all = {0};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < a->array_count && !status; i++)
        status = array_set_union_add(state, &all, a->arrays[i]);
    for (uint32_t i = 0; i < b->array_count && !status; i++)
        status = array_set_union_add(state, &all, b->arrays[i]);
    out->arrays = all.arrays;
    out->array_count = all.count;
    return status;
}

static enum status or_objects(struct schema_state *state, const struct value_set *a,
                              const struct value_set *b, struct value_set *out) {
    out->objects = a->objects;
    out->object_count = a->object_count;
    if (b->object_count == 0) return STATUS_OK;
    if (a->object_count == 0 || (holds_all_objects(state, b) && !state->unevaluated)) {
        out->objects = b->objects;
        out->object_count = b->object_count;
        return STATUS_OK;
    }
    if (holds_all_objects(state, a) && !state->unevaluated) return STATUS_OK;
    struct object_union all = {0};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < a->object_count && !status; i++)
        status = object_set_union_add(state, &all, a->objects[i]);
    for (uint32_t i = 0; i < b->object_count && !status; i++)
        status = object_set_union_add(state, &all, b->objects[i]);
    out->objects = all.objects;
    out->object_count = all.count;
    return status;
}

enum status value_set_or(struct schema_state *state, const struct value_set *a,
                         const struct value_set *b, struct value_set *out) {
    struct value_set any = {.bits = a->bits | b->bits, .narrow = a->narrow || b->narrow};
    enum status status = STATUS_OK;
    if (a->number == state->number_any || b->number == state->number_any)
        any.number = state->number_any;
    else
        status = schema_state_combine(state, AUTOMATON_OR, a->number, b->number, &any.number);
    if (!status)
        status = schema_state_combine(state, AUTOMATON_OR, a->string, b->string, &any.string);
    if (status) return state_failed(state, status);
    status = or_arrays(state, a, b, &any);
    if (!status) status = or_objects(state, a, b, &any);
    if (!status) *out = any;
    return status;
}

static enum status without_arrays(struct schema_state *state, const struct value_set *a,
                                  const struct value_set *b, struct value_set *out) {
    out->arrays = a->arrays;
    out->array_count = holds_all_arrays(state, b) ? 0 : a->array_count;
    for (uint32_t i = 0; i < b->array_count; i++) {
        struct array_union all = {0};
        for (uint32_t k = 0; k < out->array_count; k++) {
            const struct array_set *both;
            enum status status = array_set_and(state, out->arrays[k], b->arrays[i], &both);
            if (!status && !both) status = array_set_union_add(state, &all, out->arrays[k]);
            if (!status && both)
                status = array_set_without(state, out->arrays[k], b->arrays[i], &all);
            if (status) return status;
        }
        out->arrays = all.arrays;
        out->array_count = all.count;
    }
    return STATUS_OK;
}

static enum status without_objects(struct schema_state *state, const struct value_set *a,
                                   const struct value_set *b, struct value_set *out) {
    out->objects = a->objects;
    out->object_count = holds_all_objects(state, b) ? 0 : a->object_count;
    for (uint32_t i = 0; i < b->object_count; i++) {
        struct object_union all = {0};
        for (uint32_t k = 0; k < out->object_count; k++) {
            const struct object_set *both;
            enum status status = object_set_and(state, out->objects[k], b->objects[i], &both);
            if (!status && !both) status = object_set_union_add(state, &all, out->objects[k]);
            if (!status && both)
                status = object_set_without(state, out->objects[k], b->objects[i], &all);
            if (status) return status;
        }
        out->objects = all.objects;
        out->object_count = all.count;
    }
    return STATUS_OK;
}

/* A language of numbers may leave out ways to write them, with an exponent; what is left of `a` is
 * written plainly, where `b` leaves nothing out. */
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
    struct value_set rest = {.bits = a->bits & ~b->bits, .narrow = a->narrow};
    enum status status = without_numbers(state, a->number, b->number, &rest.number);
    if (status) return status;
    status = schema_state_combine(state, AUTOMATON_WITHOUT, a->string, b->string, &rest.string);
    if (status) return state_failed(state, status);
    if (b->narrow && rest.string != LANGUAGE_NONE)
        return state_error(
            state, STATUS_UNSUPPORTED,
            "cannot take away a format that is held in part: hostname, idn-email, or "
            "one with hosts and a maxLength above 256");
    status = without_arrays(state, a, b, &rest);
    if (!status) status = without_objects(state, a, b, &rest);
    if (!status) *out = rest;
    return status;
}

/* ---- as answers write it ---- */

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

/* Numbers that are not whole have a spelling without an exponent in every set. */
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
