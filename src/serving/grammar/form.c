/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/form.h"

#include "serving/grammar/grammar_program.h"

/* The form's only keyword; `in_order` only says more of a schema. */
static enum status read_keyword(const struct tree *form, struct bytes *keyword_out,
                                const struct tree **value_out, struct error *error) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *value;
    if (tree_kind(form) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "a form must be an object, is %s",
                         tree_kind_name(tree_kind(form)));
    *keyword_out = (struct bytes){"", 0};
    while (tree_next_member(form, &cursor, &key, &value)) {
        if (bytes_equal(key, BYTES_LITERAL("in_order"))) continue;
        if (keyword_out->count)
            return error_set(error, STATUS_INVALID, "a form has one keyword, found %.*s and %.*s",
                             (int)keyword_out->count, keyword_out->data, (int)key.count, key.data);
        *keyword_out = key;
        *value_out = value;
    }
    return keyword_out->count ? STATUS_OK
                              : error_set(error, STATUS_INVALID, "a form has one keyword: schema");
}

enum status form_compile(struct arena *arena, struct arena *scratch, const struct tree *form,
                         const struct tokenizer *tokenizer, const struct schema_limits *limits,
                         const struct grammar_program **out, struct error *error) {
    struct bytes keyword;
    const struct tree *value = NULL;
    struct schema_options options = {.in_order = false};
    enum status status = read_keyword(form, &keyword, &value, error);
    (void)tokenizer;
    if (status) return status;
    if (!bytes_equal(keyword, BYTES_LITERAL("schema")))
        return error_set(error, STATUS_UNSUPPORTED, "%.*s: expected schema", (int)keyword.count,
                         keyword.data);
    const struct tree *in_order = tree_member(form, "in_order");
    if (in_order && !tree_get_bool(in_order, &options.in_order))
        return error_set(error, STATUS_INVALID, "in_order: must be true or false");
    struct grammar_program *program = arena_take(arena, sizeof *program);
    if (!program) return error_set(error, STATUS_NO_MEMORY, "schema: no memory");
    status = schema_compile(arena, scratch, value, &options, limits, &program->shapes, NULL, error);
    if (!status) *out = program;
    return status;
}
