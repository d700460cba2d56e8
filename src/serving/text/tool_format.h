/* SPDX-License-Identifier: Apache-2.0
 * The formats of tool calls in the output of models, and a request's tools with the parts that
 * parsing needs. The format of a model is detected from the source of its chat template:
 *
 *   DEEPSEEK_V3    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME, a newline,
 *                  ARGS in a ```json fence, <｜tool▁call▁end｜>... <｜tool▁calls▁end｜>   (R1 too)
 *   DEEPSEEK_V31   the same marks around NAME<｜tool▁sep｜>ARGS
 *   DEEPSEEK_V32   <｜DSML｜function_calls><｜DSML｜invoke name="NAME"><｜DSML｜parameter name="P"
 *                  string="true|false">VALUE</｜DSML｜parameter>... (V4: tool_calls)
 *   HERMES         <tool_call>{"name": NAME, "arguments": ARGS}</tool_call>; and Qwen3-Coder's
 *                  <tool_call><function=NAME><parameter=P>VALUE</parameter>...
 *   KIMI           <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:INDEX
 *                  <|tool_call_argument_begin|>ARGS<|tool_call_end|>...
 *   GLM            <tool_call>NAME<arg_key>P</arg_key><arg_value>VALUE</arg_value>...</tool_call>,
 *                  until GLM-4.6 with a newline behind the name and each of the tags that end
 *   LLAMA          {"name": NAME, "parameters": ARGS}; ... at the content's start, or anywhere
 *                  after <|python_tag|>
 *   MISTRAL        [TOOL_CALLS][{"name": NAME, "arguments": ARGS}, ...], or
 *                  [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]ARGS
 */
#pragma once

#include "base/arena.h"
#include "base/tree.h"

enum tool_format {
    TOOL_FORMAT_DEEPSEEK_V3,
    TOOL_FORMAT_DEEPSEEK_V31,
    TOOL_FORMAT_DEEPSEEK_V32,
    TOOL_FORMAT_HERMES,
    TOOL_FORMAT_KIMI,
    TOOL_FORMAT_GLM,
    TOOL_FORMAT_LLAMA,
    TOOL_FORMAT_MISTRAL,
    TOOL_FORMAT_COUNT
};

/* The format with marks that occur in a chat template's source, or DEEPSEEK_V31 if none occur. */
enum tool_format tool_format_of(struct bytes template_source);

/* True if the text of a special token is a mark of the format or part of one. The parser then
 * receives it as text. */
bool tool_format_has_mark(enum tool_format format, struct bytes token_text);

/* The tools of a request. The set is immutable, and the request's answers share it. */
struct tool_set {
    enum tool_format format;
    uint32_t count;
    const struct tool {
        struct bytes name;
        uint32_t string_count;
        const struct bytes *strings; /* [string_count] parameters with a schema of type "string" */
    } * tools;                       /* [count] */
};

/* Reads the "tools" array of OpenAI's chat API, which the caller has validated. Elements of another
 * shape are skipped. Copies the required parts into `arena`. Returns STATUS_NO_MEMORY if the arena
 * is too small. */
enum status tool_format_set_open(struct arena *arena, enum tool_format format,
                                 const struct tree *tools, const struct tool_set **out,
                                 struct error *error) MUST_USE;

/* The tool of that name, or NULL. */
const struct tool *tool_format_set_find(const struct tool_set *set, struct bytes name);

/* True if the schema allows only strings and null, and at least strings. */
bool tool_format_is_string(const struct tree *schema);

/* True if the schema declares this parameter as a string. `tool` may be NULL. */
bool tool_format_takes_string(const struct tool *tool, struct bytes parameter);
