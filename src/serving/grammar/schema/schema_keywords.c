/* SPDX-License-Identifier: Apache-2.0
 * Reads the keywords of a schema, and conjunctions of schemas. Keywords that restrict the kinds of
 * values most are read first. The others are skipped if no value of their kind is left.
 */
#include "serving/grammar/schema/schema_keywords.h"

#include "serving/grammar/schema/value_set.h"

static bool add_kind(struct schema_state *state, const struct tree *name, struct value_set *all) {
    struct bytes text;
    if (!tree_get_string(name, &text)) return false;
    if (bytes_equal(text, BYTES_LITERAL("null"))) {
        all->bits |= SHAPE_NULL;
    } else if (bytes_equal(text, BYTES_LITERAL("boolean"))) {
        all->bits |= SHAPE_TRUE | SHAPE_FALSE;
    } else if (bytes_equal(text, BYTES_LITERAL("string"))) {
        all->string = LANGUAGE_TEXT;
    } else if (bytes_equal(text, BYTES_LITERAL("number")) ||
               bytes_equal(text,
                           BYTES_LITERAL("integer"))) { /* schema_scalars.c distinguishes them */
        all->number = state->number_any;
    } else if (bytes_equal(text, BYTES_LITERAL("array"))) {
        all->arrays = state->value_any.arrays;
    } else if (bytes_equal(text, BYTES_LITERAL("object"))) {
        all->objects = state->value_any.objects;
    } else {
        return false;
    }
    return true;
}

static enum status read_type(struct schema_reader *reader) {
    const struct tree *type = schema_reader_keyword(reader, "type");
    if (!type) return STATUS_OK;
    struct value_set all = reader->state->value_none;
    bool known = tree_kind(type) == TREE_ARRAY || add_kind(reader->state, type, &all);
    for (size_t i = 0; i < tree_count(type) && known; i++)
        known = add_kind(reader->state, tree_at(type, i), &all);
    if (!known)
        return state_error(reader->state, STATUS_INVALID,
                           "must be null, boolean, integer, number, string, array or object, or a "
                           "list of them");
    return value_set_and(reader->state, &reader->set, &all, &reader->set);
}

static enum status keep_ref(struct schema_reader *reader, struct bytes reference) {
    uint32_t subschema, conjunction;
    const struct value_set *set;
    enum status status = schema_refs_find(reader->state, reader->subschema, reference, &subschema);
    if (status) return status;
    const struct tree *tree = reader->state->subschemas[subschema].tree;
    if (tree_kind(tree) != TREE_OBJECT && tree_kind(tree) != TREE_TRUE &&
        tree_kind(tree) != TREE_FALSE)
        return read_wrong_kind(reader, tree, "the address of a schema");
    uint32_t literal = 2 * subschema;
    status = schema_state_conjunction(reader->state, &literal, 1, &conjunction);
    if (!status) status = schema_state_conjunction_read(reader->state, conjunction, &set);
    return status ? status : value_set_and(reader->state, &reader->set, set, &reader->set);
}

/* $dynamicRef and $recursiveRef are supported where they cannot be redirected from elsewhere. */
static enum status read_dynamic_refs(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    struct bytes reference;
    const struct tree *value = schema_reader_keyword(reader, "$dynamicRef");
    enum status status = STATUS_OK;
    if (value) {
        if (!tree_get_string(value, &reference)) return read_wrong_kind(reader, value, "a string");
        const char *mark = reference.count ? memchr(reference.data, '#', reference.count) : NULL;
        struct bytes name = {mark ? mark + 1 : "", 0};
        if (mark) name.count = (size_t)(reference.data + reference.count - name.data);
        uint32_t dynamic = 0;
        for (uint32_t i = 0; i < state->anchor_count; i++)
            dynamic += state->anchors[i].dynamic && bytes_equal(state->anchors[i].name, name);
        if (dynamic > 1)
            return state_error(state, STATUS_UNSUPPORTED,
                               "cannot hold a reference that may lead to several places");
        status = keep_ref(reader, reference);
    }
    value = schema_reader_keyword(reader, "$recursiveRef");
    if (status || !value) return status;
    if (state->resource_count > 1)
        return state_error(state, STATUS_UNSUPPORTED,
                           "cannot hold a reference that may lead to several places");
    if (!tree_get_string(value, &reference)) return read_wrong_kind(reader, value, "a string");
    return keep_ref(reader, reference);
}

/* Reads $ref and allOf. */
static enum status read_all_of(struct schema_reader *reader) {
    struct bytes reference;
    const struct tree *value = schema_reader_keyword(reader, "$ref");
    enum status status = STATUS_OK;
    if (value) {
        if (!tree_get_string(value, &reference)) return read_wrong_kind(reader, value, "a string");
        status = keep_ref(reader, reference);
    }
    if (!status) status = read_dynamic_refs(reader);
    value = schema_reader_keyword(reader, "allOf");
    if (status || !value) return status;
    if (tree_kind(value) != TREE_ARRAY) return read_wrong_kind(reader, value, "an array");
    for (size_t i = 0; i < tree_count(value) && !status; i++) {
        struct value_set part;
        status = schema_reader_branch(reader, (struct bytes){0}, tree_at(value, i), &part);
        if (!status) status = value_set_and(reader->state, &reader->set, &part, &reader->set);
    }
    return status;
}

static enum status read_any_of(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    const struct tree *value = schema_reader_keyword(reader, "anyOf");
    if (!value) return STATUS_OK;
    if (tree_kind(value) != TREE_ARRAY) return read_wrong_kind(reader, value, "an array");
    struct value_set all = state->value_none, part, both;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < tree_count(value) && !status; i++) {
        status = schema_reader_branch(reader, (struct bytes){0}, tree_at(value, i), &part);
        /* If a value satisfies two branches, both evaluate its members, so more are allowed. */
        if (!status && state->unevaluated) {
            status = value_set_and(state, &all, &part, &both);
            if (!status) status = value_set_or(state, &all, &both, &all);
        }
        if (!status) status = value_set_or(state, &all, &part, &all);
    }
    return status ? status : value_set_and(state, &reader->set, &all, &reader->set);
}

static enum status read_one_of(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    const struct tree *list = schema_reader_keyword(reader, "oneOf");
    if (!list) return STATUS_OK;
    if (tree_kind(list) != TREE_ARRAY) return read_wrong_kind(reader, list, "an array");
    size_t count = tree_count(list);
    struct value_set *parts = arena_take(state->arena, count * sizeof *parts);
    if (!parts) return state_failed(state, STATUS_NO_MEMORY);
    struct value_set all = state->value_none;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = schema_reader_branch(reader, (struct bytes){0}, tree_at(list, i), &parts[i]);
    for (size_t i = 0; i < count && !status; i++) {
        struct value_set alone;
        status = value_set_and(state, &reader->set, &parts[i], &alone);
        for (size_t k = 0; k < count && !status; k++)
            if (k != i) status = value_set_without(state, &alone, &parts[k], &alone);
        if (!status) status = value_set_or(state, &all, &alone, &all);
    }
    if (!status) reader->set = all;
    return status;
}

static enum status read_not(struct schema_reader *reader) {
    const struct tree *value = schema_reader_keyword(reader, "not");
    if (!value) return STATUS_OK;
    struct value_set part;
    enum status status = schema_reader_branch(reader, (struct bytes){0}, value, &part);
    return status ? status : value_set_without(reader->state, &reader->set, &part, &reader->set);
}

static enum status read_if(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    const struct tree *condition = schema_reader_keyword(reader, "if"), *branch;
    if (!condition || reader->draft < DRAFT_7) return STATUS_OK;
    if (!tree_member(reader->tree, "then") && !tree_member(reader->tree, "else") &&
        !state->unevaluated)
        return STATUS_OK;
    struct value_set met, missed, part;
    enum status status = schema_reader_branch(reader, (struct bytes){0}, condition, &part);
    if (!status) status = value_set_and(state, &reader->set, &part, &met);
    if (!status) status = value_set_without(state, &reader->set, &part, &missed);
    if (!status && (branch = schema_reader_keyword(reader, "then"))) {
        status = schema_reader_branch(reader, (struct bytes){0}, branch, &part);
        if (!status) status = value_set_and(state, &met, &part, &met);
    }
    if (!status && (branch = schema_reader_keyword(reader, "else"))) {
        status = schema_reader_branch(reader, (struct bytes){0}, branch, &part);
        if (!status) status = value_set_and(state, &missed, &part, &missed);
    }
    return status ? status : value_set_or(state, &met, &missed, &reader->set);
}

static enum status read_keywords(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    struct bytes reference;
    const struct tree *ref = tree_member(reader->tree, "$ref");
    if (tree_get_string(ref, &reference) &&
        reader->draft < DRAFT_2019_09) { /* other keywords are ignored */
        state->keyword = "$ref";
        return keep_ref(reader, reference);
    }
    static enum status (*const readers[])(struct schema_reader *) = {
        read_type,
        schema_constant_read_constants,
        schema_scalars_read_scalars,
        schema_containers_read_arrays,
        schema_containers_read_objects,
        read_all_of,
        read_any_of,
        read_if,
        read_one_of,
        read_not,
        schema_containers_read_unevaluated,
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof readers / sizeof *readers && !status; i++)
        status = readers[i](reader);
    return status;
}

static enum status read_subschema_tree(struct schema_state *state, uint32_t subschema,
                                       struct value_set *out) {
    struct schema_reader reader = {
        .state = state,
        .subschema = subschema,
        .tree = state->subschemas[subschema].tree,
        .draft = state->resources[state->subschemas[subschema].resource].draft,
        .set = state->value_any,
    };
    enum status status = schema_state_spend(state, 8);
    if (!status && state->subschemas[subschema].constant)
        status = schema_constant_read_constant(&reader, reader.tree, &reader.set);
    else if (!status && tree_kind(reader.tree) == TREE_FALSE)
        reader.set = state->value_none;
    else if (!status && tree_kind(reader.tree) == TREE_OBJECT)
        status = read_keywords(&reader);
    if (!status) *out = reader.set;
    return status;
}

/* ---- conjunctions ---- */

static enum status read_subschema(struct schema_state *state, uint32_t subschema,
                                  struct value_set *out) {
    if (state->subschemas[subschema].reading == READING_DONE) {
        *out = state->subschemas[subschema].set;
        return STATUS_OK;
    }
    if (state->subschemas[subschema].reading == READING_UNDER_WAY)
        return state_error(state, STATUS_INVALID,
                           "leads back to itself before any value; a recursion needs a property "
                           "or an item in between");
    if (state->depth >= state->limits->depth_max)
        return state_error(state, STATUS_TOO_LARGE, "is nested more than %u deep",
                           state->limits->depth_max);
    uint32_t at = state->at;
    const char *keyword = state->keyword;
    state->subschemas[subschema].reading = READING_UNDER_WAY;
    state->at = subschema;
    state->keyword = NULL;
    state->depth++;
    enum status status = read_subschema_tree(state, subschema, out);
    state->depth--;
    state->at = at;
    state->keyword = keyword;
    state->subschemas[subschema].reading = status ? READING_NOT_BEGUN : READING_DONE;
    if (!status) state->subschemas[subschema].set = *out;
    return status;
}

enum status schema_keywords_read(struct schema_state *state, uint32_t conjunction,
                                 struct value_set *out) {
    *out = state->value_any;
    for (int contrary = 0; contrary < 2; contrary++) {
        for (uint32_t i = 0; i < state->conjunctions[conjunction].count; i++) {
            uint32_t literal = state->conjunctions[conjunction].literals[i];
            if ((int)(literal & 1) != contrary) continue;
            struct value_set part;
            enum status status = read_subschema(state, literal / 2, &part);
            if (!status && contrary) status = value_set_without(state, out, &part, out);
            if (!status && !contrary) status = value_set_and(state, out, &part, out);
            if (status) return status;
        }
    }
    return STATUS_OK;
}
