/* SPDX-License-Identifier: Apache-2.0
 * Writes the constraint of an answer's tool calls: a form (serving/grammar/rules/form.h) of calls
 * in the model's format (tool_format.h), so that tool_parser.h finds a call of a tool, with valid
 * arguments, in any text that satisfies the form. Marks that are added tokens of the model's
 * tokenizer are tokens in the form; others are text.
 *
 * Of Hermes' two formats only JSON is written; of Mistral's, the one with marks that the tokenizer
 * has. If arguments are pairs instead of JSON (V3.2, GLM), parameters are in the order of their
 * schema, and strings are unescaped.
 */
#pragma once

#include "serving/text/tokenizer.h"
#include "serving/text/tool_format.h"

struct tool_wish {
    enum tool_format format;
    const struct tokenizer *tokenizer; /* NULL: there are no added tokens */
    const struct tree *tools; /* at least one, in the format of OpenAI's chat API, validated */
    const bool *named;        /* [tools] tools that may be called, at least one; NULL: all */
    bool single;              /* exactly one call; else one or more */
    /* enforce the "parameters" of every tool; else only of "strict" tools, and other arguments are
     * any object */
    bool holds_all;
    bool in_order;  /* keys of arguments are in the order of their schema */
    bool from_mark; /* begins with the token of tool_writer_mark, in the middle of content */
};

/* True if the tool's "strict" is true. */
bool tool_writer_is_strict(const struct tree *tool);

/* True if the format can enforce the schema of this tool. A format with pairs cannot if the schema
 * constrains more than the set of parameters, or a string by more than a list of values. */
bool tool_writer_holds(enum tool_format format, const struct tree *tool);

/* The token that starts every call in this format. Returns false if there is none. */
bool tool_writer_mark(enum tool_format format, const struct tokenizer *tokenizer,
                      struct bytes *out);

/* The form for the tools; tools to be enforced must pass tool_writer_holds. It shares parts of
 * `tools`. NULL if the arena is too small. */
const struct tree *tool_writer_form(struct arena *arena, const struct tool_wish *wish);
