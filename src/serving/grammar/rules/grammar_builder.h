/* SPDX-License-Identifier: Apache-2.0
 * Rules in the making: trees of regular expressions (regex_tree.h) in which a symbol, what is more
 * than a character, is written as a character beyond Unicode. So the automata of rules are made as those
 * of patterns are; grammar_compile.c takes the symbols out of them again.
 *
 * Trees are in the work's arena. A node follows its children, except the targets of references.
 */
#ifndef SERVING_GRAMMAR_RULES_RULE_DRAFT_H
#define SERVING_GRAMMAR_RULES_RULE_DRAFT_H

#include "serving/grammar/automata/regex_tree.h"
#include "serving/grammar/rules/grammar_program.h"

#define RULE_NONE UINT32_MAX
#define RULE_SYMBOL_FIRST 0x140000u /* the symbol 0; spelt with the lead byte below */
#define RULE_SYMBOL_LEAD 0xF5
#define RULE_SYMBOLS_MAX 65536

struct builder_rule {
    struct bytes name;                 /* for messages; empty: it has none */
    uint32_t line;                     /* of its grammar's text; 0: there is none */
    uint32_t body;                     /* a node; RULE_NONE: not read yet */
    const struct automaton *automaton; /* instead of a body */
};

struct builder_symbol {
    enum rule_symbol kind;
    uint32_t subject;
};

struct grammar_builder {
    struct automaton_work *work;
    struct regex_tree tree; /* of all rules */
    struct builder_symbol *symbols;
    struct builder_rule *rules;
    uint32_t symbol_count, symbol_capacity, rule_count, rule_capacity;
};

void grammar_builder_open(struct grammar_builder *builder, struct automaton_work *work);

/* All of the following: STATUS_TOO_LARGE, STATUS_NO_MEMORY. `out` is a node. */
enum status grammar_builder_text(struct grammar_builder *builder, struct bytes text,
                                 uint32_t *out) MUST_USE; /* valid UTF-8 */
enum status grammar_builder_symbol(struct grammar_builder *builder, enum rule_symbol kind,
                                   uint32_t subject, uint32_t *out) MUST_USE;
/* max: REGEX_UNBOUNDED for no bound. */
enum status grammar_builder_repeat(struct grammar_builder *builder, uint32_t node, uint32_t min,
                                   uint32_t max, uint32_t *out) MUST_USE;
enum status grammar_builder_add_rule(struct grammar_builder *builder,
                                     const struct builder_rule *rule, uint32_t *rule_out) MUST_USE;
enum status grammar_builder_reference(struct grammar_builder *builder, uint32_t rule,
                                      uint32_t *out) MUST_USE;

/* The rule that a node refers to; RULE_NONE: none. */
static inline uint32_t rule_of_node(const struct grammar_builder *builder, uint32_t node) {
    return builder->tree.nodes[node].rule - 1;
}

/* ---- the program: grammar_compile.c ---- */

/* The program of the rule `root`. It is in `arena`; the values are of `shapes`.
 * Temporary memory is taken from the arenas of the builder's work. STATUS_INVALID: a rule begins with
 * itself, or no text fulfils the root; STATUS_TOO_LARGE; STATUS_NO_MEMORY. Messages name a rule and
 * its line. */
enum status grammar_compile(struct arena *arena, struct grammar_builder *builder, uint32_t root,
                            const struct shape_program *shapes, const struct grammar_program **out,
                            struct error *error) MUST_USE;

#endif
