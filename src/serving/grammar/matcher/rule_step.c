/* SPDX-License-Identifier: Apache-2.0
 * Matches the rules of a grammar program. A frame holds the state of one rule; the frame below it
 * holds the state in which the calling rule continues. A call in tail position replaces the
 * caller's frame, so right-recursive lists do not make the stack deeper.
 */
#include "serving/grammar/matcher/grammar.h"

#include "serving/grammar/automata/automaton.h"

#define WAITING_MAX 256
#define VISITS_MAX 2048 /* items visited in one step; further ones are dropped */
#define NO_BYTE (-1)    /* the next symbol is a token */

/* An item is a rule in a state, on top of a stack. The items of a position are its epsilon closure:
 * the top frame, the starts of the rules that it calls, and the frame below if it may end. */
struct rule_item {
    uint32_t rule, state, below;
    /* the rule may end here; false right after a call, because an edge leads around empty ones */
    bool ends;
};

/* Traverses the epsilon closure of a stack, depth first, so that few items wait. */
struct rule_closure {
    const struct grammar *grammar;
    struct stack_table *table;
    int byte;
    uint32_t count, visits_left;
    struct rule_item waiting[WAITING_MAX];
};

/* ---- frames ---- */

static const struct grammar_rule *rule_at(const struct grammar *grammar, uint32_t rule) {
    return &grammar->rules[rule];
}

/* Pushes a rule's state. After a call in tail position, returns the frame below instead. */
static uint32_t put(const struct grammar *grammar, struct stack_table *table, uint32_t rule,
                    uint32_t state, uint32_t below) {
    if (below && state == rule_at(grammar, rule)->last) return below;
    struct stack_frame frame = {
        .below = below, .kind = STACK_RULE, .subject = rule, .state = state};
    return stack_table_put(table, &frame, NULL);
}

uint32_t rule_step_begin(const struct grammar *grammar, struct stack_table *table) {
    return put(grammar, table, 0, rule_at(grammar, 0)->automaton->start, STACK_NONE);
}

/* ---- items ---- */

static void rule_step_wait(struct rule_closure *closure, struct rule_item point) {
    if (closure->count < WAITING_MAX) closure->waiting[closure->count++] = point;
}

static void begin_closure(struct rule_closure *closure, const struct grammar *grammar,
                          struct stack_table *table, uint32_t number, int byte) {
    const struct stack_frame *frame = stack_table_at(table, number);
    closure->grammar = grammar;
    closure->table = table;
    closure->byte = byte;
    closure->count = 0;
    closure->visits_left = VISITS_MAX;
    rule_step_wait(closure, (struct rule_item){frame->subject, frame->state, frame->below, true});
}

static bool rule_step_may_begin(const struct rule_closure *closure,
                                const struct grammar_rule *rule) {
    return closure->byte == NO_BYTE ? true : byte_set_has(&rule->begins, (uint8_t)closure->byte);
}

static bool next_item(struct rule_closure *closure, struct rule_item *out) {
    if (!closure->count || !closure->visits_left) return false;
    closure->visits_left--;
    *out = closure->waiting[--closure->count];
    const struct grammar_rule *rule = rule_at(closure->grammar, out->rule);
    uint32_t count;
    const struct rule_edge *edges = rule_edges(rule, out->state, &count);
    if (out->ends && out->below && rule->automaton->labels[out->state]) {
        const struct stack_frame *below = stack_table_at(closure->table, out->below);
        rule_step_wait(closure,
                       (struct rule_item){below->subject, below->state, below->below, true});
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct grammar_rule *called = rule_at(closure->grammar, edges[i].subject);
        if (edges[i].symbol != RULE_CALL || !rule_step_may_begin(closure, called)) continue;
        uint32_t behind = put(closure->grammar, closure->table, out->rule, edges[i].to, out->below);
        if (behind == STACK_NONE) continue;
        rule_step_wait(
            closure, (struct rule_item){edges[i].subject, called->automaton->start, behind, false});
    }
    return true;
}

/* ---- bytes ---- */

static void begin_values(const struct grammar *grammar, struct stack_table *table,
                         const struct rule_item *at, uint8_t byte, struct stack_list *out) {
    uint32_t count;
    const struct rule_edge *edges = rule_edges(rule_at(grammar, at->rule), at->state, &count);
    for (uint32_t i = 0; i < count; i++)
        if (edges[i].symbol == RULE_VALUE)
            value_step_begin(grammar, table, edges[i].subject, byte,
                             put(grammar, table, at->rule, edges[i].to, at->below), out);
}

static void step_items(struct rule_closure *closure, bool leaves, struct stack_list *out) {
    struct rule_item at;
    uint8_t byte = (uint8_t)closure->byte;
    for (; next_item(closure, &at); leaves = false) {
        const struct automaton *automaton = rule_at(closure->grammar, at.rule)->automaton;
        uint32_t state = leaves ? 0 : automaton_step(automaton, at.state, byte);
        if (state)
            grammar_add_stack(out, put(closure->grammar, closure->table, at.rule, state, at.below));
        begin_values(closure->grammar, closure->table, &at, byte, out);
    }
}

void rule_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
               uint8_t byte, struct stack_list *out) {
    struct rule_closure closure;
    begin_closure(&closure, grammar, table, number, byte);
    step_items(&closure, false, out);
}

void rule_step_leave(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t state, uint8_t byte, struct stack_list *out) {
    struct rule_closure closure;
    begin_closure(&closure, grammar, table, number, byte);
    closure.waiting[0].state = state;
    step_items(&closure, true, out);
}

bool rule_step_leaves(const struct grammar *grammar, const struct grammar_rule *rule,
                      uint32_t state, uint8_t byte) {
    uint32_t count;
    const struct rule_edge *edges = rule_edges(rule, state, &count);
    if (rule->automaton->labels[state] && byte_set_has(&rule->follows, byte)) return true;
    for (uint32_t i = 0; i < count; i++)
        if (edges[i].symbol == RULE_VALUE ||
            (edges[i].symbol == RULE_CALL &&
             byte_set_has(&rule_at(grammar, edges[i].subject)->begins, byte)))
            return true;
    return false;
}

/* ---- ends ---- */

bool rule_step_may_end(const struct grammar *grammar, const struct stack_table *table,
                       uint32_t number) {
    for (; number; number = stack_table_at(table, number)->below) {
        const struct stack_frame *frame = stack_table_at(table, number);
        if (!rule_at(grammar, frame->subject)->automaton->labels[frame->state]) return false;
    }
    return true;
}

bool rule_step_must_end(const struct grammar *grammar, const struct stack_table *table,
                        uint32_t number) {
    const struct stack_frame *frame = stack_table_at(table, number);
    return frame->kind == STACK_RULE && !frame->below &&
           frame->state == rule_at(grammar, frame->subject)->last;
}

/* ---- tokens ---- */

static bool has_bytes(const struct grammar *grammar, uint32_t token) {
    return grammar->trie->tokens[token].count > 0;
}

void rule_step_token(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t token, struct stack_list *out) {
    struct rule_closure closure;
    struct rule_item at;
    begin_closure(&closure, grammar, table, number, NO_BYTE);
    while (next_item(&closure, &at)) {
        uint32_t count;
        const struct rule_edge *edges = rule_edges(rule_at(grammar, at.rule), at.state, &count);
        for (uint32_t i = 0; i < count; i++) {
            bool same = edges[i].subject == token;
            if ((edges[i].symbol == RULE_TOKEN && same) ||
                (edges[i].symbol == RULE_OTHER_TOKEN && !same && has_bytes(grammar, token)))
                grammar_add_stack(out, put(grammar, table, at.rule, edges[i].to, at.below));
        }
    }
}

static void note_token(const struct grammar *grammar, struct next_tokens *allowed, uint32_t token) {
    allowed->several |= allowed->token != TOKEN_NONE && allowed->token != token;
    allowed->token = token;
    if (allowed->mask && token < grammar->trie->token_count)
        allowed->mask[token / 64] |= UINT64_C(1) << token % 64;
}

static void note_others(const struct grammar *grammar, struct next_tokens *allowed,
                        uint32_t token) {
    allowed->several = true;
    for (uint32_t t = 0; allowed->mask && t < grammar->trie->token_count; t++)
        if (t != token && has_bytes(grammar, t)) allowed->mask[t / 64] |= UINT64_C(1) << t % 64;
}

void rule_step_look(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                    struct next_tokens *allowed) {
    struct rule_closure closure;
    struct rule_item at;
    begin_closure(&closure, grammar, table, number, NO_BYTE);
    while (next_item(&closure, &at)) {
        const struct grammar_rule *rule = rule_at(grammar, at.rule);
        uint32_t count;
        const struct rule_edge *edges = rule_edges(rule, at.state, &count);
        allowed->bytes |= automaton_goes_on(rule->automaton, at.state);
        for (uint32_t i = 0; i < count; i++) {
            if (edges[i].symbol == RULE_VALUE) allowed->bytes = true;
            if (edges[i].symbol == RULE_TOKEN) note_token(grammar, allowed, edges[i].subject);
            if (edges[i].symbol == RULE_OTHER_TOKEN)
                note_others(grammar, allowed, edges[i].subject);
        }
    }
}
