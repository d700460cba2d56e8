/* SPDX-License-Identifier: Apache-2.0
 * Writes the constraint of an answer's calls: a form (serving/grammar/rules/form.h) of calls in the
 * model's format (tool_format.h), so that tool_parser.h finds a call of a tool, with valid
 * arguments, in any text that satisfies the form. Marks that are added tokens of the model's
 * tokenizer are those tokens in the form; others are text.
 *
 * Of Hermes' two formats only JSON is written, of Mistral's the one with marks that the tokenizer
 * has. If arguments are pairs and not JSON (V3.2, GLM), parameters are in the order of their
 * schema, strings as they are.
 */
#ifndef SERVING_TEXT_TOOL_WRITER_H
#define SERVING_TEXT_TOOL_WRITER_H

#include "serving/text/tokenizer.h"
#include "serving/text/tool_format.h"

struct tool_wish {
    enum tool_format format;
    const struct tokenizer *tokenizer; /* NULL: it has no added tokens */
    const struct tree *tools; /* at least one, in the shape of OpenAI's chat API, checked */
    const bool *named;        /* [tools] those that may be called, at least one; NULL: all */
    bool single;              /* exactly one call; else one or more */
    bool holds_all;           /* the arguments of each tool fulfil its "parameters"; else those of
                                 tools that are "strict" do, and others are any object */
    bool in_order;            /* keys of arguments come in the order of their schema */
    bool from_mark;           /* begins with tool_writer_mark's token, in the midst of content */
};

/* The tool's "strict" is true. */
bool tool_writer_is_strict(const struct tree *tool);

/* The format can hold the arguments of this tool to its schema. Where they are pairs it cannot, if
 * the schema says more than which parameters there are, or of a string more than a list of values.
 */
bool tool_writer_holds(enum tool_format format, const struct tree *tool);

/* The token without which no call begins in an answer of this format. False: there is none. */
bool tool_writer_mark(enum tool_format format, const struct tokenizer *tokenizer,
                      struct bytes *out);

/* The form, of tools that can be held where they are to be; shares parts of `tools`. NULL: the arena is too small. */
const struct tree *tool_writer_form(struct arena *arena, const struct tool_wish *wish);

#endif
