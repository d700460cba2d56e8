/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/tool_format.h"

#include "base/check.h"

#define MARKS_MAX 8

/* ---- formats ---- */

/* Marks that may be special tokens, or contain one. */
static const char *const marks[TOOL_FORMAT_COUNT][MARKS_MAX] = {
    [TOOL_FORMAT_DEEPSEEK_V3] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                 "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V31] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                  "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V32] = {"<｜DSML｜", "</｜DSML｜"},
    [TOOL_FORMAT_HERMES] = {"<tool_call>", "</tool_call>"},
    [TOOL_FORMAT_KIMI] = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>",
                          "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                          "<|tool_call_end|>", "<|tool_calls_section_end|>",
                          "<|tool_call_section_end|>"},
    [TOOL_FORMAT_GLM] = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                         "</arg_value>"},
    [TOOL_FORMAT_LLAMA] = {"<|python_tag|>"},
    [TOOL_FORMAT_MISTRAL] = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
};

enum tool_format tool_format_of(struct bytes template_source) {
    static const struct {
        const char *mark;
        enum tool_format format;
    } signs[] = {
        {"｜DSML｜", TOOL_FORMAT_DEEPSEEK_V32},
        {"<｜tool▁calls▁begin｜>", TOOL_FORMAT_DEEPSEEK_V31},
        {"<|tool_call_begin|>", TOOL_FORMAT_KIMI},
        {"<|im_middle|>", TOOL_FORMAT_KIMI}, /* the first template leaves out calls */
        {"<arg_key>", TOOL_FORMAT_GLM},
        {"[TOOL_CALLS]", TOOL_FORMAT_MISTRAL},
        {"<tool_call>", TOOL_FORMAT_HERMES},
        {"<|python_tag|>", TOOL_FORMAT_LLAMA},
        {"<|start_header_id|>", TOOL_FORMAT_LLAMA},
    };
    size_t i = 0;
    while (i < ARRAY_COUNT(signs) && !bytes_contain(template_source, bytes_of(signs[i].mark)))
        i++;
    enum tool_format format = i < ARRAY_COUNT(signs) ? signs[i].format : TOOL_FORMAT_DEEPSEEK_V31;
    bool fenced = format == TOOL_FORMAT_DEEPSEEK_V31 && i < ARRAY_COUNT(signs) &&
                  bytes_contain(template_source, BYTES_LITERAL("```json"));
    return fenced ? TOOL_FORMAT_DEEPSEEK_V3 : format;
}

bool tool_format_has_mark(enum tool_format format, struct bytes token_text) {
    if (token_text.count == 0) return false;
    for (size_t i = 0; i < MARKS_MAX && marks[format][i]; i++)
        if (bytes_contain(bytes_of(marks[format][i]), token_text)) return true;
    return false;
}

/* ---- the tools of a request ---- */

#define SCHEMA_DEPTH_MAX 8 /* limit of nested choices; deeper ones do not count as strings */

/* True if a type is "string" or "null". Sets *found if it is "string". */
static bool names_string(const struct tree *type, bool *found) {
    struct bytes name;
    if (!tree_get_string(type, &name)) return false;
    *found |= bytes_equal(name, BYTES_LITERAL("string"));
    return bytes_equal(name, BYTES_LITERAL("string")) || bytes_equal(name, BYTES_LITERAL("null"));
}

/* True if the schema allows only strings and null. Sets *found if it allows strings. */
static bool allows_strings_only(const struct tree *schema, uint32_t depth, bool *found) {
    const struct tree *type = tree_member(schema, "type"), *choices = tree_member(schema, "anyOf");
    if (!choices) choices = tree_member(schema, "oneOf");
    if (type && tree_kind(type) == TREE_STRING) return names_string(type, found);
    const struct tree *list = type ? type : choices;
    for (size_t i = 0; i < tree_count(list); i++) {
        const struct tree *one = tree_at(list, i);
        bool only = type ? names_string(one, found)
                         : depth > 0 && allows_strings_only(one, depth - 1, found);
        if (!only) return false;
    }
    return tree_count(list) > 0;
}

bool tool_format_is_string(const struct tree *schema) {
    bool found = false;
    return allows_strings_only(schema, SCHEMA_DEPTH_MAX, &found) && found;
}

/* Copies the names of string parameters. Returns false if the arena is too small. */
static bool open_strings(struct arena *arena, const struct tree *properties, struct tool *tool) {
    struct bytes key;
    const struct tree *schema;
    uint32_t count = 0;
    for (struct tree_cursor at = {NULL}; tree_next_member(properties, &at, &key, &schema);)
        count += tool_format_is_string(schema);
    struct bytes *strings = arena_take(arena, count * sizeof *strings + 1);
    if (!strings) return false;
    for (struct tree_cursor at = {NULL}; tree_next_member(properties, &at, &key, &schema);) {
        if (!tool_format_is_string(schema)) continue;
        strings[tool->string_count] = arena_copy(arena, key);
        if (!strings[tool->string_count++].data) return false;
    }
    tool->strings = strings;
    return true;
}

enum status tool_format_set_open(struct arena *arena, enum tool_format format,
                                 const struct tree *tools, const struct tool_set **out,
                                 struct error *error) {
    struct tool_set *set = arena_take_zeroed(arena, sizeof *set);
    struct tool *list = arena_take_zeroed(arena, tree_count(tools) * sizeof *list + 1);
    bool fits = set && list;
    for (size_t i = 0; fits && i < tree_count(tools); i++) {
        const struct tree *function = tree_member(tree_at(tools, i), "function");
        const struct tree *parameters = tree_member(function, "parameters");
        struct bytes name;
        if (!tree_get_string(tree_member(function, "name"), &name)) continue;
        struct tool *tool = &list[set->count++];
        tool->name = arena_copy(arena, name);
        fits = tool->name.data && open_strings(arena, tree_member(parameters, "properties"), tool);
    }
    if (!fits)
        return error_set(error, STATUS_NO_MEMORY, "no memory is left for the table of %zu tools",
                         tree_count(tools));
    set->format = format;
    set->tools = list;
    *out = set;
    return STATUS_OK;
}

const struct tool *tool_format_set_find(const struct tool_set *set, struct bytes name) {
    for (uint32_t i = 0; i < set->count; i++)
        if (bytes_equal(set->tools[i].name, name)) return &set->tools[i];
    return NULL;
}

bool tool_format_takes_string(const struct tool *tool, struct bytes parameter) {
    for (uint32_t i = 0; tool && i < tool->string_count; i++)
        if (bytes_equal(tool->strings[i], parameter)) return true;
    return false;
}
