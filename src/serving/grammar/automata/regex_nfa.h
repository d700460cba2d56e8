/* SPDX-License-Identifier: Apache-2.0
 * A regular expression as a nfa over bytes: K. Thompson's automaton, which is in many states at
 * once. regex_dfa.c runs it.
 *
 * An assertion (\b, (?=...), (?!...)) is a separate automaton over the text that follows. It may
 * depend on the position, so there are up to three of it.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_REGEX_PROGRAM_H
#define SERVING_GRAMMAR_AUTOMATA_REGEX_PROGRAM_H

#include "serving/grammar/automata/automaton_builder.h"
#include "serving/grammar/automata/regex_tree.h"

enum regex_context { REGEX_AT_BEGIN, REGEX_AFTER_WORD, REGEX_AFTER_OTHER, REGEX_CONTEXT_COUNT };

enum nfa_state_kind {
    REGEX_BYTES,        /* edges [first, first + count) */
    REGEX_ANY,          /* the same, and accepts: all texts that follow */
    REGEX_FORK,         /* to both, a and b */
    REGEX_IF_BEGIN,     /* to a at the start of the text */
    REGEX_IF_END,       /* to a where nothing follows */
    REGEX_IF_LOOKAHEAD, /* to a where lookahead b holds */
    REGEX_ACCEPT
};

struct nfa_state {
    enum nfa_state_kind kind;
    uint32_t a, b;
    uint32_t first, count;
};

struct nfa_edge {
    uint8_t first, last;
    uint32_t to;
};

struct regex_lookahead {
    uint32_t watched[REGEX_CONTEXT_COUNT]; /* indices of automata */
};

/* UTF-8 texts of one length, with bytes in the ranges from lows to highs. */
struct byte_runs {
    uint8_t lows[4], highs[4];
    uint32_t count;
};

struct regex_nfa {
    struct automaton_work *work;
    /* Makes the automaton of the texts that may follow at a position and begin with one of the
     * node's. The caller that runs NFAs provides it, because an assertion is run as its own
     * nfa. */
    enum status (*make_lookahead)(struct automaton_work *work, const struct regex *regex,
                                  uint32_t node, enum regex_context place,
                                  const struct automaton **out);
    const struct regex *regex;
    struct nfa_state *states;
    struct nfa_edge *edges;
    struct regex_lookahead *lookaheads;
    struct byte_runs *runs; /* of the set that is added */
    const struct automaton **watched;
    uint32_t state_count, state_capacity, edge_count, edge_capacity, lookahead_count,
        lookahead_capacity, run_count, run_capacity, watched_count, watched_capacity;
    bool word_sensitive;     /* some lookahead depends on whether a word's character precedes it */
    uint32_t nothing_behind; /* REGEX_ACCEPT or REGEX_ANY: where everything ends */
};

/* The nfa of the node `number` and, behind it, `next`: the state to begin with. */
enum status regex_nfa_add(struct regex_nfa *nfa, uint32_t number, uint32_t next,
                          uint32_t *out) MUST_USE;
/* A state with an edge to `to` for each character of the ranges (ordered). */
enum status regex_nfa_add_set(struct regex_nfa *nfa, const struct code_range *ranges, size_t count,
                              uint32_t to, uint32_t *out) MUST_USE;
enum status regex_nfa_add_state(struct regex_nfa *nfa, struct nfa_state state,
                                uint32_t *out) MUST_USE;
/* Whether every text of the node begins where the text does. */
bool regex_nfa_is_anchored(const struct regex *regex, uint32_t node);

#endif
