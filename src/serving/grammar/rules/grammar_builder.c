/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/grammar_builder.h"

#include "serving/grammar/automata/automaton_builder.h"

#define COPIES_MAX 4 /* more copies of a repeated part may be replaced by calls */

void grammar_builder_open(struct grammar_builder *builder, struct automaton_work *work) {
    *builder = (struct grammar_builder){.work = work, .tree = {.work = work, .arena = work->arena}};
}

enum status grammar_builder_text(struct grammar_builder *builder, struct bytes text,
                                 uint32_t *out) {
    struct regex_source source = {.text = text};
    uint32_t base = builder->tree.waiting_count;
    while (source.at < text.count) {
        uint32_t node = 0, character = regex_tree_take_character(&source);
        struct code_range one = {character, character};
        enum status status = regex_tree_add_set(&builder->tree, &one, 1, &node);
        if (!status) status = regex_tree_wait(&builder->tree, node);
        if (status) return status;
    }
    return regex_tree_gather(&builder->tree, REGEX_SEQUENCE, base, out);
}

enum status grammar_builder_symbol(struct grammar_builder *builder, enum rule_symbol kind,
                                   uint32_t subject, uint32_t *out) {
    uint32_t at = 0;
    while (at < builder->symbol_count &&
           (builder->symbols[at].kind != kind || builder->symbols[at].subject != subject))
        at++;
    if (at == RULE_SYMBOLS_MAX || !automaton_spend(builder->work, at)) return STATUS_TOO_LARGE;
    if (at == builder->symbol_count) {
        enum status status =
            automaton_builder_room(builder->work, builder->work->arena, &builder->symbols, at,
                                   &builder->symbol_capacity, sizeof *builder->symbols);
        if (status) return status;
        builder->symbols[builder->symbol_count++] = (struct builder_symbol){kind, subject};
    }
    uint32_t character = RULE_SYMBOL_FIRST + at;
    return regex_tree_add_set(&builder->tree, &(struct code_range){character, character}, 1, out);
}

/* The body of a long repetition becomes a rule, so that it can be called instead of copied. */
enum status grammar_builder_repeat(struct grammar_builder *builder, uint32_t node, uint32_t min,
                                   uint32_t max, uint32_t *out) {
    uint32_t copies = max == REGEX_UNBOUNDED ? min : max, rule = 0;
    enum status status = STATUS_OK;
    if (copies > COPIES_MAX && rule_of_node(builder, node) == RULE_NONE &&
        builder->tree.nodes[node].kind != REGEX_SET) {
        status = grammar_builder_add_rule(builder, &(struct builder_rule){.body = node}, &rule);
        if (!status) status = grammar_builder_reference(builder, rule, &node);
    }
    struct regex_node repeat = {.kind = REGEX_REPEAT, .first = node, .min = min, .max = max};
    return status ? status : regex_tree_add_node(&builder->tree, repeat, out);
}

enum status grammar_builder_add_rule(struct grammar_builder *builder,
                                     const struct builder_rule *rule, uint32_t *rule_out) {
    enum status status = automaton_builder_room(builder->work, builder->work->arena,
                                                &builder->rules, builder->rule_count,
                                                &builder->rule_capacity, sizeof *builder->rules);
    if (status) return status;
    *rule_out = builder->rule_count;
    builder->rules[builder->rule_count++] = *rule;
    return STATUS_OK;
}

/* Reserves two links, because grammar_compile.c decides later what replaces the reference. */
enum status grammar_builder_reference(struct grammar_builder *builder, uint32_t rule,
                                      uint32_t *out) {
    struct regex_node node = {
        .kind = REGEX_ALTERNATE, .first = builder->tree.link_count, .rule = rule + 1};
    enum status status = regex_tree_add_link(&builder->tree, RULE_NONE);
    if (!status) status = regex_tree_add_link(&builder->tree, RULE_NONE);
    return status ? status : regex_tree_add_node(&builder->tree, node, out);
}
