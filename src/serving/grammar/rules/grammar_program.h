/* SPDX-License-Identifier: Apache-2.0
 * A grammar program is a compiled form (form.h). It is a recursive transition network. Each rule
 * (nonterminal) is a DFA over bytes. Its states have additional edges by nonterminals: another
 * rule, a JSON value, an added token. Rules without recursion are inlined, so matching mostly stays
 * in one DFA, and token masks can be cached by its states. A program does not depend on a
 * vocabulary. It is immutable, so threads may share it.
 *
 * Invariants: from every state, the end of its rule is reachable. There is no left recursion. If a
 * called rule accepts the empty text, there is also an edge around the call. A rule has therefore
 * read at least one byte or token when it returns.
 */
#pragma once

#include "serving/grammar/schema/value_shape.h"

enum rule_symbol {
    RULE_CALL,       /* subject: the rule to call */
    RULE_VALUE,      /* subject: the shape of a JSON value */
    RULE_TOKEN,      /* subject: a token */
    RULE_OTHER_TOKEN /* subject: a token that is excluded; any other token with bytes matches */
};

struct rule_edge {
    uint32_t symbol; /* enum rule_symbol */
    uint32_t subject;
    uint32_t to; /* a state */
};

struct byte_set {
    uint64_t words[4];
};

static inline bool byte_set_has(const struct byte_set *set, uint8_t byte) {
    return set->words[byte / 64] >> byte % 64 & 1;
}

static inline void byte_set_add(struct byte_set *set, uint8_t byte) {
    set->words[byte / 64] |= UINT64_C(1) << byte % 64;
}

struct grammar_rule {
    const struct automaton *automaton;
    const uint32_t *first_edge; /* [state_count + 1] a state's first edge; NULL: no edges */
    const struct rule_edge *edges;
    uint32_t last;           /* the accepting state without transitions and edges; 0: none */
    struct byte_set begins;  /* FIRST set: bytes that can start a text of the rule */
    struct byte_set follows; /* FOLLOW set: bytes that can come after it */
    bool begins_with_token;  /* a token edge can come first */
};

struct grammar_program {
    const struct shape_program *shapes; /* shapes of all JSON values; its root is not used */
    const struct grammar_rule *rules;   /* [rule_count]; rule 0 is the start symbol */
    uint32_t rule_count;
    bool has_tokens; /* some edge is RULE_TOKEN or RULE_OTHER_TOKEN */
};

static inline const struct rule_edge *rule_edges(const struct grammar_rule *rule, uint32_t state,
                                                 uint32_t *count_out) {
    *count_out = rule->first_edge ? rule->first_edge[state + 1] - rule->first_edge[state] : 0;
    return rule->first_edge ? rule->edges + rule->first_edge[state] : NULL;
}
