/* SPDX-License-Identifier: Apache-2.0
 * Cases of schemas: what a schema lets through, what it does not, and why it is refused.
 */
#pragma once

#include "serving/grammar/schema/schema.h"
#include "shape_check.h"
#include "test_case.h"

#define CASE_BYTES ((size_t)48 << 20)

struct schema_case {
    struct arena trees, scratch, kept;
    struct schema_options options;
    struct schema_limits limits;
    const struct shape_program *program;
    struct bytes ignored;
    struct error error;
};

static inline const struct tree *case_tree(struct schema_case *one, const char *text) {
    const struct tree *tree;
    struct error error;
    if (tree_parse(&one->trees, bytes_of(text), text, &tree, &error)) fail_msg("%s", error.text);
    return tree;
}

static inline void case_arenas(struct schema_case *one) {
    static char memory[4 * CASE_BYTES]; /* one case at a time */
    arena_over(&one->trees, memory, CASE_BYTES);
    arena_over(&one->kept, memory + CASE_BYTES, CASE_BYTES);
    arena_over(&one->scratch, memory + 2 * CASE_BYTES, 2 * CASE_BYTES);
}

/* The form {"schema": text}, or `text` as a form itself. */
static inline const struct tree *case_form(struct schema_case *one, const char *text,
                                           bool is_form) {
    case_arenas(one);
    const struct tree *tree = case_tree(one, text);
    struct tree *form = tree_make_object(&one->trees);
    assert_true(tree_set(&one->trees, form, "schema", tree));
    return is_form ? tree : form;
}

static inline enum status case_compile(struct schema_case *one, const char *schema) {
    case_arenas(one);
    if (one->limits.states_max == 0) one->limits = schema_limits_usual;
    return schema_compile(&one->kept, &one->scratch, case_tree(one, schema), &one->options,
                          &one->limits, &one->program, &one->ignored, &one->error);
}

static inline void check_value(const char *schema, const char *value, bool expected) {
    struct schema_case one = {0};
    if (case_compile(&one, schema)) fail_msg("%s: %s", schema, one.error.text);
    if (shape_check(one.program, case_tree(&one, value)) != expected)
        fail_msg("%s %s %s", schema, expected ? "rejects" : "accepts", value);
}

/* As who judges texts reads the schema. */
static inline void check_judged(const char *schema, const char *value, bool expected) {
    struct schema_case one = {.options = {.any_spelling = true}};
    if (case_compile(&one, schema)) fail_msg("%s: %s", schema, one.error.text);
    if (shape_check(one.program, case_tree(&one, value)) != expected)
        fail_msg("%s, judged, %s %s", schema, expected ? "rejects" : "accepts", value);
}

#define judges(schema, value) check_judged((schema), (value), true)
#define accepts(schema, value) check_value((schema), (value), true)
#define rejects(schema, value) check_value((schema), (value), false)

/* Of a schema: JSON lists of values that fulfil it, and of values that do not. */
static inline void holds(const char *schema, const char *accepted, const char *rejected) {
    struct schema_case one = {0};
    if (case_compile(&one, schema)) fail_msg("%s: %s", schema, one.error.text);
    for (int expected = 0; expected < 2; expected++) {
        const struct tree *values = case_tree(&one, expected ? accepted : rejected);
        for (size_t i = 0; i < tree_count(values); i++)
            if (shape_check(one.program, tree_at(values, i)) != expected)
                fail_msg("%s %s value %zu of %s", schema, expected ? "rejects" : "accepts", i,
                         expected ? accepted : rejected);
    }
}

/* `message` is the message's beginning. */
static inline void refuses(const char *schema, enum status expected, const char *message) {
    struct schema_case one = {0};
    enum status status = case_compile(&one, schema);
    if (status != expected) fail_msg("%s: %s: %s", schema, status_name(status), one.error.text);
    if (strncmp(one.error.text, message, strlen(message)) != 0)
        fail_msg("'%s' does not begin with '%s'", one.error.text, message);
}
