/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/rule_draft.h"

#include "serving/grammar/automata/automaton_draft.h"

#define COPIES_MAX 4 /* of what is repeated; more may become calls */

static enum status rule_draft_make_room(struct rule_draft *draft, void *array, size_t count,
                                        size_t *capacity, size_t item_bytes) {
    void **items = array;
    if (!automaton_spend(draft->work, 1)) return STATUS_TOO_LARGE;
    if (count < *capacity) return STATUS_OK;
    size_t larger = *capacity ? 2 * *capacity : 64;
    void *memory = arena_take(draft->work->arena, larger * item_bytes);
    if (!memory) return STATUS_NO_MEMORY;
    if (count) memcpy(memory, *items, count * item_bytes);
    *items = memory;
    *capacity = larger;
    return STATUS_OK;
}

static enum status rule_draft_add_node(struct rule_draft *draft, struct regex_node node,
                                       uint32_t rule, uint32_t *out) {
    enum status status = rule_draft_make_room(draft, &draft->nodes, draft->node_count,
                                              &draft->node_capacity, sizeof *draft->nodes);
    if (!status)
        status = rule_draft_make_room(draft, &draft->rule_of, draft->node_count,
                                      &draft->rule_of_capacity, sizeof *draft->rule_of);
    if (status) return status;
    *out = (uint32_t)draft->node_count;
    draft->nodes[draft->node_count] = node;
    draft->rule_of[draft->node_count++] = rule;
    return STATUS_OK;
}

static enum status add_link(struct rule_draft *draft, uint32_t node) {
    enum status status = rule_draft_make_room(draft, &draft->links, draft->link_count,
                                              &draft->link_capacity, sizeof *draft->links);
    if (!status) draft->links[draft->link_count++] = node;
    return status;
}

enum status rule_draft_set(struct rule_draft *draft, const struct code_range *ranges, size_t count,
                           uint32_t *out) {
    struct regex_node node = {
        .kind = REGEX_SET, .first = (uint32_t)draft->range_count, .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        enum status status = rule_draft_make_room(draft, &draft->ranges, draft->range_count,
                                                  &draft->range_capacity, sizeof *draft->ranges);
        if (status) return status;
        draft->ranges[draft->range_count++] = ranges[i];
    }
    return rule_draft_add_node(draft, node, RULE_NONE, out);
}

enum status rule_draft_text(struct rule_draft *draft, struct bytes text, uint32_t *out) {
    size_t base = draft->waiting_count;
    for (size_t i = 0; i < text.count;) {
        uint32_t lead = (uint8_t)text.data[i++], node = 0;
        uint32_t tails = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        uint32_t character = tails ? lead & (0x3Fu >> tails) : lead;
        for (; tails && i < text.count; tails--)
            character = character << 6 | ((uint8_t)text.data[i++] & 0x3Fu);
        enum status status =
            rule_draft_set(draft, &(struct code_range){character, character}, 1, &node);
        if (!status) status = rule_draft_wait(draft, node);
        if (status) return status;
    }
    return rule_draft_gather(draft, REGEX_SEQUENCE, base, out);
}

enum status rule_draft_symbol(struct rule_draft *draft, enum rule_symbol kind, uint32_t subject,
                              uint32_t *out) {
    size_t at = 0;
    while (at < draft->symbol_count &&
           (draft->symbols[at].kind != kind || draft->symbols[at].subject != subject))
        at++;
    if (at == RULE_SYMBOLS_MAX || !automaton_spend(draft->work, at)) return STATUS_TOO_LARGE;
    if (at == draft->symbol_count) {
        enum status status = rule_draft_make_room(draft, &draft->symbols, at,
                                                  &draft->symbol_capacity, sizeof *draft->symbols);
        if (status) return status;
        draft->symbols[draft->symbol_count++] = (struct draft_symbol){kind, subject};
    }
    uint32_t character = RULE_SYMBOL_FIRST + (uint32_t)at;
    return rule_draft_set(draft, &(struct code_range){character, character}, 1, out);
}

enum status rule_draft_wait(struct rule_draft *draft, uint32_t node) {
    enum status status = rule_draft_make_room(draft, &draft->waiting, draft->waiting_count,
                                              &draft->waiting_capacity, sizeof *draft->waiting);
    if (!status) draft->waiting[draft->waiting_count++] = node;
    return status;
}

enum status rule_draft_gather(struct rule_draft *draft, enum regex_kind kind, size_t base,
                              uint32_t *out) {
    struct regex_node node = {.kind = kind,
                              .first = (uint32_t)draft->link_count,
                              .count = (uint32_t)(draft->waiting_count - base)};
    enum status status = STATUS_OK;
    draft->waiting_count = base;
    if (node.count == 1) {
        *out = draft->waiting[base];
        return STATUS_OK;
    }
    for (uint32_t i = 0; !status && i < node.count; i++)
        status = add_link(draft, draft->waiting[base + i]);
    return status ? status : rule_draft_add_node(draft, node, RULE_NONE, out);
}

/* A long repetition is a separate rule, so that it can be called where copies would be too
 * large. */
enum status rule_draft_repeat(struct rule_draft *draft, uint32_t node, uint32_t min, uint32_t max,
                              uint32_t *out) {
    uint32_t copies = max == REGEX_UNBOUNDED ? min : max, rule = 0;
    enum status status = STATUS_OK;
    if (copies > COPIES_MAX && draft->rule_of[node] == RULE_NONE &&
        draft->nodes[node].kind != REGEX_SET) {
        status = rule_draft_add_rule(draft, &(struct draft_rule){.body = node}, &rule);
        if (!status) status = rule_draft_reference(draft, rule, &node);
    }
    struct regex_node repeat = {.kind = REGEX_REPEAT, .first = node, .min = min, .max = max};
    return status ? status : rule_draft_add_node(draft, repeat, RULE_NONE, out);
}

enum status rule_draft_add_rule(struct rule_draft *draft, const struct draft_rule *rule,
                                uint32_t *rule_out) {
    enum status status = rule_draft_make_room(draft, &draft->rules, draft->rule_count,
                                              &draft->rule_capacity, sizeof *draft->rules);
    if (status) return status;
    *rule_out = (uint32_t)draft->rule_count;
    draft->rules[draft->rule_count++] = *rule;
    return STATUS_OK;
}

/* Two links, for what rule_build.c decides that the reference becomes. */
enum status rule_draft_reference(struct rule_draft *draft, uint32_t rule, uint32_t *out) {
    struct regex_node node = {.kind = REGEX_ALTERNATE, .first = (uint32_t)draft->link_count};
    enum status status = add_link(draft, RULE_NONE);
    if (!status) status = add_link(draft, RULE_NONE);
    return status ? status : rule_draft_add_node(draft, node, rule, out);
}
