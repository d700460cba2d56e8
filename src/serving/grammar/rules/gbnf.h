/* SPDX-License-Identifier: Apache-2.0
 * GBNF, llama.cpp's notation of grammars (grammars/README.md of ggml-org/llama.cpp): rules
 * `name ::= ...` of literals, classes, `.`, groups, `|`, `* + ? {m,n}`, comments, names of rules, and
 * tokens: <[1000]>, <think>, !<think>. The rule `root` is the whole text.
 *
 * As llama.cpp does, it refuses rules that begin with themselves. Unlike it, it refuses a rule that
 * is written twice.
 */
#ifndef SERVING_GRAMMAR_RULES_GBNF_H
#define SERVING_GRAMMAR_RULES_GBNF_H

#include "serving/grammar/rules/grammar_builder.h"
#include "serving/text/tokenizer.h"

/* Adds the rules of a grammar; `out` is a node of its root. `text` is kept by reference for
 * messages. `tokenizer` may be NULL where no token is named. STATUS_INVALID with line and rule;
 * STATUS_TOO_LARGE: too deep, or too much of it; STATUS_NO_MEMORY. */
enum status gbnf_read(struct grammar_builder *builder, struct bytes text,
                      const struct tokenizer *tokenizer, uint32_t *out,
                      struct error *error) MUST_USE;

#endif
