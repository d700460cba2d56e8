/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_constraint.h"

#include "base/check.h"
#include "base/format.h"
#include "base/tree_extent.h"

/* Reads a value that is not null. `field` is its name in errors and in struct api_constraint, a
 * literal. */
typedef bool constraint_reader(struct api_reader *reader, const char *field,
                               const struct tree *value, struct api_request *out);

struct constraint_field {
    const char *name; /* name in the object that contains it */
    constraint_reader *read;
    const char *field; /* name in errors; NULL: `name` */
};

/* ---- forms ---- */

/* Sets the constraint to the form {"KEY": VALUE}. */
static bool api_constraint_bind(struct api_reader *reader, const char *field, const char *key,
                                const struct tree *value, struct api_request *out) {
    struct api_constraint *constraint = &out->constraint;
    struct tree *form = tree_make_object(reader->arena);
    if (!form || !tree_set(reader->arena, form, key, value)) return api_reader_no_memory(reader);
    bool ordered = out->strict_order && bytes_equal(bytes_of(key), BYTES_LITERAL("schema"));
    if (ordered && !tree_set(reader->arena, form, "in_order", tree_make_bool(true)))
        return api_reader_no_memory(reader);
    struct bytes text = tree_text(reader->arena, form);
    if (!text.data) return api_reader_no_memory(reader);
    if (constraint->field && !bytes_equal(constraint->form, text))
        return api_error_set(reader->error, 400, field, "invalid_value",
                             "'%s' and '%s' say different things about what the answer has to be.",
                             constraint->field, field);
    *constraint = (struct api_constraint){.form = text, .field = field};
    return true;
}

/* ---- schemas ---- */

/* Parses a schema in a string. It has the same limits as a body. */
static bool parse_schema(struct api_reader *reader, const char *field, struct bytes text,
                         const struct tree **out) {
    static const struct tree_extent most = {{[TREE_PART_DEPTH] = LIMIT_BODY_DEPTH,
                                             [TREE_PART_KEYS] = LIMIT_BODY_KEYS,
                                             [TREE_PART_INTEGERS] = LIMIT_BODY_INTEGERS,
                                             [TREE_PART_VALUES] = LIMIT_BODY_VALUES}};
    struct tree_extent found;
    struct error reason;
    enum tree_part part = tree_extent_measure(text, &most, &found);
    if (part != TREE_PART_COUNT)
        return api_error_set(reader->error, 413, field, "request_too_large",
                             "'%s' has more than %zu %s; that is the limit.", field,
                             most.counts[part], tree_extent_part_name(part));
    enum status status = tree_parse(reader->arena, text, field, out, &reason);
    if (status == STATUS_NO_MEMORY) return api_reader_no_memory(reader);
    return !status || api_error_set(reader->error, 400, field, "invalid_json", "%s", reason.text);
}

static bool is_schema(const struct tree *value) {
    enum tree_kind kind = tree_kind(value);
    return kind == TREE_OBJECT || kind == TREE_TRUE || kind == TREE_FALSE;
}

/* Reads a schema: an object, or a string of JSON. */
static bool api_constraint_read_schema(struct api_reader *reader, const char *field,
                                       const struct tree *value, struct api_request *out) {
    const struct tree *schema = value;
    struct bytes text;
    if (tree_get_string(value, &text) && !parse_schema(reader, field, text, &schema)) return false;
    if (!is_schema(schema))
        return api_reader_wrong_type(reader, field, "a JSON schema: an object", schema);
    return api_constraint_bind(reader, field, "schema", schema, out);
}

static bool bind_any_object(struct api_reader *reader, const char *field, struct api_request *out) {
    struct tree *schema = tree_make_object(reader->arena);
    struct tree *type = tree_make_string(reader->arena, BYTES_LITERAL("object"));
    if (!schema || !tree_set(reader->arena, schema, "type", type))
        return api_reader_no_memory(reader);
    return api_constraint_bind(reader, field, "schema", schema, out);
}

static bool read_json_object(struct api_reader *reader, const char *field, const struct tree *value,
                             struct api_request *out) {
    bool asked;
    if (!tree_get_bool(value, &asked))
        return api_reader_wrong_type(reader, field, "a boolean", value);
    return !asked || bind_any_object(reader, field, out);
}

bool api_constraint_read_format(struct api_reader *reader, const char *field,
                                const struct tree *format, struct api_request *out) {
    if (api_reader_is_type(format, "text")) return true;
    bool any = api_reader_is_type(format, "json_object");
    if (!any && !api_reader_is_type(format, "json_schema"))
        return api_reader_refuse_type(reader, field, format);
    const struct tree *holder = api_reader_given(format, "json_schema");
    if (holder && tree_kind(holder) != TREE_OBJECT)
        return api_reader_needs(reader, field, "an object 'json_schema'");
    const struct tree *schema = api_reader_given(holder ? holder : format, "schema");
    if (!schema && any) return bind_any_object(reader, field, out);
    if (!schema || !is_schema(schema))
        return api_reader_needs(reader, field,
                                holder ? "an object 'json_schema.schema'" : "an object 'schema'");
    return api_constraint_bind(reader, field, "schema", schema, out);
}

bool api_constraint_read_plain(struct api_reader *reader, const char *field,
                               const struct tree *format, struct api_request *out) {
    struct bytes text;
    if (api_reader_is(format, "json")) return bind_any_object(reader, field, out);
    if (tree_get_string(format, &text) && text.count == 0) return true;
    return api_constraint_read_schema(reader, field, format, out);
}

/* ---- other texts ---- */

/* Reads a pattern or grammar. An empty text means no constraint. */
static bool api_constraint_read_text(struct api_reader *reader, const char *field, const char *key,
                                     const struct tree *value, struct api_request *out) {
    struct bytes text;
    if (!tree_get_string(value, &text))
        return api_reader_wrong_type(reader, field, "a string", value);
    return text.count == 0 || api_constraint_bind(reader, field, key, value, out);
}

static bool api_constraint_read_regex(struct api_reader *reader, const char *field,
                                      const struct tree *value, struct api_request *out) {
    return api_constraint_read_text(reader, field, "regex", value, out);
}

static bool read_grammar(struct api_reader *reader, const char *field, const struct tree *value,
                         struct api_request *out) {
    return api_constraint_read_text(reader, field, "gbnf", value, out);
}

static bool api_constraint_read_choice(struct api_reader *reader, const char *field,
                                       const struct tree *value, struct api_request *out) {
    struct bytes text;
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, field, "an array of strings", value);
    if (tree_count(value) == 0)
        return api_error_set(reader->error, 400, field, "invalid_value",
                             "'%s' is empty: no answer could be one of its texts.", field);
    for (size_t i = 0; i < tree_count(value); i++)
        if (!tree_get_string(tree_at(value, i), &text))
            return api_reader_wrong_type(reader, field, "an array of strings", tree_at(value, i));
    return api_constraint_bind(reader, field, "choice", value, out);
}

/* ---- fields ---- */

static bool read_each(struct api_reader *reader, const struct tree *object,
                      const struct constraint_field *fields, size_t count,
                      struct api_request *out) {
    for (size_t i = 0; i < count; i++) {
        const struct tree *value = api_reader_given(object, fields[i].name);
        const char *field = fields[i].field ? fields[i].field : fields[i].name;
        if (value && !fields[i].read(reader, field, value, out)) return false;
    }
    return true;
}

static const struct constraint_field outputs[] = {
    {"json", api_constraint_read_schema, "structured_outputs.json"},
    {"json_object", read_json_object, "structured_outputs.json_object"},
    {"regex", api_constraint_read_regex, "structured_outputs.regex"},
    {"choice", api_constraint_read_choice, "structured_outputs.choice"},
    {"grammar", read_grammar, "structured_outputs.grammar"},
};

/* There is only one backend, so there is no fallback to disable. */
#define OUTPUTS_NEUTRAL "disable_fallback"

static bool read_outputs(struct api_reader *reader, const char *field, const struct tree *value,
                         struct api_request *out) {
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *member;
    if (tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, field, "an object", value);
    while (tree_next_member(value, &cursor, &name, &member)) {
        bool known = bytes_equal(name, BYTES_LITERAL(OUTPUTS_NEUTRAL));
        for (size_t i = 0; i < ARRAY_COUNT(outputs); i++)
            known |= bytes_equal(name, bytes_of(outputs[i].name));
        if (known || api_reader_is_neutral(member, NULL)) continue;
        struct api_place place;
        format_text(place.text, sizeof place.text, "%s.%.*s", field,
                    name.count < 40 ? (int)name.count : 40, name.data);
        return api_reader_unsupported(reader, place.text,
                                      "use 'json', 'json_object', 'regex', 'choice' or 'grammar'.");
    }
    return read_each(reader, value, outputs, ARRAY_COUNT(outputs), out);
}

bool api_constraint_read(struct api_reader *reader, struct api_request *out) {
    static const struct constraint_field fields[] = {
        {"response_format", api_constraint_read_format, NULL},
        {"structured_outputs", read_outputs, NULL},
        {"guided_json", api_constraint_read_schema, NULL},
        {"guided_regex", api_constraint_read_regex, NULL},
        {"guided_choice", api_constraint_read_choice, NULL},
        {"guided_grammar", read_grammar, NULL},
        {"json_schema", api_constraint_read_schema, NULL},
        {"regex", api_constraint_read_regex, NULL},
        {"ebnf", read_grammar, NULL},
        {"grammar", read_grammar, NULL},
    };
    return read_each(reader, reader->root, fields, ARRAY_COUNT(fields), out);
}
