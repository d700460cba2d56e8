/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/schema.h"

#include "serving/grammar/schema/schema_keywords.h"
#include "serving/grammar/schema/shape_graph.h"
#include "serving/grammar/schema/value_set.h"

#define KNOWN_MAX 32768 /* entries of the table schema_state.known */

const struct schema_limits schema_limits_usual = {
    .states_max = 65536,
    .steps_max = 50000000,
    .shapes_max = 65536,
    .depth_max = 256,
};

static enum status schema_open_state(struct schema_state *state) {
    enum status status = map_open(&state->known, state->arena, KNOWN_MAX);
    if (!status) status = language_open(&state->languages, &state->work);
    if (status) return state_failed(state, status);
    status = schema_state_room(state, &state->conjunctions, 0, &state->conjunction_capacity,
                               sizeof *state->conjunctions);
    if (!status) status = value_set_open(state);
    if (status) return status;
    state->conjunctions[CONJUNCTION_FALSE] =
        (struct conjunction){.reading = READING_DONE, .set = &state->value_none};
    state->conjunctions[CONJUNCTION_TRUE] =
        (struct conjunction){.reading = READING_DONE, .set = &state->value_any};
    state->conjunction_count = CONJUNCTION_FIXED_COUNT;
    return STATUS_OK;
}

static enum status schema_compile_each(struct schema_state *state, const struct tree *schema,
                                       struct arena *arena, const struct shape_program **out) {
    enum tree_kind kind = tree_kind(schema);
    if (kind != TREE_OBJECT && kind != TREE_TRUE && kind != TREE_FALSE)
        return state_error(state, STATUS_INVALID, "a schema must be an object or a boolean, is %s",
                           tree_kind_name(kind));
    enum status status = schema_open_state(state);
    if (!status) status = schema_refs_collect(state, schema);
    struct subschema subschema = {.tree = schema, .parent = UINT32_MAX};
    uint32_t conjunction, root;
    if (!status) status = schema_state_require(state, &subschema, &conjunction);
    if (status) return status;
    struct shape_graph graph;
    status = shape_graph_grow(&graph, state, conjunction, &root);
    if (!status) status = shape_graph_find_live(&graph);
    if (status) return status;
    state->at = UINT32_MAX;
    state->keyword = NULL;
    if (!node_is_live(&graph, root))
        return state_error(state, STATUS_INVALID, "no value fulfils the schema");
    return shape_build(arena, &graph, root, out);
}

enum status schema_compile(struct arena *arena, struct arena *scratch, const struct tree *schema,
                           const struct schema_options *options, const struct schema_limits *limits,
                           const struct shape_program **out, struct bytes *ignored_out,
                           struct error *error) {
    struct arena kept, passing;
    automaton_split_scratch(scratch, 2, &kept, &passing);
    struct schema_state state = {
        .read = schema_keywords_read,
        .arena = &kept,
        .work = {.arena = &kept,
                 .scratch = &passing,
                 .states_max = limits->states_max,
                 .steps_left = limits->steps_max},
        .limits = limits,
        .options = options,
        .error = error,
        .at = UINT32_MAX,
    };
    enum status status = schema_compile_each(&state, schema, arena, out);
    if (!status && ignored_out) {
        *ignored_out = arena_copy(arena, state.ignored);
        if (!ignored_out->data) status = state_failed(&state, STATUS_NO_MEMORY);
    }
    arena_clear(&passing);
    arena_clear(&kept);
    return status;
}
