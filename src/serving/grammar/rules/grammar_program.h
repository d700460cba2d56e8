/* SPDX-License-Identifier: Apache-2.0
 * The compiled form (form.h), before a vocabulary is known: rules that call each other. A rule is
 * an automaton over bytes. In addition to transitions by bytes, its states have edges by larger
 * units: another rule, a JSON value, an added token. Everything without recursion is in the
 * automata, so a text stays in one automaton most of the time, and masks are made as those of
 * strings are. A program never changes, so threads may share it.
 *
 * The builder guarantees: every state leads to its rule's end. No rule begins with itself. A call
 * of a rule that accepts the empty text has a bypass, so a called rule has read something when it
 * ends.
 */
#ifndef SERVING_GRAMMAR_RULES_GRAMMAR_PROGRAM_H
#define SERVING_GRAMMAR_RULES_GRAMMAR_PROGRAM_H

#include "serving/grammar/schema/value_shape.h"

enum rule_symbol {
    RULE_CALL,       /* subject: a rule */
    RULE_VALUE,      /* subject: a shape */
    RULE_TOKEN,      /* subject: a token, as a token */
    RULE_OTHER_TOKEN /* subject: any token that has bytes, but this one */
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
    const uint32_t *first_edge; /* [state_count + 1] of a state, in edges; NULL: there are none */
    const struct rule_edge *edges;
    uint32_t last;           /* the accepting state from which nothing leads on; 0: there is none */
    struct byte_set begins;  /* the bytes that it may begin with */
    struct byte_set follows; /* and those that may come behind it */
    bool begins_with_token;
};

struct grammar_program {
    const struct shape_program *shapes; /* of all values; its root says nothing */
    const struct grammar_rule *rules;   /* [rule_count], the first is the whole text's */
    uint32_t rule_count;
    bool has_tokens; /* some edge is one of a token */
};

static inline const struct rule_edge *rule_edges(const struct grammar_rule *rule, uint32_t state,
                                                 uint32_t *count_out) {
    *count_out = rule->first_edge ? rule->first_edge[state + 1] - rule->first_edge[state] : 0;
    return rule->first_edge ? rule->edges + rule->first_edge[state] : NULL;
}

#endif
