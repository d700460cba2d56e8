/* SPDX-License-Identifier: Apache-2.0
 * Collects the rules of a grammar as syntax trees of regular expressions (regex_tree.h). A symbol
 * that is not a character (a call of a rule, a JSON value, a token) is represented by a code point
 * beyond Unicode. The rules' DFAs can therefore be built like those of patterns. Afterwards,
 * grammar_compile.c turns the transitions by such code points into edges.
 *
 * Trees are in the work's arena. Children have smaller numbers than their node, except that rules
 * may be referenced before they are defined.
 */
#pragma once

#include "serving/grammar/automata/regex_tree.h"
#include "serving/grammar/rules/grammar_program.h"

#define RULE_NONE UINT32_MAX
#define RULE_SYMBOL_FIRST 0x140000u /* code point of symbol 0 */
#define RULE_SYMBOL_LEAD 0xF5       /* first byte of every symbol's UTF-8 */
#define RULE_SYMBOLS_MAX 65536

struct builder_rule {
    struct bytes name;                 /* for messages; may be empty */
    uint32_t line;                     /* in the grammar's text; 0: none */
    uint32_t body;                     /* a node; RULE_NONE: not defined yet */
    const struct automaton *automaton; /* used instead of a body if set */
};

struct builder_symbol {
    enum rule_symbol kind;
    uint32_t subject;
};

struct grammar_builder {
    struct automaton_work *work;
    struct regex_tree tree; /* the trees of all rules */
    struct builder_symbol *symbols;
    struct builder_rule *rules;
    uint32_t symbol_count, symbol_capacity, rule_count, rule_capacity;
};

void grammar_builder_open(struct grammar_builder *builder, struct automaton_work *work);

/* The functions below return STATUS_TOO_LARGE or STATUS_NO_MEMORY. `out` is the new node. */
enum status grammar_builder_text(struct grammar_builder *builder, struct bytes text,
                                 uint32_t *out) MUST_USE; /* valid UTF-8 */
enum status grammar_builder_symbol(struct grammar_builder *builder, enum rule_symbol kind,
                                   uint32_t subject, uint32_t *out) MUST_USE;
/* max REGEX_UNBOUNDED: no maximum. */
enum status grammar_builder_repeat(struct grammar_builder *builder, uint32_t node, uint32_t min,
                                   uint32_t max, uint32_t *out) MUST_USE;
enum status grammar_builder_add_rule(struct grammar_builder *builder,
                                     const struct builder_rule *rule, uint32_t *rule_out) MUST_USE;
enum status grammar_builder_reference(struct grammar_builder *builder, uint32_t rule,
                                      uint32_t *out) MUST_USE;

/* The rule that a node refers to, or RULE_NONE. */
static inline uint32_t rule_of_node(const struct grammar_builder *builder, uint32_t node) {
    return builder->tree.nodes[node].rule - 1;
}

/* ---- the program: grammar_compile.c ---- */

/* Compiles the rules with the start symbol `root` to a program in `arena`. JSON values refer to
 * `shapes`. Temporary memory comes from the arenas of the builder's work. Returns
 * STATUS_INVALID for left recursion or an empty language, STATUS_TOO_LARGE, or STATUS_NO_MEMORY.
 * Messages name the rule and its line. */
enum status grammar_compile(struct arena *arena, struct grammar_builder *builder, uint32_t root,
                            const struct shape_program *shapes, const struct grammar_program **out,
                            struct error *error) MUST_USE;
