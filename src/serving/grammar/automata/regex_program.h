/* SPDX-License-Identifier: Apache-2.0
 * A regular expression as a program over bytes: K. Thompson's automaton, which is in many states at
 * once. regex_automaton.c runs it.
 *
 * An assertion (\b, (?=...), (?!...)) is a separate automaton over the text that follows. It may
 * depend on the position, so there are up to three of it.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_REGEX_PROGRAM_H
#define SERVING_GRAMMAR_AUTOMATA_REGEX_PROGRAM_H

#include "serving/grammar/automata/automaton_draft.h"
#include "serving/grammar/automata/regex_tree.h"

enum regex_place { REGEX_AT_BEGIN, REGEX_BEHIND_WORD, REGEX_BEHIND_OTHER, REGEX_PLACE_COUNT };

enum regex_step_kind {
    REGEX_BYTES,    /* edges [first, first + count) */
    REGEX_ANY,      /* the same, and accepts: all texts that follow */
    REGEX_FORK,     /* to both, a and b */
    REGEX_IF_BEGIN, /* to a at the start of the text */
    REGEX_IF_END,   /* to a where nothing follows */
    REGEX_IF_LOOK,  /* to a where look b holds */
    REGEX_ACCEPT
};

struct regex_step {
    enum regex_step_kind kind;
    uint32_t a, b;
    uint32_t first, count;
};

struct regex_edge {
    uint8_t first, last;
    uint32_t to;
};

struct regex_look {
    uint32_t watched[REGEX_PLACE_COUNT]; /* indices of automata */
};

/* UTF-8 texts of one length, with bytes in the ranges from lows to highs. */
struct byte_runs {
    uint8_t lows[4], highs[4];
    uint32_t count;
};

struct regex_program {
    struct automaton_work *work;
    /* Makes the automaton of the texts that may follow at a position and begin with one of the
     * node's. The caller that runs programs provides it, because an assertion is run as its own
     * program. */
    enum status (*look_ahead)(struct automaton_work *work, const struct regex *regex, uint32_t node,
                              enum regex_place place, const struct automaton **out);
    const struct regex *regex;
    struct regex_step *steps;
    struct regex_edge *edges;
    struct regex_look *looks;
    struct byte_runs *runs; /* of the set that is added */
    const struct automaton **watched;
    uint32_t step_count, step_capacity, edge_count, edge_capacity, look_count, look_capacity,
        run_count, run_capacity, watched_count, watched_capacity;
    bool minds_words;        /* some look depends on whether a word's character precedes it */
    uint32_t nothing_behind; /* REGEX_ACCEPT or REGEX_ANY: where everything ends */
};

/* The program of the node `number` and, behind it, `next`: the step to begin with. */
enum status regex_program_add(struct regex_program *program, uint32_t number, uint32_t next,
                              uint32_t *out) MUST_USE;
/* A step with an edge to `to` for each character of the ranges (ordered). */
enum status regex_program_add_set(struct regex_program *program, const struct code_range *ranges,
                                  size_t count, uint32_t to, uint32_t *out) MUST_USE;
enum status regex_program_add_step(struct regex_program *program, struct regex_step step,
                                   uint32_t *out) MUST_USE;
/* Whether every text of the node begins where the text does. */
bool regex_program_is_anchored(const struct regex *regex, uint32_t node);

#endif
