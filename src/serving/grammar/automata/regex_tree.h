/* SPDX-License-Identifier: Apache-2.0
 * Regular expressions as trees. Two syntaxes, which differ little: ECMA-262's with the flag u, as
 * JSON Schema's validators read it, and that which Rust's and Python's expressions share. Read
 * tolerantly: what validators agree on is taken although the flag u forbids it (\- or a lone {).
 *
 * Greedy, lazy: the same texts. Groups capture nothing. Back references and looking behind are not
 * supported.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_REGEX_TREE_H
#define SERVING_GRAMMAR_AUTOMATA_REGEX_TREE_H

#include "serving/grammar/automata/code_points.h"

#define REGEX_UNBOUNDED UINT32_MAX

enum regex_syntax {
    REGEX_ECMA, /* \d and \w are ASCII's */
    REGEX_TEXT  /* Unicode's: of \w what Rust and Python both take, of \W what neither does */
};

enum regex_kind {
    REGEX_SET,       /* one character of ranges [first, first + count) */
    REGEX_SEQUENCE,  /* links [first, first + count); of none: the empty text */
    REGEX_ALTERNATE, /* one of links [first, first + count) */
    REGEX_REPEAT,    /* node `first`, min to max times */
    REGEX_BEGIN,     /* ^ */
    REGEX_END,       /* $ */
    REGEX_WORD_EDGE, /* \b; negative: \B */
    REGEX_LOOK       /* (?=node `first`); negative: (?!node `first`) */
};

struct regex_node {
    enum regex_kind kind;
    bool negative;
    uint32_t first, count;
    uint32_t min, max;
};

struct regex {
    uint32_t root;
    const struct regex_node *nodes;
    const uint32_t *links; /* nodes */
    const struct code_range *ranges;
};

/* In the work's scratch. STATUS_INVALID, STATUS_UNSUPPORTED with what and where in `error`. */
enum status regex_tree_parse(struct automaton_work *work, struct bytes pattern,
                             enum regex_syntax syntax, struct regex *out,
                             struct error *error) MUST_USE;

#endif
