/* SPDX-License-Identifier: Apache-2.0
 * Rules in the making: trees of regular expressions (regex_tree.h) in which a symbol, what is more
 * than a character, stands as a character beyond Unicode. So the automata of rules are made as those
 * of patterns are; rule_build.c takes the symbols out of them again.
 *
 * Trees lie in the work's arena. A node comes behind its children, but for what references lead to.
 */
#ifndef SERVING_GRAMMAR_RULES_RULE_DRAFT_H
#define SERVING_GRAMMAR_RULES_RULE_DRAFT_H

#include "serving/grammar/automata/regex_tree.h"
#include "serving/grammar/rules/grammar_program.h"

#define RULE_NONE UINT32_MAX
#define RULE_SYMBOL_FIRST 0x140000u /* the symbol 0; spelt with the lead byte below */
#define RULE_SYMBOL_LEAD 0xF5
#define RULE_SYMBOLS_MAX 65536

struct draft_rule {
    struct bytes name;                 /* for messages; empty: it has none */
    uint32_t line;                     /* of its grammar's text; 0: there is none */
    uint32_t body;                     /* a node; RULE_NONE: not read yet */
    const struct automaton *automaton; /* instead of a body */
};

struct draft_symbol {
    enum rule_symbol kind;
    uint32_t subject;
};

struct rule_draft {
    struct automaton_work *work;
    struct regex_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *links;
    size_t link_count, link_capacity;
    struct code_range *ranges;
    size_t range_count, range_capacity;
    uint32_t *rule_of; /* [node_count] the rule that a node refers to, or RULE_NONE */
    size_t rule_of_capacity;
    uint32_t *waiting; /* nodes of sequences and alternatives that are not finished */
    size_t waiting_count, waiting_capacity;
    struct draft_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct draft_rule *rules;
    size_t rule_count, rule_capacity;
};

/* All of the following: STATUS_TOO_LARGE, STATUS_NO_MEMORY. `out` is a node. */
enum status rule_draft_set(struct rule_draft *draft, const struct code_range *ranges, size_t count,
                           uint32_t *out) MUST_USE;
enum status rule_draft_text(struct rule_draft *draft, struct bytes text,
                            uint32_t *out) MUST_USE; /* valid UTF-8 */
enum status rule_draft_symbol(struct rule_draft *draft, enum rule_symbol kind, uint32_t subject,
                              uint32_t *out) MUST_USE;
/* A node that waits, and all that wait from `base` on as one: a sequence or alternatives. */
enum status rule_draft_wait(struct rule_draft *draft, uint32_t node) MUST_USE;
enum status rule_draft_gather(struct rule_draft *draft, enum regex_kind kind, size_t base,
                              uint32_t *out) MUST_USE;
/* max: REGEX_UNBOUNDED for no bound. */
enum status rule_draft_repeat(struct rule_draft *draft, uint32_t node, uint32_t min, uint32_t max,
                              uint32_t *out) MUST_USE;
enum status rule_draft_add_rule(struct rule_draft *draft, const struct draft_rule *rule,
                                uint32_t *rule_out) MUST_USE;
enum status rule_draft_reference(struct rule_draft *draft, uint32_t rule, uint32_t *out) MUST_USE;

#endif
