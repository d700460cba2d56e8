/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/schema_reader.h"

#include "serving/grammar/automata/automaton_builder.h"

const struct tree *schema_reader_keyword(struct schema_reader *reader, const char *keyword) {
    const struct tree *value = tree_member(reader->tree, keyword);
    if (value) reader->state->keyword = keyword;
    return value;
}

enum status schema_reader_child(struct schema_reader *reader, struct bytes key,
                                const struct tree *tree, uint32_t *conjunction_out) {
    struct schema_state *state = reader->state;
    if (tree_kind(tree) == TREE_TRUE || tree_kind(tree) == TREE_FALSE) {
        *conjunction_out = tree_kind(tree) == TREE_TRUE ? CONJUNCTION_TRUE : CONJUNCTION_FALSE;
        return STATUS_OK;
    }
    if (tree_kind(tree) != TREE_OBJECT)
        return read_wrong_kind(reader, tree, "a schema (an object or a boolean)");
    struct subschema subschema = {
        .tree = tree,
        .resource =
            schema_refs_resource_of(state, tree, state->subschemas[reader->subschema].resource),
        .parent = reader->subschema,
        .keyword = state->keyword,
        .key = key,
    };
    return schema_state_require(state, &subschema, conjunction_out);
}

enum status schema_reader_branch(struct schema_reader *reader, struct bytes key,
                                 const struct tree *tree, struct value_set *out) {
    uint32_t conjunction;
    const struct value_set *set;
    enum status status = schema_reader_child(reader, key, tree, &conjunction);
    if (!status) status = schema_state_conjunction_read(reader->state, conjunction, &set);
    if (!status) *out = *set;
    return status;
}

enum status schema_reader_count(struct schema_reader *reader, const char *keyword, uint32_t *out) {
    const struct tree *value = schema_reader_keyword(reader, keyword);
    double number;
    if (!value) return STATUS_OK;
    if (!tree_get_number(value, &number)) return read_wrong_kind(reader, value, "a number");
    if (number < 0) return state_error(reader->state, STATUS_INVALID, "must not be below 0");
    *out = number < (double)UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    if (number < (double)UINT32_MAX && (double)*out != number)
        return state_error(reader->state, STATUS_INVALID, "must be a whole number");
    return STATUS_OK;
}

uint32_t schema_reader_sort(uint32_t *words, uint32_t count) {
    uint32_t kept = 0;
    automaton_builder_sort(words, count, 1);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || words[kept - 1] != words[i]) words[kept++] = words[i];
    return kept;
}
