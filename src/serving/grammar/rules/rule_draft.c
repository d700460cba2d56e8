/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/rule_draft.h"

#include "serving/grammar/automata/automaton_draft.h"

#define COPIES_MAX 4 /* of what is repeated; more may become calls */

void rule_draft_open(struct rule_draft *draft, struct automaton_work *work) {
    *draft = (struct rule_draft){.work = work, .tree = {.work = work, .arena = work->arena}};
}

static enum status rule_draft_room(struct rule_draft *draft, void *array, uint32_t count,
                                   uint32_t *capacity, size_t item_bytes) {
    if (!automaton_spend(draft->work, 1)) return STATUS_TOO_LARGE;
    bool room = arena_reserve(draft->work->arena, array, count, capacity, item_bytes);
    return room ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status rule_draft_text(struct rule_draft *draft, struct bytes text, uint32_t *out) {
    struct regex_source source = {.text = text};
    uint32_t base = draft->tree.waiting_count;
    while (source.at < text.count) {
        uint32_t node = 0, character = regex_tree_take_character(&source);
        struct code_range one = {character, character};
        enum status status = regex_tree_add_set(&draft->tree, &one, 1, &node);
        if (!status) status = regex_tree_wait(&draft->tree, node);
        if (status) return status;
    }
    return regex_tree_gather(&draft->tree, REGEX_SEQUENCE, base, out);
}

enum status rule_draft_symbol(struct rule_draft *draft, enum rule_symbol kind, uint32_t subject,
                              uint32_t *out) {
    uint32_t at = 0;
    while (at < draft->symbol_count &&
           (draft->symbols[at].kind != kind || draft->symbols[at].subject != subject))
        at++;
    if (at == RULE_SYMBOLS_MAX || !automaton_spend(draft->work, at)) return STATUS_TOO_LARGE;
    if (at == draft->symbol_count) {
        enum status status = rule_draft_room(draft, &draft->symbols, at, &draft->symbol_capacity,
                                             sizeof *draft->symbols);
        if (status) return status;
        draft->symbols[draft->symbol_count++] = (struct draft_symbol){kind, subject};
    }
    uint32_t character = RULE_SYMBOL_FIRST + at;
    return regex_tree_add_set(&draft->tree, &(struct code_range){character, character}, 1, out);
}

/* A long repetition is a separate rule, so that it can be called where copies would be too
 * large. */
enum status rule_draft_repeat(struct rule_draft *draft, uint32_t node, uint32_t min, uint32_t max,
                              uint32_t *out) {
    uint32_t copies = max == REGEX_UNBOUNDED ? min : max, rule = 0;
    enum status status = STATUS_OK;
    if (copies > COPIES_MAX && rule_of_node(draft, node) == RULE_NONE &&
        draft->tree.nodes[node].kind != REGEX_SET) {
        status = rule_draft_add_rule(draft, &(struct draft_rule){.body = node}, &rule);
        if (!status) status = rule_draft_reference(draft, rule, &node);
    }
    struct regex_node repeat = {.kind = REGEX_REPEAT, .first = node, .min = min, .max = max};
    return status ? status : regex_tree_add_node(&draft->tree, repeat, out);
}

enum status rule_draft_add_rule(struct rule_draft *draft, const struct draft_rule *rule,
                                uint32_t *rule_out) {
    enum status status = rule_draft_room(draft, &draft->rules, draft->rule_count,
                                         &draft->rule_capacity, sizeof *draft->rules);
    if (status) return status;
    *rule_out = draft->rule_count;
    draft->rules[draft->rule_count++] = *rule;
    return STATUS_OK;
}

/* Two links, for what rule_build.c decides that the reference becomes. */
enum status rule_draft_reference(struct rule_draft *draft, uint32_t rule, uint32_t *out) {
    struct regex_node node = {
        .kind = REGEX_ALTERNATE, .first = draft->tree.link_count, .rule = rule + 1};
    enum status status = regex_tree_add_link(&draft->tree, RULE_NONE);
    if (!status) status = regex_tree_add_link(&draft->tree, RULE_NONE);
    return status ? status : regex_tree_add_node(&draft->tree, node, out);
}
