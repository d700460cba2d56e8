/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/form.h"

#include "base/check.h"
#include "serving/grammar/automata/regex_tree.h"
#include "serving/grammar/rules/gbnf.h"
#include "serving/grammar/rules/grammar_builder.h"
#include "serving/grammar/schema/shape_join.h"

#define SCHEMA_STEPS_MIN 2000000 /* lower limit for each of several schemas */

struct reader {
    struct arena *arena;
    struct arena kept, passing; /* two parts of the scratch arena */
    struct automaton_work work;
    struct grammar_builder builder;
    const struct tokenizer *tokenizer;
    struct schema_limits limits; /* for each schema */
    struct error *error;
    const struct shape_program **values; /* the compiled schemas */
    uint32_t value_count, value_capacity;
    uint32_t depth;
};

static enum status read_form(struct reader *reader, const struct tree *form, uint32_t *out);

/* ---- parts of forms ---- */

static enum status form_expect(struct reader *reader, const char *keyword, const char *expected,
                               const struct tree *found) {
    return error_set(reader->error, STATUS_INVALID, "%s: expected %s, found %s", keyword, expected,
                     found ? tree_name(found) : "nothing");
}

static enum status form_read_text(struct reader *reader, const char *keyword,
                                  const struct tree *value, struct bytes *out) {
    return tree_get_string(value, out) ? STATUS_OK
                                       : form_expect(reader, keyword, "a string", value);
}

static enum status form_read_count(struct reader *reader, const struct tree *form,
                                   const char *keyword, uint32_t *out) {
    const struct tree *value = tree_member(form, keyword);
    int64_t count = 0;
    if (!value) return STATUS_OK;
    if (!tree_get_integer(value, &count) || count < 0 || count >= UINT32_MAX)
        return form_expect(reader, keyword, "a whole number from 0 on", value);
    *out = (uint32_t)count;
    return STATUS_OK;
}

/* ---- values ---- */

static enum status form_read_schema(struct reader *reader, const struct tree *form,
                                    const struct tree *schema, uint32_t *out) {
    struct schema_options options = {.in_order = false};
    const struct shape_program *program = NULL;
    const struct tree *in_order = tree_member(form, "in_order");
    if (in_order && !tree_get_bool(in_order, &options.in_order))
        return form_expect(reader, "in_order", "true or false", in_order);
    const struct tree *any_spelling = tree_member(form, "any_spelling");
    if (any_spelling && !tree_get_bool(any_spelling, &options.any_spelling))
        return form_expect(reader, "any_spelling", "true or false", any_spelling);
    enum status status = schema_compile(reader->arena, &reader->passing, schema, &options,
                                        &reader->limits, &program, NULL, reader->error);
    if (status) return status;
    error_set(reader->error, STATUS_TOO_LARGE, "schema: too many of them");
    if (!arena_reserve(&reader->kept, &reader->values, reader->value_count, &reader->value_capacity,
                       sizeof *reader->values))
        return STATUS_NO_MEMORY;
    reader->values[reader->value_count++] = program;
    return grammar_builder_symbol(&reader->builder, RULE_VALUE, reader->value_count - 1, out);
}

/* Allows a single \n before the value, because some models start their answer with one. */
static enum status add_line_end(struct reader *reader, uint32_t value, uint32_t *out) {
    struct grammar_builder *builder = &reader->builder;
    uint32_t line_end = 0;
    enum status status =
        regex_tree_add_set(&builder->tree, &(struct code_range){'\n', '\n'}, 1, &line_end);
    if (!status) status = grammar_builder_repeat(builder, line_end, 0, 1, &line_end);
    if (!status) status = regex_tree_wait(&builder->tree, line_end);
    if (!status) status = regex_tree_wait(&builder->tree, value);
    if (!status)
        status =
            regex_tree_gather(&builder->tree, REGEX_SEQUENCE, builder->tree.waiting_count - 2, out);
    return status;
}

/* Joins the shapes of all schemas into one program, and makes the symbols refer to them. */
static enum status join_values(struct reader *reader, const struct shape_program **out) {
    uint32_t *roots = arena_take(&reader->kept, (reader->value_count + 1) * sizeof *roots);
    if (!roots) return STATUS_NO_MEMORY;
    enum status status = STATUS_OK;
    if (reader->value_count == 1) {
        *out = reader->values[0];
        roots[0] = reader->values[0]->root;
    } else {
        status = shape_join(reader->arena, reader->values, reader->value_count, roots, out);
    }
    for (size_t i = 0; !status && i < reader->builder.symbol_count; i++)
        if (reader->builder.symbols[i].kind == RULE_VALUE)
            reader->builder.symbols[i].subject = roots[reader->builder.symbols[i].subject];
    return status;
}

/* ---- texts ---- */

static enum status form_read_regex(struct reader *reader, const struct tree *value, uint32_t *out) {
    struct automaton_work *work = &reader->work;
    struct bytes pattern;
    struct regex regex;
    struct error error = {"its automaton is too large"};
    struct builder_rule rule = {.body = RULE_NONE};
    uint32_t number = 0;
    enum status status = form_read_text(reader, "regex", value, &pattern);
    if (status) return status;
    status = regex_tree_parse(work, pattern, REGEX_ECMA, &regex, &error);
    if (!status) status = regex_dfa_make(work, &regex, regex.root, &rule.automaton);
    arena_clear(work->scratch);
    if (status) return error_set(reader->error, status, "regex: %s", error.text);
    if (!rule.automaton->start)
        return error_set(reader->error, STATUS_INVALID, "regex: no text matches");
    status = grammar_builder_add_rule(&reader->builder, &rule, &number);
    return status ? status : grammar_builder_reference(&reader->builder, number, out);
}

static enum status form_read_choice(struct reader *reader, const struct tree *value,
                                    uint32_t *out) {
    uint32_t base = reader->builder.tree.waiting_count;
    if (tree_count(value) == 0) return form_expect(reader, "choice", "a list of strings", value);
    for (size_t i = 0; i < tree_count(value); i++) {
        struct bytes text;
        uint32_t node = 0;
        enum status status = form_read_text(reader, "choice", tree_at(value, i), &text);
        if (!status) status = grammar_builder_text(&reader->builder, text, &node);
        if (!status) status = regex_tree_wait(&reader->builder.tree, node);
        if (status) return status;
    }
    return regex_tree_gather(&reader->builder.tree, REGEX_ALTERNATE, base, out);
}

static enum status read_gbnf(struct reader *reader, const struct tree *value, uint32_t *out) {
    struct bytes text;
    enum status status = form_read_text(reader, "gbnf", value, &text);
    return status ? status
                  : gbnf_read(&reader->builder, text, reader->tokenizer, out, reader->error);
}

static enum status form_read_token(struct reader *reader, const struct tree *value, uint32_t *out) {
    struct bytes text;
    uint32_t token = 0;
    enum status status = form_read_text(reader, "token", value, &text);
    if (status) return status;
    if (!reader->tokenizer || !tokenizer_find_added(reader->tokenizer, text, &token))
        return error_set(reader->error, STATUS_INVALID,
                         "token: the tokenizer has no added token '%.*s'", (int)text.count,
                         text.data);
    return grammar_builder_symbol(&reader->builder, RULE_TOKEN, token, out);
}

/* ---- forms of forms ---- */

static enum status read_forms(struct reader *reader, const char *keyword, enum regex_kind kind,
                              const struct tree *value, uint32_t *out) {
    uint32_t base = reader->builder.tree.waiting_count;
    if (tree_kind(value) != TREE_ARRAY || (kind == REGEX_ALTERNATE && tree_count(value) == 0))
        return form_expect(reader, keyword, "a list of forms", value);
    for (size_t i = 0; i < tree_count(value); i++) {
        uint32_t node = 0;
        enum status status = read_form(reader, tree_at(value, i), &node);
        if (!status) status = regex_tree_wait(&reader->builder.tree, node);
        if (status) return status;
    }
    return regex_tree_gather(&reader->builder.tree, kind, base, out);
}

static enum status read_repeat(struct reader *reader, const struct tree *form,
                               const struct tree *value, uint32_t *out) {
    uint32_t node = 0, least = 0, most = REGEX_UNBOUNDED;
    enum status status = form_read_count(reader, form, "least", &least);
    if (!status) status = form_read_count(reader, form, "most", &most);
    if (!status && most < least)
        status = error_set(reader->error, STATUS_INVALID, "most: %u is less than least, %u", most,
                           least);
    if (!status) status = read_form(reader, value, &node);
    return status ? status : grammar_builder_repeat(&reader->builder, node, least, most, out);
}

/* Finds the form's keyword. The keywords in `further` only modify it. */
static enum status form_read_keyword(struct reader *reader, const struct tree *form,
                                     struct bytes *keyword_out, const struct tree **value_out) {
    static const char *const further[] = {"in_order", "any_spelling", "least", "most"};
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *value;
    if (tree_kind(form) != TREE_OBJECT)
        return error_set(reader->error, STATUS_INVALID, "a form must be an object, is %s",
                         tree_name(form));
    *keyword_out = (struct bytes){"", 0};
    while (tree_next_member(form, &cursor, &key, &value)) {
        bool says_more = false;
        for (size_t i = 0; i < ARRAY_COUNT(further); i++)
            says_more |= bytes_equal(key, bytes_of(further[i]));
        if (says_more) continue;
        if (keyword_out->count)
            return error_set(reader->error, STATUS_INVALID,
                             "a form has one keyword, found %.*s and %.*s", (int)keyword_out->count,
                             keyword_out->data, (int)key.count, key.data);
        *keyword_out = key;
        *value_out = value;
    }
    if (keyword_out->count) return STATUS_OK;
    return error_set(reader->error, STATUS_INVALID,
                     "a form has one keyword: schema, regex, choice, gbnf, text, token, sequence, "
                     "any or repeat");
}

static enum status form_read_kind(struct reader *reader, const struct tree *form,
                                  struct bytes keyword, const struct tree *value, uint32_t *out) {
    struct bytes text;
    enum status status;
    if (bytes_equal(keyword, BYTES_LITERAL("schema")))
        return form_read_schema(reader, form, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("regex"))) return form_read_regex(reader, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("choice"))) return form_read_choice(reader, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("gbnf"))) return read_gbnf(reader, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("token"))) return form_read_token(reader, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("repeat"))) return read_repeat(reader, form, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("sequence")))
        return read_forms(reader, "sequence", REGEX_SEQUENCE, value, out);
    if (bytes_equal(keyword, BYTES_LITERAL("any")))
        return read_forms(reader, "any", REGEX_ALTERNATE, value, out);
    if (!bytes_equal(keyword, BYTES_LITERAL("text")))
        return error_set(reader->error, STATUS_INVALID, "%.*s: is not a keyword of a form",
                         (int)keyword.count, keyword.data);
    status = form_read_text(reader, "text", value, &text);
    return status ? status : grammar_builder_text(&reader->builder, text, out);
}

static enum status read_form(struct reader *reader, const struct tree *form, uint32_t *out) {
    struct bytes keyword;
    const struct tree *value = NULL;
    enum status status = form_read_keyword(reader, form, &keyword, &value);
    if (status) return status;
    if (++reader->depth > reader->limits.depth_max)
        return error_set(reader->error, STATUS_TOO_LARGE,
                         "%.*s: forms are nested more than %u deep", (int)keyword.count,
                         keyword.data, reader->limits.depth_max);
    reader->error->text[0] = 0;
    status = form_read_kind(reader, form, keyword, value, out);
    reader->depth--;
    if (status && !reader->error->text[0])
        return error_set(reader->error, status, "%.*s: %s", (int)keyword.count, keyword.data,
                         status == STATUS_NO_MEMORY ? "no memory" : "the form is too large");
    return status;
}

/* ---- compiling ---- */

static size_t count_schemas(const struct tree *form, uint32_t depth_left) {
    size_t count = tree_member(form, "schema") != NULL;
    const struct tree *parts[] = {tree_member(form, "sequence"), tree_member(form, "any")};
    const struct tree *repeated = tree_member(form, "repeat");
    if (depth_left == 0) return count;
    for (size_t p = 0; p < ARRAY_COUNT(parts); p++)
        for (size_t i = 0; i < tree_count(parts[p]); i++)
            count += count_schemas(tree_at(parts[p], i), depth_left - 1);
    return repeated ? count + count_schemas(repeated, depth_left - 1) : count;
}

static enum status form_compile_each(struct reader *reader, const struct tree *form,
                                     const struct grammar_program **out) {
    const struct shape_program *shapes = NULL;
    struct builder_rule root = {.line = 0};
    uint32_t rule = 0;
    enum status status = read_form(reader, form, &root.body);
    if (status) return status;
    if (tree_member(form, "schema")) status = add_line_end(reader, root.body, &root.body);
    if (!status) rule = rule_of_node(&reader->builder, root.body);
    if (!status && rule == RULE_NONE)
        status = grammar_builder_add_rule(&reader->builder, &root, &rule);
    if (!status) status = join_values(reader, &shapes);
    if (status) return error_set(reader->error, status, "the form is too large");
    return grammar_compile(reader->arena, &reader->builder, rule, shapes, out, reader->error);
}

enum status form_compile(struct arena *arena, struct arena *scratch, const struct tree *form,
                         const struct tokenizer *tokenizer, const struct schema_limits *limits,
                         const struct grammar_program **out, struct error *error) {
    struct reader reader = {
        .arena = arena, .tokenizer = tokenizer, .limits = *limits, .error = error};
    size_t schemas = count_schemas(form, limits->depth_max);
    /* a quarter is for the rules' trees, the rest for single DFAs */
    automaton_split_scratch(scratch, 1, &reader.kept, &reader.passing);
    reader.work = (struct automaton_work){.arena = &reader.kept,
                                          .scratch = &reader.passing,
                                          .states_max = limits->states_max,
                                          .steps_left = limits->steps_max};
    grammar_builder_open(&reader.builder, &reader.work);
    if (schemas > 1 && limits->steps_max > SCHEMA_STEPS_MIN) {
        uint64_t share = limits->steps_max / schemas;
        reader.limits.steps_max = share > SCHEMA_STEPS_MIN ? share : SCHEMA_STEPS_MIN;
    }
    enum status status = form_compile_each(&reader, form, out);
    arena_clear(&reader.passing);
    arena_clear(&reader.kept);
    return status;
}
