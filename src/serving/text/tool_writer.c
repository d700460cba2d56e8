/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/tool_writer.h"

#include "base/check.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "serving/text/tool_cursor.h"

static const char *const definition_names[] = {"$defs", "definitions"};

/* A form being built. After memory runs out, nothing more is added. */
struct call_writer {
    struct arena *arena;
    const struct tool_wish *wish;
    bool failed;
    size_t pair_bytes; /* text of all pairs */
    /* of the current tool */
    bool narrows;                                                  /* limits definitions, too */
    const struct tree *definitions[ARRAY_COUNT(definition_names)]; /* of pairs; NULL: none */
    struct tree *required; /* of pairs: an object with the names of required properties */
};

static bool is_added(const struct tokenizer *tokenizer, const char *text) {
    uint32_t id;
    return tokenizer && tokenizer_find_added(tokenizer, bytes_of(text), &id);
}

/* ---- parts of forms ---- */

static void tool_writer_set(struct call_writer *writer, struct tree *object, const char *key,
                            const struct tree *value) {
    if (!tree_set(writer->arena, object, key, value)) writer->failed = true;
}

static void add(struct call_writer *writer, struct tree *list, const struct tree *value) {
    if (!tree_append(writer->arena, list, value)) writer->failed = true;
}

static struct tree *new_form(struct call_writer *writer, const char *key,
                             const struct tree *value) {
    struct tree *form = tree_make_object(writer->arena);
    tool_writer_set(writer, form, key, value);
    return form;
}

static struct tree *new_text(struct call_writer *writer, const char *key, struct bytes text) {
    return new_form(writer, key, tree_make_string(writer->arena, text));
}

static void tool_writer_add_text(struct call_writer *writer, struct tree *list, const char *text) {
    add(writer, list, new_text(writer, "text", bytes_of(text)));
}

static void add_mark(struct call_writer *writer, struct tree *list, const char *mark) {
    const char *key = is_added(writer->wish->tokenizer, mark) ? "token" : "text";
    add(writer, list, new_text(writer, key, bytes_of(mark)));
}

/* Adds a tag of V3.2. Its ends may be NULL. */
static void add_tag(struct call_writer *writer, struct tree *list, const char *opening,
                    const char *rest) {
    if (opening) tool_writer_add_text(writer, list, opening);
    add_mark(writer, list, "｜DSML｜");
    if (rest) tool_writer_add_text(writer, list, rest);
}

/* Adds `form`, repeated `least` to `most` times; most 0: unlimited. */
static void add_repeated(struct call_writer *writer, struct tree *list, const struct tree *form,
                         uint32_t least, uint32_t most) {
    struct tree *repeat = new_form(writer, "repeat", form);
    tool_writer_set(writer, repeat, "least", tree_make_integer(writer->arena, least));
    if (most) tool_writer_set(writer, repeat, "most", tree_make_integer(writer->arena, most));
    add(writer, list, repeat);
}

/* Adds an optional newline, which models of one format write or leave out. */
static void add_newline(struct call_writer *writer, struct tree *list) {
    add_repeated(writer, list, new_text(writer, "text", BYTES_LITERAL("\n")), 0, 1);
}

static void tool_writer_add_all(struct call_writer *writer, struct tree *list,
                                const struct tree *forms) {
    for (size_t i = 0; i < tree_count(forms); i++)
        add(writer, list, tree_at(forms, i));
}

/* ---- arguments ---- */

bool tool_writer_is_strict(const struct tree *tool) {
    bool strict = false;
    return tree_get_bool(tree_member(tree_member(tool, "function"), "strict"), &strict) && strict;
}

static struct tree *new_object_schema(struct call_writer *writer) {
    return new_form(writer, "type", tree_make_string(writer->arena, BYTES_LITERAL("object")));
}

/* A zero-terminated copy; NULL if memory is out or the text has a zero byte, which no key has. */
static const char *copy_name(struct call_writer *writer, struct bytes text) {
    char *name = arena_take_zeroed(writer->arena, text.count + 1);
    if (name && text.count) memcpy(name, text.data, text.count);
    if (!name) writer->failed = true;
    return name && strlen(name) == text.count ? name : NULL;
}

/* Sets a member with a key of another object. */
static void set_copied(struct call_writer *writer, struct tree *object, struct bytes key,
                       const struct tree *value) {
    const char *name = copy_name(writer, key);
    if (name) tool_writer_set(writer, object, name, value);
}

/* Restricts the schema to objects, as arguments must be. */
static const struct tree *only_objects(struct call_writer *writer, const struct tree *schema) {
    struct tree_cursor cursor = {0};
    struct bytes key, type;
    const struct tree *value;
    if (tree_get_string(tree_member(schema, "type"), &type) &&
        bytes_equal(type, BYTES_LITERAL("object")))
        return schema;
    struct tree *only = new_object_schema(writer);
    while (tree_next_member(schema, &cursor, &key, &value))
        if (!bytes_equal(key, BYTES_LITERAL("type"))) set_copied(writer, only, key, value);
    return only;
}

/* True if all members have one of these names. */
static bool has_only(const struct tree *object, const char *const *names) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    while (tree_next_member(object, &cursor, &key, &value)) {
        size_t i = 0;
        while (names[i] && !bytes_equal(key, bytes_of(names[i])))
            i++;
        if (!names[i]) return false;
    }
    return true;
}

/* True if each required property is one that the schema lists. */
static bool lists_required(struct call_writer *writer, const struct tree *schema) {
    const struct tree *required = tree_member(schema, "required");
    const struct tree *properties = tree_member(schema, "properties");
    struct bytes text;
    bool lists = true;
    for (size_t i = 0; i < tree_count(required) && lists; i++) {
        lists = tree_get_string(tree_at(required, i), &text);
        const char *name = lists ? copy_name(writer, text) : NULL;
        lists = name && tree_member(properties, name);
    }
    return lists;
}

/* True if each object of the schema may accept less without making another one accept more or
 * nothing: no keyword negates or counts schemas, and references and anyOf stand alone. */
static bool may_narrow(const struct tree *schema) {
    static const char *const others[] = {"allOf",
                                         "oneOf",
                                         "not",
                                         "if",
                                         "contains",
                                         "dependencies",
                                         "dependentSchemas",
                                         "propertyNames",
                                         "unevaluatedItems",
                                         "unevaluatedProperties",
                                         "$dynamicRef",
                                         "$recursiveRef"};
    static const char *const alone[] = {"$ref",        "anyOf",   "type",     "title",
                                        "description", "default", "examples", "$defs",
                                        "definitions", "$schema", NULL};
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    bool narrows = true;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        narrows = narrows && !tree_member(schema, others[i]);
    bool refers = tree_member(schema, "$ref") != NULL,
         chooses = tree_member(schema, "anyOf") != NULL;
    if (refers || chooses) narrows = narrows && refers != chooses && has_only(schema, alone);
    if (tree_kind(schema) == TREE_ARRAY)
        for (size_t i = 0; narrows && i < tree_count(schema); i++)
            narrows = may_narrow(tree_at(schema, i));
    if (tree_kind(schema) == TREE_OBJECT)
        while (narrows && tree_next_member(schema, &cursor, &key, &value))
            narrows = may_narrow(value);
    return narrows;
}

static const struct tree *only_listed(struct call_writer *writer, const struct tree *schema);

/* Each schema of an object of them, with only the listed properties. */
static const struct tree *each_listed(struct call_writer *writer, const struct tree *schemas) {
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *one;
    if (tree_kind(schemas) != TREE_OBJECT) return schemas;
    struct tree *parts = tree_make_object(writer->arena);
    while (tree_next_member(schemas, &cursor, &name, &one))
        set_copied(writer, parts, name, only_listed(writer, one));
    return parts;
}

/* Limits objects to the properties that their schema lists, also those in properties, items, anyOf
 * and, where writer->narrows, in definitions. A schema that says more, such as additionalProperties
 * or allOf, stays as it is: with its properties alone it might accept nothing. */
static const struct tree *only_listed(struct call_writer *writer, const struct tree *schema) {
    static const char *const plain[] = {"type",        "properties", "required", "items",
                                        "minItems",    "maxItems",   "anyOf",    "title",
                                        "description", "default",    "examples", "$schema",
                                        "definitions", "$defs",      NULL};
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    if (tree_kind(schema) != TREE_OBJECT || !has_only(schema, plain) ||
        !lists_required(writer, schema))
        return schema;
    bool lists = tree_member(schema, "properties") != NULL;
    if (lists && tree_member(schema, "anyOf")) return schema;
    struct tree *closed = tree_make_object(writer->arena);
    while (tree_next_member(schema, &cursor, &key, &value)) {
        struct tree *parts = NULL;
        if (bytes_equal(key, BYTES_LITERAL("items"))) value = only_listed(writer, value);
        if (bytes_equal(key, BYTES_LITERAL("anyOf")) && tree_kind(value) == TREE_ARRAY) {
            parts = tree_make_array(writer->arena);
            for (size_t i = 0; i < tree_count(value); i++)
                add(writer, parts, only_listed(writer, tree_at(value, i)));
        }
        bool defines = bytes_equal(key, BYTES_LITERAL("$defs")) ||
                       bytes_equal(key, BYTES_LITERAL("definitions"));
        if (bytes_equal(key, BYTES_LITERAL("properties")) || (defines && writer->narrows))
            value = each_listed(writer, value);
        set_copied(writer, closed, key, parts ? parts : value);
    }
    if (lists) tool_writer_set(writer, closed, "additionalProperties", tree_make_bool(false));
    return closed;
}

static const struct tree *tool_writer_parameters_of(const struct tree *tool) {
    const struct tree *schema = tree_member(tree_member(tool, "function"), "parameters");
    return schema && !tree_is_null(schema) ? schema : NULL;
}

static bool tool_writer_is_held(const struct call_writer *writer, const struct tree *tool) {
    return writer->wish->holds_all || tool_writer_is_strict(tool);
}

/* The part of a held tool's schema that is enforced. A strict tool's stays as it is. */
static const struct tree *held_schema(struct call_writer *writer, const struct tree *tool,
                                      const struct tree *schema) {
    return tool_writer_is_strict(tool) ? schema : only_listed(writer, schema);
}

/* A tool without parameters accepts no arguments. */
static void add_json(struct call_writer *writer, struct tree *list, const struct tree *tool) {
    const struct tree *parameters = tool_writer_parameters_of(tool), *schema;
    struct tree *any = new_object_schema(writer);
    if (!parameters) tool_writer_set(writer, any, "additionalProperties", tree_make_bool(false));
    schema = any;
    if (parameters && tool_writer_is_held(writer, tool))
        schema = held_schema(writer, tool, only_objects(writer, parameters));
    struct tree *form = new_form(writer, "schema", schema);
    if (writer->wish->in_order) tool_writer_set(writer, form, "in_order", tree_make_bool(true));
    add(writer, list, form);
}

/* ---- arguments that are pairs ---- */

static bool writes_pairs(enum tool_format format) {
    return format == TOOL_FORMAT_DEEPSEEK_V32 || format == TOOL_FORMAT_GLM;
}

static bool is_required(struct call_writer *writer, struct bytes name) {
    const char *key = copy_name(writer, name);
    return key && tree_member(writer->required, key);
}

bool tool_writer_holds(enum tool_format format, const struct tree *tool) {
    static const char *const of_objects[] = {
        "type",  "properties",  "required", "additionalProperties",
        "title", "description", "$schema",  "definitions",
        "$defs", NULL};
    static const char *const of_strings[] = {"type",    "enum",     "title", "description",
                                             "default", "examples", NULL};
    const struct tree *parameters = tool_writer_parameters_of(tool), *value;
    const struct tree *properties = tree_member(parameters, "properties");
    const struct tree *required = tree_member(parameters, "required");
    struct tree_cursor cursor = {0};
    struct bytes name;
    if (!writes_pairs(format) || !parameters) return true;
    if (!has_only(parameters, of_objects)) return false;
    while (tree_next_member(properties, &cursor, &name, &value)) {
        if (!tool_cursor_is_name(name)) return false;
        if (tool_format_is_string(value) && !has_only(value, of_strings)) return false;
    }
    for (size_t i = 0; i < tree_count(required); i++) {
        char key[TOOL_NAME_BYTES_MAX + 1] = "";
        if (!tree_get_string(tree_at(required, i), &name) || !tool_cursor_is_name(name))
            return false;
        memcpy(key, name.data, name.count);
        if (!tree_member(properties, key)) return false;
    }
    return true;
}

/* Adds any text without the end of a value, which is "</" and `third`. If that end contains a
 * token, adds any text. */
static void tool_writer_add_plain(struct call_writer *writer, struct tree *list, const char *mark,
                                  const char *third) {
    char pattern[96];
    format_text(pattern, sizeof pattern, "([^<]|<(<|/<)*([^</]|/[^<%s]))*(<(<|/<)*/?)?", third);
    const char *any = is_added(writer->wish->tokenizer, mark) ? "[\\s\\S]*" : pattern;
    add(writer, list, new_text(writer, "regex", bytes_of(any)));
}

/* Adds an unescaped string: one that its schema lists, or any. */
static void add_string(struct call_writer *writer, struct tree *list, const struct tree *schema) {
    const struct tree *values = tree_member(schema, "enum");
    struct tree *choice = tree_make_array(writer->arena);
    struct bytes text;
    for (size_t i = 0; i < tree_count(values); i++)
        if (tree_get_string(tree_at(values, i), &text)) add(writer, choice, tree_at(values, i));
    if (tree_count(choice) > 0)
        add(writer, list, new_form(writer, "choice", choice));
    else if (writer->wish->format == TOOL_FORMAT_GLM)
        tool_writer_add_plain(writer, list, "</arg_value>", "a");
    else
        tool_writer_add_plain(writer, list, "｜DSML｜", "｜");
}

/* Adds the values of a tool's parameters. References point to the adjacent definitions. */
static void tool_writer_add_value(struct call_writer *writer, struct tree *list,
                                  const struct tree *schema) {
    struct tree *whole = tree_make_object(writer->arena), *parts = tree_make_array(writer->arena);
    bool refers = false;
    for (size_t i = 0; i < ARRAY_COUNT(definition_names); i++) {
        const struct tree *definitions = writer->definitions[i];
        if (definitions) tool_writer_set(writer, whole, definition_names[i], definitions);
        refers |= definitions != NULL;
    }
    add(writer, parts, schema);
    tool_writer_set(writer, whole, "allOf", parts);
    struct tree *form = new_form(writer, "schema", refers ? whole : schema);
    if (writer->wish->in_order) tool_writer_set(writer, form, "in_order", tree_make_bool(true));
    add(writer, list, form);
}

static struct tree *new_pair(struct call_writer *writer, const struct tree *tool, struct bytes name,
                             const struct tree *schema) {
    struct tree *pair = tree_make_array(writer->arena);
    bool held = tool_writer_is_held(writer, tool), glm = writer->wish->format == TOOL_FORMAT_GLM;
    bool string = tool_format_is_string(schema);
    if (glm) {
        add_mark(writer, pair, "<arg_key>");
        add(writer, pair, new_text(writer, "text", name));
        add_mark(writer, pair, "</arg_key>");
        add_newline(writer, pair);
        add_mark(writer, pair, "<arg_value>");
    } else {
        add_tag(writer, pair, "<", "parameter name=\"");
        add(writer, pair, new_text(writer, "text", name));
        tool_writer_add_text(writer, pair, string ? "\" string=\"true\">" : "\" string=\"false\">");
    }
    if (string)
        add_string(writer, pair, held ? schema : NULL);
    else
        tool_writer_add_value(writer, pair,
                              held ? held_schema(writer, tool, schema) : tree_make_bool(true));
    if (glm) {
        add_mark(writer, pair, "</arg_value>");
        add_newline(writer, pair);
    } else {
        add_tag(writer, pair, "</", "parameter>\n");
    }
    return new_form(writer, "sequence", pair);
}

/* Prepares what all pairs of a tool share, so that each pair costs only its own size. */
static void open_pairs(struct call_writer *writer, const struct tree *parameters) {
    const struct tree *required = tree_member(parameters, "required");
    const struct tree *yes = tree_make_bool(true);
    struct bytes name;
    for (size_t i = 0; i < ARRAY_COUNT(definition_names); i++) {
        const struct tree *definitions = tree_member(parameters, definition_names[i]);
        if (definitions && writer->narrows) definitions = each_listed(writer, definitions);
        writer->definitions[i] = definitions;
    }
    writer->required = tree_make_object(writer->arena);
    for (size_t i = 0; i < tree_count(required); i++)
        if (tree_get_string(tree_at(required, i), &name))
            set_copied(writer, writer->required, name, yes);
}

/* Ends early once the form is too large for a constraint, so that its size and time are bounded. */
static void tool_writer_add_pairs(struct call_writer *writer, struct tree *list,
                                  const struct tree *tool) {
    const struct tree *parameters = tool_writer_parameters_of(tool), *schema;
    struct tree_cursor cursor = {0};
    struct bytes name;
    open_pairs(writer, parameters);
    while (writer->pair_bytes <= LIMIT_CONSTRAINT_BYTES &&
           tree_next_member(tree_member(parameters, "properties"), &cursor, &name, &schema)) {
        if (!tool_cursor_is_name(name)) continue; /* not possible in a pair */
        const struct tree *pair = new_pair(writer, tool, name, schema);
        struct json_writer counter = {0};
        if (pair) tree_write(&counter, pair);
        writer->pair_bytes += counter.count;
        if (tool_writer_is_held(writer, tool) && is_required(writer, name))
            add(writer, list, pair);
        else
            add_repeated(writer, list, pair, 0, 1);
    }
}

/* ---- names ---- */

/* A name, a separator, and arguments that fit the name. */
static const struct tree *named_call(struct call_writer *writer, const struct tree *tool,
                                     const struct tree *between) {
    struct tree *parts = tree_make_array(writer->arena);
    struct bytes name = {"", 0};
    check(tree_get_string(tree_member(tree_member(tool, "function"), "name"), &name));
    const struct tree *parameters = tool_writer_parameters_of(tool);
    writer->narrows = parameters && tool_writer_is_held(writer, tool) &&
                      !tool_writer_is_strict(tool) && may_narrow(parameters);
    add(writer, parts, new_text(writer, "text", name));
    tool_writer_add_all(writer, parts, between);
    if (writes_pairs(writer->wish->format))
        tool_writer_add_pairs(writer, parts, tool);
    else
        add_json(writer, parts, tool);
    return new_form(writer, "sequence", parts);
}

static void add_named_calls(struct call_writer *writer, struct tree *list,
                            const struct tree *between) {
    const struct tool_wish *wish = writer->wish;
    struct tree *calls = tree_make_array(writer->arena);
    for (size_t i = 0; i < tree_count(wish->tools); i++)
        if (!wish->named || wish->named[i])
            add(writer, calls, named_call(writer, tree_at(wish->tools, i), between));
    add(writer, list, tree_count(calls) == 1 ? tree_at(calls, 0) : new_form(writer, "any", calls));
}

/* ---- calls ---- */

/* Adds one call, or one or more. These are separated by `between`. If that is NULL, a newline may
 * follow each call instead. */
static void tool_writer_add_calls(struct call_writer *writer, struct tree *list, struct tree *call,
                                  const char *between) {
    if (writer->wish->single) {
        tool_writer_add_all(writer, list, call);
    } else if (!between) {
        add_newline(writer, call);
        add_repeated(writer, list, new_form(writer, "sequence", call), 1, 0);
    } else {
        struct tree *next = tree_make_array(writer->arena);
        tool_writer_add_text(writer, next, between);
        tool_writer_add_all(writer, next, call);
        tool_writer_add_all(writer, list, call);
        add_repeated(writer, list, new_form(writer, "sequence", next), 0, 0);
    }
}

static void write_deepseek(struct call_writer *writer, bool fenced, struct tree *list) {
    struct tree *call = tree_make_array(writer->arena), *between = tree_make_array(writer->arena);
    add_mark(writer, call, "<｜tool▁call▁begin｜>");
    if (fenced) tool_writer_add_text(writer, call, "function");
    if (fenced) add_mark(writer, call, "<｜tool▁sep｜>");
    if (fenced)
        tool_writer_add_text(writer, between, "\n```json\n");
    else
        add_mark(writer, between, "<｜tool▁sep｜>");
    add_named_calls(writer, call, between);
    if (fenced) tool_writer_add_text(writer, call, "\n```");
    add_mark(writer, call, "<｜tool▁call▁end｜>");
    if (!writer->wish->from_mark) add_mark(writer, list, "<｜tool▁calls▁begin｜>");
    tool_writer_add_calls(writer, list, call, NULL);
    add_mark(writer, list, "<｜tool▁calls▁end｜>");
}

/* Adds the tag around all calls of V3.2 or V4. */
static void add_section(struct call_writer *writer, struct tree *list, const char *opening) {
    struct tree *names = tree_make_array(writer->arena);
    add(writer, names, tree_make_string(writer->arena, BYTES_LITERAL("function_calls>")));
    add(writer, names, tree_make_string(writer->arena, BYTES_LITERAL("tool_calls>")));
    add_tag(writer, list, opening, NULL);
    add(writer, list, new_form(writer, "choice", names));
}

static void write_dsml(struct call_writer *writer, struct tree *list) {
    struct tree *call = tree_make_array(writer->arena), *between = tree_make_array(writer->arena);
    add_tag(writer, call, "<", "invoke name=\"");
    tool_writer_add_text(writer, between, "\">\n");
    add_named_calls(writer, call, between);
    add_newline(writer, call); /* a call without parameters has an empty line in their place */
    add_tag(writer, call, "</", "invoke>");
    if (!writer->wish->from_mark) {
        /* V3.2 has an empty line before its calls. */
        add_newline(writer, list);
        add_newline(writer, list);
    }
    add_section(writer, list, writer->wish->from_mark ? NULL : "<");
    tool_writer_add_text(writer, list, "\n");
    tool_writer_add_calls(writer, list, call, NULL);
    add_section(writer, list, "</");
}

static void write_glm(struct call_writer *writer, struct tree *list) {
    struct tree *call = tree_make_array(writer->arena), *between = tree_make_array(writer->arena);
    add_mark(writer, call, "<tool_call>");
    add_newline(writer, between);
    add_named_calls(writer, call, between);
    add_mark(writer, call, "</tool_call>");
    tool_writer_add_calls(writer, list, call, NULL);
}

static void write_kimi(struct call_writer *writer, struct tree *list) {
    struct tree *call = tree_make_array(writer->arena), *between = tree_make_array(writer->arena);
    add_mark(writer, call, "<|tool_call_begin|>");
    tool_writer_add_text(writer, call, "functions.");
    add(writer, between, new_text(writer, "regex", BYTES_LITERAL(":(0|[1-9][0-9]{0,3})")));
    add_mark(writer, between, "<|tool_call_argument_begin|>");
    add_named_calls(writer, call, between);
    add_mark(writer, call, "<|tool_call_end|>");
    if (!writer->wish->from_mark) add_mark(writer, list, "<|tool_calls_section_begin|>");
    tool_writer_add_calls(writer, list, call, NULL);
    add_mark(writer, list, "<|tool_calls_section_end|>");
}

/* {"name": "NAME", "arguments": ARGUMENTS} */
static void add_object(struct call_writer *writer, struct tree *call, const char *arguments) {
    struct tree *between = tree_make_array(writer->arena);
    tool_writer_add_text(writer, call, "{\"name\": \"");
    tool_writer_add_text(writer, between, arguments);
    add_named_calls(writer, call, between);
    tool_writer_add_text(writer, call, "}");
}

static void write_hermes(struct call_writer *writer, struct tree *list) {
    struct tree *call = tree_make_array(writer->arena);
    add_mark(writer, call, "<tool_call>");
    tool_writer_add_text(writer, call, "\n");
    add_object(writer, call, "\", \"arguments\": ");
    tool_writer_add_text(writer, call, "\n");
    add_mark(writer, call, "</tool_call>");
    tool_writer_add_calls(writer, list, call, NULL);
}

static void write_llama(struct call_writer *writer, struct tree *list) {
    struct tree *call = tree_make_array(writer->arena);
    add_object(writer, call, "\", \"parameters\": ");
    tool_writer_add_calls(writer, list, call, "; ");
}

/* Adds an optional id for a call. */
static void add_call_id(struct call_writer *writer, struct tree *list) {
    struct tree *id = tree_make_array(writer->arena);
    add_mark(writer, id, "[CALL_ID]");
    add(writer, id, new_text(writer, "regex", BYTES_LITERAL("[a-zA-Z0-9]{9}")));
    add_repeated(writer, list, new_form(writer, "sequence", id), 0, 1);
}

static void write_mistral(struct call_writer *writer, struct tree *list) {
    const struct tokenizer *tokenizer = writer->wish->tokenizer;
    struct tree *call = tree_make_array(writer->arena), *between = tree_make_array(writer->arena);
    if (is_added(tokenizer, "[ARGS]")) {
        add_mark(writer, call, "[TOOL_CALLS]");
        if (is_added(tokenizer, "[CALL_ID]")) add_call_id(writer, between);
        add_mark(writer, between, "[ARGS]");
        add_named_calls(writer, call, between);
        tool_writer_add_calls(writer, list, call, NULL);
        return;
    }
    add_mark(writer, list, "[TOOL_CALLS]");
    tool_writer_add_text(writer, list, "[");
    add_object(writer, call, "\", \"arguments\": ");
    tool_writer_add_calls(writer, list, call, ", ");
    tool_writer_add_text(writer, list, "]");
}

bool tool_writer_mark(enum tool_format format, const struct tokenizer *tokenizer,
                      struct bytes *out) {
    static const char *const marks[TOOL_FORMAT_COUNT] = {
        [TOOL_FORMAT_DEEPSEEK_V3] = "<｜tool▁call▁begin｜>",
        [TOOL_FORMAT_DEEPSEEK_V31] = "<｜tool▁call▁begin｜>",
        [TOOL_FORMAT_DEEPSEEK_V32] = "｜DSML｜",
        [TOOL_FORMAT_HERMES] = "<tool_call>",
        [TOOL_FORMAT_GLM] = "<tool_call>",
        [TOOL_FORMAT_KIMI] = "<|tool_call_begin|>",
        [TOOL_FORMAT_MISTRAL] = "[TOOL_CALLS]",
    };
    if (!marks[format] || !is_added(tokenizer, marks[format])) return false;
    *out = bytes_of(marks[format]);
    return true;
}

const struct tree *tool_writer_form(struct arena *arena, const struct tool_wish *wish) {
    struct call_writer writer = {.arena = arena, .wish = wish};
    struct tree *list = tree_make_array(arena);
    switch (wish->format) {
    case TOOL_FORMAT_DEEPSEEK_V3:
    case TOOL_FORMAT_DEEPSEEK_V31:
        write_deepseek(&writer, wish->format == TOOL_FORMAT_DEEPSEEK_V3, list);
        break;
    case TOOL_FORMAT_KIMI:
        write_kimi(&writer, list);
        break;
    case TOOL_FORMAT_HERMES:
        write_hermes(&writer, list);
        break;
    case TOOL_FORMAT_LLAMA:
        write_llama(&writer, list);
        break;
    case TOOL_FORMAT_DEEPSEEK_V32:
        write_dsml(&writer, list);
        break;
    case TOOL_FORMAT_GLM:
        write_glm(&writer, list);
        break;
    case TOOL_FORMAT_MISTRAL:
    case TOOL_FORMAT_COUNT:
        write_mistral(&writer, list);
        break;
    }
    const struct tree *form = new_form(&writer, "sequence", list);
    return writer.failed ? NULL : form;
}
