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
    REGEX_LOOKAHEAD  /* (?=node `first`); negative: (?!node `first`) */
};

struct regex_node {
    enum regex_kind kind;
    bool negative;
    uint32_t first, count;
    uint32_t min, max;
    uint32_t rule; /* 1 + the rule that the node refers to (grammar_builder.h); 0: none */
};

struct regex {
    uint32_t root;
    const struct regex_node *nodes;
    const uint32_t *links; /* nodes */
    const struct code_range *ranges;
};

/* A tree in the making, in `arena`. */
struct regex_tree {
    struct automaton_work *work;
    struct arena *arena;
    struct regex_node *nodes;
    uint32_t *links;
    struct code_range *ranges;
    uint32_t *waiting; /* nodes of tuple_table and alternatives that are not finished */
    uint32_t node_count, node_capacity, link_count, link_capacity, range_count, range_capacity,
        waiting_count, waiting_capacity;
};

/* All of the following: STATUS_TOO_LARGE, STATUS_NO_MEMORY. `out` is a node. */
enum status regex_tree_add_node(struct regex_tree *tree, struct regex_node node,
                                uint32_t *out) MUST_USE;
enum status regex_tree_add_set(struct regex_tree *tree, const struct code_range *ranges,
                               size_t count, uint32_t *out) MUST_USE;
enum status regex_tree_add_link(struct regex_tree *tree, uint32_t node) MUST_USE;
enum status regex_tree_wait(struct regex_tree *tree, uint32_t node) MUST_USE;
/* All nodes that wait from `base` on as one: a sequence or alternatives. */
enum status regex_tree_gather(struct regex_tree *tree, enum regex_kind kind, uint32_t base,
                              uint32_t *out) MUST_USE;

/* The text of an expression or a grammar, valid UTF-8, and how much of it is read. */
struct regex_source {
    struct bytes text;
    size_t at;
};

int regex_tree_peek(const struct regex_source *source); /* a byte; -1: the end */
/* Takes `text`, if it is next. */
bool regex_tree_take(struct regex_source *source, const char *text);
uint32_t regex_tree_take_character(struct regex_source *source); /* not at the end */
/* The value of exactly `count` hexadecimal digits; -1, and nothing is taken, where there are
 * others. */
int64_t regex_tree_take_hex(struct regex_source *source, size_t count);
/* Digits of a repetition's count, at most 1,000,000: more is no use to an automaton. False:
 * none. */
bool regex_tree_take_number(struct regex_source *source, uint32_t *out);
int regex_tree_digit_value(int byte, int base); /* -1: not a digit */

/* In the work's scratch. STATUS_INVALID, STATUS_UNSUPPORTED with what and where in `error`. */
enum status regex_tree_parse(struct automaton_work *work, struct bytes pattern,
                             enum regex_syntax syntax, struct regex *out,
                             struct error *error) MUST_USE;

/* ---- the automaton: regex_dfa.c ---- */

/* Makes the automaton of the part below `node`. STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
enum status regex_dfa_make(struct automaton_work *work, const struct regex *regex, uint32_t node,
                           const struct automaton **out) MUST_USE;

#endif
