/* SPDX-License-Identifier: Apache-2.0
 * The keywords of arrays and objects: items, contains, properties, required, dependencies, counts,
 * and unevaluated items and properties.
 */
#include "base/number.h"
#include "serving/grammar/schema/schema_keywords.h"
#include "serving/grammar/schema/value_set.h"

static enum status keep_array(struct schema_reader *reader, const struct array_set *array) {
    struct schema_state *state = reader->state;
    struct value_set set = state->value_any;
    enum status status = value_set_list_of(state, array, sizeof *array, &set.arrays);
    return status ? status : value_set_and(state, &reader->set, &set, &reader->set);
}

/* Reads prefixItems and items, or in older drafts items and additionalItems. */
static enum status read_items(struct schema_reader *reader, struct array_set *array) {
    struct schema_state *state = reader->state;
    const struct tree *items = tree_member(reader->tree, "items");
    const struct tree *prefix = schema_reader_keyword(reader, "prefixItems");
    const struct tree *rest = items;
    const char *rest_keyword = "items";
    if (!prefix && items && tree_kind(items) == TREE_ARRAY) {
        prefix = schema_reader_keyword(reader, "items");
        rest = tree_member(reader->tree, "additionalItems");
        rest_keyword = "additionalItems";
    }
    if (prefix && tree_kind(prefix) != TREE_ARRAY)
        return read_wrong_kind(reader, prefix, "an array");
    uint32_t count = (uint32_t)tree_count(prefix);
    struct item_rule *rules = arena_take(state->arena, (count + 1) * sizeof *rules);
    if (!rules) return state_failed(state, STATUS_NO_MEMORY);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        rules[i] = (struct item_rule){.from = i, .to = i + 1, .evaluates = true};
        status = schema_reader_child(reader, (struct bytes){0}, tree_at(prefix, i),
                                     &rules[i].conjunction);
    }
    array->rules = rules;
    array->rule_count = count;
    if (status || !rest) return status;
    state->keyword = rest_keyword;
    rules[count] = (struct item_rule){.from = count, .to = UINT32_MAX, .evaluates = true};
    array->rule_count = count + 1;
    return schema_reader_child(reader, (struct bytes){0}, rest, &rules[count].conjunction);
}

static enum status read_contains(struct schema_reader *reader, struct array_set *array) {
    struct schema_state *state = reader->state;
    uint32_t min = 1, max = UINT32_MAX, conjunction;
    enum status status = STATUS_OK;
    if (reader->draft < DRAFT_6) return STATUS_OK;
    if (tree_member(reader->tree, "contains") && reader->draft >= DRAFT_2019_09) {
        status = schema_reader_count(reader, "minContains", &min);
        if (!status) status = schema_reader_count(reader, "maxContains", &max);
    }
    const struct tree *value = schema_reader_keyword(reader, "contains");
    if (status || !value) return status;
    status = schema_reader_child(reader, (struct bytes){0}, value, &conjunction);
    if (status) return status;
    if (conjunction == CONJUNCTION_TRUE) {
        array->length_min = max_u32(array->length_min, min);
        array->length_max = min_u32(array->length_max, max);
    } else if (conjunction == CONJUNCTION_FALSE) {
        if (min > 0) array->length_max = 0;
        if (min > 0) array->length_min = 1; /* makes the set empty */
    } else if (min > 0 || max < UINT32_MAX || state->unevaluated) {
        array->counts = true;
        array->counted = state->conjunctions[conjunction].literals[0];
        array->counted_min = min;
        array->counted_max = max;
        array->length_min = max_u32(array->length_min, min);
    }
    return STATUS_OK;
}

enum status schema_containers_read_arrays(struct schema_reader *reader) {
    if (reader->set.arrays.count == 0) return STATUS_OK;
    struct array_set array = reader->state->array_any;
    enum status status = read_items(reader, &array);
    if (!status) status = schema_reader_count(reader, "minItems", &array.length_min);
    if (!status) status = schema_reader_count(reader, "maxItems", &array.length_max);
    if (!status) status = read_contains(reader, &array);
    if (status) return status;
    tree_get_bool(tree_member(reader->tree, "uniqueItems"), &array.unique);
    for (uint32_t i = 0; i < array.rule_count; i++)
        if (array.rules[i].conjunction == CONJUNCTION_FALSE)
            array.length_max = min_u32(array.length_max, array.rules[i].from);
    if (array.length_min > array.length_max) {
        reader->set.arrays.count = 0;
        return STATUS_OK;
    }
    if (array.rule_count == 0 && array.length_min == 0 && array.length_max == UINT32_MAX &&
        !array.counts && !array.unique)
        return STATUS_OK;
    return keep_array(reader, &array);
}

static enum status keep_object(struct schema_reader *reader, const struct object_set *object) {
    struct schema_state *state = reader->state;
    struct value_set set = state->value_any;
    enum status status = value_set_list_of(state, object, sizeof *object, &set.objects);
    return status ? status : value_set_and(state, &reader->set, &set, &reader->set);
}

/* Rules read so far, and the names and patterns that have one. */
struct object_draft {
    struct key_rule *rules;
    uint32_t *names, *languages;
    uint32_t rule_count, name_count, language_count;
};

static uint32_t member_count(const struct tree *object) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    uint32_t count = 0;
    while (object && tree_kind(object) == TREE_OBJECT &&
           tree_next_member(object, &cursor, &key, &value))
        count++;
    return count;
}

static enum status read_properties(struct schema_reader *reader, struct object_draft *draft) {
    struct schema_state *state = reader->state;
    const struct tree *all = schema_reader_keyword(reader, "properties"), *value;
    if (!all) return STATUS_OK;
    if (tree_kind(all) != TREE_OBJECT) return read_wrong_kind(reader, all, "an object");
    struct tree_cursor cursor = {0};
    struct bytes key;
    while (tree_next_member(all, &cursor, &key, &value)) {
        uint32_t name;
        struct key_rule rule = {.evaluates = true};
        enum status status = schema_state_name(state, key, &name);
        if (!status) status = schema_state_key_set_of_name(state, name, &rule.key_set);
        if (!status) status = schema_reader_child(reader, key, value, &rule.conjunction);
        if (status) return status;
        draft->names[draft->name_count++] = name;
        draft->rules[draft->rule_count++] = rule;
    }
    return STATUS_OK;
}

static enum status condition_of_language(struct schema_state *state, uint32_t language,
                                         bool negated, uint32_t *out) {
    uint32_t *kept = arena_take(state->arena, sizeof *kept);
    if (!kept) return state_failed(state, STATUS_NO_MEMORY);
    *kept = language;
    struct key_set key_set = {.languages = kept, .language_count = 1, .negated = negated};
    return schema_state_key_set(state, &key_set, out);
}

static enum status read_pattern_properties(struct schema_reader *reader,
                                           struct object_draft *draft) {
    struct schema_state *state = reader->state;
    const struct tree *all = schema_reader_keyword(reader, "patternProperties"), *value;
    if (!all) return STATUS_OK;
    if (tree_kind(all) != TREE_OBJECT) return read_wrong_kind(reader, all, "an object");
    struct tree_cursor cursor = {0};
    struct bytes key;
    while (tree_next_member(all, &cursor, &key, &value)) {
        uint32_t language;
        struct key_rule rule = {.evaluates = true};
        enum status status = schema_state_pattern(state, key, &language);
        if (!status) status = condition_of_language(state, language, false, &rule.key_set);
        if (!status) status = schema_reader_child(reader, key, value, &rule.conjunction);
        if (status) return status;
        if (language == LANGUAGE_NONE) continue;
        draft->languages[draft->language_count++] = language;
        draft->rules[draft->rule_count++] = rule;
    }
    return STATUS_OK;
}

/* Reads additionalProperties and propertyNames. */
static enum status read_other_keys(struct schema_reader *reader, struct object_draft *draft) {
    struct schema_state *state = reader->state;
    enum status status = STATUS_OK;
    draft->name_count = schema_reader_sort(draft->names, draft->name_count);
    const struct tree *value = schema_reader_keyword(reader, "additionalProperties");
    if (value) {
        struct key_set others = {.names = draft->names,
                                 .name_count = draft->name_count,
                                 .languages = draft->languages,
                                 .language_count = draft->language_count,
                                 .negated = true};
        struct key_rule rule = {.evaluates = true};
        status = schema_state_key_set(state, &others, &rule.key_set);
        if (!status)
            status = schema_reader_child(reader, (struct bytes){0}, value, &rule.conjunction);
        if (rule.conjunction != CONJUNCTION_TRUE || state->unevaluated)
            draft->rules[draft->rule_count++] = rule;
    }
    value = schema_reader_keyword(reader, "propertyNames");
    if (status || !value || reader->draft < DRAFT_6) return status;
    struct value_set keys;
    const struct automaton *automaton;
    status = schema_reader_branch(reader, (struct bytes){0}, value, &keys);
    if (status || keys.string == LANGUAGE_TEXT) return status;
    status = language_automaton(&state->languages, keys.string, &automaton);
    if (status) return state_failed(state, status);
    struct key_rule rule = {.conjunction = CONJUNCTION_FALSE};
    status = condition_of_language(state, keys.string, true, &rule.key_set);
    draft->rules[draft->rule_count++] = rule;
    return status;
}

static enum status read_required(struct schema_reader *reader, struct object_set *object) {
    struct schema_state *state = reader->state;
    const struct tree *list = schema_reader_keyword(reader, "required");
    if (!list || tree_kind(list) == TREE_TRUE || tree_kind(list) == TREE_FALSE)
        return STATUS_OK; /* draft 3 has a boolean, which later drafts ignore */
    if (tree_kind(list) != TREE_ARRAY) return read_wrong_kind(reader, list, "an array");
    uint32_t count = (uint32_t)tree_count(list);
    uint32_t *names = arena_take(state->arena, count * sizeof *names);
    if (!names) return state_failed(state, STATUS_NO_MEMORY);
    for (uint32_t i = 0; i < count; i++) {
        struct bytes key;
        if (!tree_get_string(tree_at(list, i), &key))
            return read_wrong_kind(reader, tree_at(list, i), "an array of strings");
        enum status status = schema_state_name(state, key, &names[i]);
        if (status) return status;
    }
    object->required = names;
    object->required_count = schema_reader_sort(names, count);
    return STATUS_OK;
}

/* Reads dependentRequired, and the arrays of dependencies. */
static enum status read_needs(struct schema_reader *reader, const char *keyword,
                              struct object_set *object) {
    struct schema_state *state = reader->state;
    const struct tree *all = schema_reader_keyword(reader, keyword), *value;
    if (!all) return STATUS_OK;
    if (tree_kind(all) != TREE_OBJECT) return read_wrong_kind(reader, all, "an object");
    struct tree_cursor cursor = {0};
    struct bytes key, other;
    uint32_t total = object->dependency_count;
    while (tree_next_member(all, &cursor, &key, &value))
        total += (uint32_t)tree_count(value);
    struct key_dependency *dependencies = arena_take(state->arena, total * sizeof *dependencies);
    if (!dependencies) return state_failed(state, STATUS_NO_MEMORY);
    if (object->dependency_count)
        memcpy(dependencies, object->dependencies, object->dependency_count * sizeof *dependencies);
    cursor = (struct tree_cursor){0};
    while (tree_next_member(all, &cursor, &key, &value)) {
        for (size_t i = 0; i < tree_count(value); i++) {
            struct key_dependency *need = &dependencies[object->dependency_count++];
            if (!tree_get_string(tree_at(value, i), &other))
                return read_wrong_kind(reader, tree_at(value, i), "an array of strings");
            enum status status = schema_state_name(state, key, &need->name);
            if (!status) status = schema_state_name(state, other, &need->other);
            if (status) return status;
        }
    }
    object->dependencies = dependencies;
    return STATUS_OK;
}

/* Restricts objects to those without the property `key` and those that are in `part`. */
static enum status depend(struct schema_reader *reader, struct bytes key,
                          const struct value_set *part) {
    struct schema_state *state = reader->state;
    uint32_t name;
    struct object_set present = state->object_any;
    struct value_set with = state->value_none, without;
    present.required_count = 1;
    enum status status = schema_state_name(state, key, &name);
    if (!status) status = schema_state_keep(state, &name, sizeof name, &present.required);
    if (!status) status = value_set_list_of(state, &present, sizeof present, &with.objects);
    if (!status) status = value_set_without(state, &reader->set, &with, &without);
    if (!status) status = value_set_and(state, &reader->set, &with, &with);
    if (!status) status = value_set_and(state, &with, part, &with);
    return status ? status : value_set_or(state, &without, &with, &reader->set);
}

/* True if a set restricts objects only by required. */
static bool only_requires(const struct value_set *set) {
    if (set->objects.count != 1) return false;
    const struct object_set *object = set->objects.sets[0];
    return !object->rule_count && !object->dependency_count && object->count_min == 0 &&
           object->count_max == UINT32_MAX;
}

/* The same as `depend` for a set that only requires properties. Avoids the union, because the
 * matcher would have to follow its parts in parallel. */
static enum status need_all(struct schema_reader *reader, struct bytes key,
                            const struct object_set *required) {
    struct schema_state *state = reader->state;
    struct key_dependency *dependencies =
        arena_take(state->arena, required->required_count * sizeof *dependencies);
    struct object_set object = state->object_any;
    uint32_t name;
    if (required->required_count == 0) return STATUS_OK;
    if (!dependencies) return state_failed(state, STATUS_NO_MEMORY);
    enum status status = schema_state_name(state, key, &name);
    for (uint32_t i = 0; i < required->required_count; i++)
        dependencies[i] = (struct key_dependency){name, required->required[i]};
    object.dependencies = dependencies;
    object.dependency_count = required->required_count;
    return status ? status : keep_object(reader, &object);
}

/* Reads dependentSchemas, and the schemas of dependencies. */
static enum status read_dependent(struct schema_reader *reader, const char *keyword) {
    const struct tree *all = schema_reader_keyword(reader, keyword), *value;
    if (!all || reader->set.objects.count == 0) return STATUS_OK;
    if (tree_kind(all) != TREE_OBJECT) return read_wrong_kind(reader, all, "an object");
    struct tree_cursor cursor = {0};
    struct bytes key;
    while (tree_next_member(all, &cursor, &key, &value)) {
        if (tree_kind(value) == TREE_ARRAY || tree_kind(value) == TREE_TRUE) continue;
        struct value_set part;
        enum status status = schema_reader_branch(reader, key, value, &part);
        if (!status)
            status = only_requires(&part) ? need_all(reader, key, part.objects.sets[0])
                                          : depend(reader, key, &part);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status schema_containers_read_objects(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    if (reader->set.objects.count == 0) return STATUS_OK;
    uint32_t names = member_count(tree_member(reader->tree, "properties"));
    uint32_t patterns = member_count(tree_member(reader->tree, "patternProperties"));
    struct object_draft draft = {
        .rules = arena_take(state->arena, (names + patterns + 2) * sizeof(struct key_rule)),
        .names = arena_take(state->arena, names * sizeof(uint32_t)),
        .languages = arena_take(state->arena, patterns * sizeof(uint32_t)),
    };
    if (!draft.rules || !draft.names || !draft.languages)
        return state_failed(state, STATUS_NO_MEMORY);
    struct object_set object = state->object_any;
    enum status status = read_properties(reader, &draft);
    if (!status) status = read_pattern_properties(reader, &draft);
    if (!status) status = read_other_keys(reader, &draft);
    if (!status) status = read_required(reader, &object);
    if (!status) status = read_needs(reader, "dependentRequired", &object);
    if (!status) status = read_needs(reader, "dependencies", &object);
    if (!status) status = schema_reader_count(reader, "minProperties", &object.count_min);
    if (!status) status = schema_reader_count(reader, "maxProperties", &object.count_max);
    if (status) return status;
    object.rules = draft.rules;
    object.rule_count = draft.rule_count;
    if (object.count_min > object.count_max) {
        reader->set.objects.count = 0;
        return STATUS_OK;
    }
    if (object.rule_count || object.required_count || object.dependency_count || object.count_min ||
        object.count_max < UINT32_MAX)
        status = keep_object(reader, &object);
    if (!status) status = read_dependent(reader, "dependentSchemas");
    if (!status) status = read_dependent(reader, "dependencies");
    return status;
}

/* Requires the conjunction of all keys that no rule evaluates. */
static enum status close_object(struct schema_state *state, const struct object_set *object,
                                uint32_t conjunction, struct object_set *out) {
    struct key_rule *rules = arena_take(state->arena, (object->rule_count + 1) * sizeof *rules);
    uint32_t *spoken = arena_take(state->arena, object->rule_count * sizeof *spoken);
    if (!rules || !spoken) return state_failed(state, STATUS_NO_MEMORY);
    struct key_set others = {.key_sets = spoken, .negated = true};
    for (uint32_t i = 0; i < object->rule_count; i++) {
        rules[i] = object->rules[i];
        if (rules[i].evaluates) spoken[others.key_set_count++] = rules[i].key_set;
    }
    rules[object->rule_count] = (struct key_rule){.conjunction = conjunction, .evaluates = true};
    *out = *object;
    out->rules = rules;
    out->rule_count = object->rule_count + 1;
    return schema_state_key_set(state, &others, &rules[object->rule_count].key_set);
}

static enum status close_array(struct schema_state *state, const struct array_set *array,
                               uint32_t conjunction, struct array_set *out) {
    if (array->counts)
        return state_error(state, STATUS_UNSUPPORTED, "cannot hold this together with contains");
    uint32_t from = 0;
    for (uint32_t i = 0; i < array->rule_count; i++)
        if (array->rules[i].evaluates) from = max_u32(from, array->rules[i].to);
    *out = *array;
    if (from == UINT32_MAX) return STATUS_OK;
    struct item_rule *rules = arena_take(state->arena, (array->rule_count + 1) * sizeof *rules);
    if (!rules) return state_failed(state, STATUS_NO_MEMORY);
    if (array->rule_count) memcpy(rules, array->rules, array->rule_count * sizeof *rules);
    rules[array->rule_count] = (struct item_rule){
        .from = from, .to = UINT32_MAX, .conjunction = conjunction, .evaluates = true};
    out->rules = rules;
    out->rule_count = array->rule_count + 1;
    if (conjunction == CONJUNCTION_FALSE) out->length_max = min_u32(out->length_max, from);
    return STATUS_OK;
}

enum status schema_containers_read_unevaluated(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    struct set_list arrays = reader->set.arrays, objects = reader->set.objects;
    uint32_t conjunction = CONJUNCTION_TRUE;
    enum status status = STATUS_OK;
    const struct tree *value = schema_reader_keyword(reader, "unevaluatedProperties");
    if (value) {
        status = schema_reader_child(reader, (struct bytes){0}, value, &conjunction);
        reader->set.objects = (struct set_list){0};
    }
    for (uint32_t i = 0; value && i < objects.count && !status; i++) {
        struct object_set closed;
        const void *kept;
        status = close_object(state, objects.sets[i], conjunction, &closed);
        if (!status) status = schema_state_keep(state, &closed, sizeof closed, &kept);
        if (!status) status = object_set_add(state, &reader->set.objects, kept);
    }
    value = status ? NULL : schema_reader_keyword(reader, "unevaluatedItems");
    if (value) {
        status = schema_reader_child(reader, (struct bytes){0}, value, &conjunction);
        reader->set.arrays = (struct set_list){0};
    }
    for (uint32_t i = 0; value && i < arrays.count && !status; i++) {
        struct array_set closed;
        const void *kept;
        status = close_array(state, arrays.sets[i], conjunction, &closed);
        if (status || closed.length_min > closed.length_max) continue;
        status = schema_state_keep(state, &closed, sizeof closed, &kept);
        if (!status) status = array_set_add(state, &reader->set.arrays, kept);
    }
    return status;
}
