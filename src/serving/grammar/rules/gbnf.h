/* SPDX-License-Identifier: Apache-2.0
 * Parser of GBNF, llama.cpp's grammar notation (grammars/README.md of ggml-org/llama.cpp): rules
 * `name ::= ...` of literals, classes, `.`, groups, `|`, `* + ? {m,n}`, comments, rule names, and
 * tokens: <[1000]>, <think>, !<think>. `root` is the start symbol.
 *
 * Left-recursive rules are refused, as in llama.cpp. Duplicate rules are refused, too.
 */
#pragma once

#include "serving/grammar/rules/grammar_builder.h"
#include "serving/text/tokenizer.h"

/* Adds the rules of a grammar to the builder. *out is a node that refers to `root`. Rule names
 * point into `text`. `tokenizer` may be NULL if the grammar names no tokens. Returns
 * STATUS_INVALID with the line and the rule, STATUS_TOO_LARGE if the grammar is too deep or too
 * large, and STATUS_NO_MEMORY. */
enum status gbnf_read(struct grammar_builder *builder, struct bytes text,
                      const struct tokenizer *tokenizer, uint32_t *out,
                      struct error *error) MUST_USE;
