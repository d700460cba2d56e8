/* SPDX-License-Identifier: Apache-2.0
 * The keywords enum and const. All strings of an enum become one DFA.
 */
#include "serving/grammar/automata/number_set.h"
#include "serving/grammar/schema/schema_keywords.h"
#include "serving/grammar/schema/value_set.h"

enum status schema_constant_read_number_text(struct schema_reader *reader, const struct tree *value,
                                             struct bytes *out) {
    if (tree_kind(value) != TREE_INTEGER && tree_kind(value) != TREE_REAL)
        return read_wrong_kind(reader, value, "a number");
    *out = tree_text(reader->state->arena, value);
    return out->data ? STATUS_OK : state_failed(reader->state, STATUS_NO_MEMORY);
}

static enum status language_of_number(struct schema_reader *reader, const struct tree *value,
                                      uint32_t *out) {
    struct schema_state *state = reader->state;
    struct bytes text;
    struct decimal decimal;
    const struct automaton *automaton;
    enum status status = schema_constant_read_number_text(reader, value, &text);
    if (status) return status;
    status = number_set_decimal_read(text, &decimal);
    if (!status) status = number_set_automaton_of_number(&state->work, &decimal, &automaton);
    if (status == STATUS_UNSUPPORTED)
        return state_error(state, status, "the number %.*s has too many digits", (int)text.count,
                           text.data);
    if (!status) status = language_of_automaton(&state->languages, automaton, out);
    return status ? state_failed(state, status) : STATUS_OK;
}

/* The conjunction that requires a value inside of a constant. Registers the value as a
 * subschema. */
static enum status conjunction_of_constant(struct schema_reader *reader, const struct tree *value,
                                           uint32_t *out) {
    struct subschema subschema = {
        .tree = value,
        .resource = reader->state->subschemas[reader->subschema].resource,
        .parent = reader->state->at,
        .keyword = reader->state->keyword,
        .constant = true,
    };
    return schema_state_require(reader->state, &subschema, out);
}

static enum status read_constant_array(struct schema_reader *reader, const struct tree *value,
                                       struct value_set *out) {
    struct schema_state *state = reader->state;
    uint32_t count = (uint32_t)tree_count(value);
    struct item_rule *rules = arena_take(state->arena, count * sizeof *rules);
    if (!rules) return state_failed(state, STATUS_NO_MEMORY);
    struct array_set array = {
        .rules = rules, .rule_count = count, .length_min = count, .length_max = count};
    for (uint32_t i = 0; i < count; i++) {
        rules[i] = (struct item_rule){.from = i, .to = i + 1};
        enum status status =
            conjunction_of_constant(reader, tree_at(value, i), &rules[i].conjunction);
        if (status) return status;
    }
    return value_set_list_of(state, &array, sizeof array, &out->arrays);
}

static enum status read_constant_object(struct schema_reader *reader, const struct tree *value,
                                        struct value_set *out) {
    struct schema_state *state = reader->state;
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *member;
    uint32_t count = 0;
    while (tree_next_member(value, &cursor, &key, &member))
        count++;
    struct key_rule *rules = arena_take(state->arena, (count + 1) * sizeof *rules);
    uint32_t *names = arena_take(state->arena, count * sizeof *names);
    if (!rules || !names) return state_failed(state, STATUS_NO_MEMORY);
    enum status status = STATUS_OK;
    cursor = (struct tree_cursor){0};
    for (uint32_t i = 0; i < count && tree_next_member(value, &cursor, &key, &member); i++) {
        rules[i] = (struct key_rule){0};
        status = schema_state_name(state, key, &names[i]);
        if (!status) status = schema_state_key_set_of_name(state, names[i], &rules[i].key_set);
        if (!status) status = conjunction_of_constant(reader, member, &rules[i].conjunction);
        if (status) return status;
    }
    uint32_t name_count = schema_reader_sort(names, count);
    struct key_set others = {.names = names, .name_count = name_count, .negated = true};
    rules[count] = (struct key_rule){.conjunction = CONJUNCTION_FALSE};
    status = schema_state_key_set(state, &others, &rules[count].key_set);
    struct object_set object = {.rules = rules,
                                .rule_count = count + 1,
                                .required = names,
                                .required_count = name_count,
                                .count_max = UINT32_MAX};
    return status ? status : value_set_list_of(state, &object, sizeof object, &out->objects);
}

enum status schema_constant_read_constant(struct schema_reader *reader, const struct tree *value,
                                          struct value_set *out) {
    struct bytes text;
    *out = reader->state->value_none;
    enum status status;
    switch (tree_kind(value)) {
    case TREE_NULL:
        out->bits = SHAPE_NULL;
        return STATUS_OK;
    case TREE_TRUE:
        out->bits = SHAPE_TRUE;
        return STATUS_OK;
    case TREE_FALSE:
        out->bits = SHAPE_FALSE;
        return STATUS_OK;
    case TREE_STRING:
        tree_get_string(value, &text);
        status = language_of_texts(&reader->state->languages, &text, 1, &out->string);
        return status ? state_failed(reader->state, status) : STATUS_OK;
    case TREE_INTEGER:
    case TREE_REAL:
        return language_of_number(reader, value, &out->number);
    case TREE_ARRAY:
        return read_constant_array(reader, value, out);
    case TREE_OBJECT:
        break;
    }
    return read_constant_object(reader, value, out);
}

/* The language of the strings of an enum. */
static enum status language_of_strings(struct schema_reader *reader, const struct tree *list,
                                       uint32_t *out) {
    struct schema_state *state = reader->state;
    uint32_t total = (uint32_t)tree_count(list), count = 0;
    uint32_t *names = arena_take(state->arena, total * sizeof *names);
    struct bytes *texts = arena_take(state->arena, total * sizeof *texts), text;
    if (!names || !texts) return state_failed(state, STATUS_NO_MEMORY);
    for (uint32_t i = 0; i < total; i++) {
        if (!tree_get_string(tree_at(list, i), &text)) continue;
        enum status status = schema_state_name(state, text, &names[count++]);
        if (status) return status;
    }
    *out = LANGUAGE_NONE;
    if (count == 0) return STATUS_OK;
    count = schema_reader_sort(names, count);
    for (uint32_t i = 0; i < count; i++)
        texts[i] = state->names[names[i]];
    enum status status = language_of_texts(&state->languages, texts, count, out);
    return status ? state_failed(state, status) : STATUS_OK;
}

enum status schema_constant_read_constants(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    struct value_set part;
    enum status status = STATUS_OK;
    const struct tree *list = schema_reader_keyword(reader, "enum");
    if (list) {
        if (tree_kind(list) != TREE_ARRAY) return read_wrong_kind(reader, list, "an array");
        struct value_set all = state->value_none;
        status = language_of_strings(reader, list, &all.string);
        for (size_t i = 0; i < tree_count(list) && !status; i++) {
            if (tree_kind(tree_at(list, i)) == TREE_STRING) continue;
            status = schema_constant_read_constant(reader, tree_at(list, i), &part);
            if (!status) status = value_set_or(state, &all, &part, &all);
        }
        if (!status) status = value_set_and(state, &reader->set, &all, &reader->set);
        if (status) return status;
    }
    const struct tree *value = schema_reader_keyword(reader, "const");
    if (!value || reader->draft < DRAFT_6) return STATUS_OK;
    status = schema_constant_read_constant(reader, value, &part);
    return status ? status : value_set_and(state, &reader->set, &part, &reader->set);
}
