/* SPDX-License-Identifier: Apache-2.0
 * Writes the constraint of an answer's tool calls: a form (serving/grammar/rules/form.h) of calls
 * in the model's format (tool_format.h). In any text that satisfies the form, tool_parser.h finds a
 * call of a tool with valid arguments. Marks that are added tokens of the model's tokenizer are
 * tokens in the form. Other marks are text.
 *
 * Hermes has two formats, and only the one with JSON is written. Mistral has two as well, and the
 * one is written that has its marks in the tokenizer. If arguments are pairs instead of JSON (V3.2,
 * GLM), parameters are in the order of their schema, and strings are unescaped.
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
    /* enforce the "parameters" of every tool; else only of "strict" tools, and the arguments of the
     * others may be any object. Arguments of a tool that is not strict have only the properties
     * that its schema lists. */
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

/* Writes the form for the tools. Tools to be enforced must pass tool_writer_holds. The form shares
 * parts of `tools`. If its text has more than LIMIT_CONSTRAINT_BYTES, which callers refuse, pairs
 * may be missing. Returns NULL if the arena is too small. */
const struct tree *tool_writer_form(struct arena *arena, const struct tool_wish *wish);
