/* SPDX-License-Identifier: Apache-2.0
 * Thompson's construction translates the syntax tree of a regular expression into a
 * nondeterministic finite automaton (NFA) over bytes. regex_dfa.c determinizes it.
 *
 * A lookahead assertion ((?=...), (?!...), \b) becomes a separate DFA over the text that follows.
 * It may depend on the preceding character (regex_context), so there is one DFA for each context.
 */
#pragma once

#include "serving/grammar/automata/automaton_builder.h"
#include "serving/grammar/automata/regex_tree.h"

/* The position of an assertion: at the start of the text, or after a character that is (not) a word
 * character. */
enum regex_context { REGEX_AT_BEGIN, REGEX_AFTER_WORD, REGEX_AFTER_OTHER, REGEX_CONTEXT_COUNT };

enum nfa_state_kind {
    REGEX_BYTES,        /* edges [first, first + count) */
    REGEX_ANY,          /* like REGEX_BYTES, with edges for all characters; it accepts */
    REGEX_FORK,         /* epsilon edges to a and b */
    REGEX_IF_BEGIN,     /* epsilon edge to a, at the start of the text only */
    REGEX_IF_END,       /* epsilon edge to a, at the end of the text only */
    REGEX_IF_LOOKAHEAD, /* epsilon edge to a if lookahead b accepts the rest */
    REGEX_ACCEPT
};

struct nfa_state {
    enum nfa_state_kind kind;
    uint32_t a, b;
    uint32_t first, count;
};

struct nfa_edge { /* bytes first to last */
    uint8_t first, last;
    uint32_t to;
};

struct regex_lookahead {
    uint32_t automata[REGEX_CONTEXT_COUNT]; /* indices into the NFA's lookahead DFAs */
};

/* A set of UTF-8 characters of `count` bytes: byte i ranges from lows[i] to highs[i]. */
struct byte_runs {
    uint8_t lows[4], highs[4];
    uint32_t count;
};

struct regex_nfa {
    struct automaton_work *work;
    /* Builds the DFA of the texts that start with a match of the node. regex_dfa.c provides this
     * callback, because a lookahead is determinized from an NFA of its own. */
    enum status (*make_lookahead)(struct automaton_work *work, const struct regex *regex,
                                  uint32_t node, enum regex_context context,
                                  const struct automaton **out);
    const struct regex *regex;
    struct nfa_state *states;
    struct nfa_edge *edges;
    struct regex_lookahead *lookaheads;
    struct byte_runs *runs;            /* runs of the character set that is being added */
    const struct automaton **automata; /* DFAs of lookaheads */
    uint32_t state_count, state_capacity, edge_count, edge_capacity, lookahead_count,
        lookahead_capacity, run_count, run_capacity, automaton_count, automaton_capacity;
    bool word_sensitive; /* some lookahead differs after a word character */
    uint32_t final;      /* the final state: REGEX_ACCEPT or REGEX_ANY */
};

/* Adds the states of the tree node `number`, from *out to the state `next`. */
enum status regex_nfa_add(struct regex_nfa *nfa, uint32_t number, uint32_t next,
                          uint32_t *out) MUST_USE;
/* Adds states that lead to `to` by each character of the ranges, which must be ordered. */
enum status regex_nfa_add_set(struct regex_nfa *nfa, const struct code_range *ranges, size_t count,
                              uint32_t to, uint32_t *out) MUST_USE;
enum status regex_nfa_add_state(struct regex_nfa *nfa, struct nfa_state state,
                                uint32_t *out) MUST_USE;
/* True if the node matches at the start of the text only (begins with ^). */
bool regex_nfa_is_anchored(const struct regex *regex, uint32_t node);
