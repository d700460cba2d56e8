/* SPDX-License-Identifier: Apache-2.0
 * Parses regular expressions into syntax trees. There are two syntaxes: ECMA-262 with the flag u,
 * as used by JSON Schema validators, and the common subset of Rust's and Python's. The parser
 * also accepts escapes and lone braces that the flag u forbids but validators accept.
 *
 * Lazy quantifiers are read as greedy ones and groups do not capture, because neither changes the
 * set of matching texts. Back references and lookbehind are not supported.
 */
#pragma once

#include "serving/grammar/automata/code_points.h"

#define REGEX_UNBOUNDED UINT32_MAX

enum regex_syntax {
    REGEX_ECMA, /* ECMA-262: \d and \w are ASCII */
    REGEX_TEXT  /* Unicode: \w is what Rust and Python agree on, \W what both exclude */
};

enum regex_kind {
    REGEX_SET,       /* one character in ranges [first, first + count) */
    REGEX_SEQUENCE,  /* concatenation of links [first, first + count) */
    REGEX_ALTERNATE, /* alternatives: links [first, first + count) */
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
    uint32_t rule; /* 1 + the grammar rule referenced (grammar_builder.h); 0: none */
};

struct regex {
    uint32_t root;
    const struct regex_node *nodes;
    const uint32_t *links; /* nodes */
    const struct code_range *ranges;
};

/* A tree under construction. Its arrays are in `arena`. */
struct regex_tree {
    struct automaton_work *work;
    struct arena *arena;
    struct regex_node *nodes;
    uint32_t *links;
    struct code_range *ranges;
    uint32_t *waiting; /* stack of nodes for unfinished sequences and alternatives */
    uint32_t node_count, node_capacity, link_count, link_capacity, range_count, range_capacity,
        waiting_count, waiting_capacity;
};

/* These functions return STATUS_TOO_LARGE or STATUS_NO_MEMORY. `out` is the new node. */
enum status regex_tree_add_node(struct regex_tree *tree, struct regex_node node,
                                uint32_t *out) MUST_USE;
enum status regex_tree_add_set(struct regex_tree *tree, const struct code_range *ranges,
                               size_t count, uint32_t *out) MUST_USE;
enum status regex_tree_add_link(struct regex_tree *tree, uint32_t node) MUST_USE;
/* Pushes a node on the stack of waiting nodes. */
enum status regex_tree_wait(struct regex_tree *tree, uint32_t node) MUST_USE;
/* Pops the waiting nodes from index `base` on and joins them into a sequence or alternatives. */
enum status regex_tree_gather(struct regex_tree *tree, enum regex_kind kind, uint32_t base,
                              uint32_t *out) MUST_USE;

/* A reader over an expression or a grammar in valid UTF-8. */
struct regex_source {
    struct bytes text;
    size_t at;
};

int regex_tree_peek(const struct regex_source *source); /* the next byte; -1: the end */
/* Skips `text` if it comes next. */
bool regex_tree_take(struct regex_source *source, const char *text);
uint32_t regex_tree_take_character(struct regex_source *source); /* not at the end */
/* Reads exactly `count` hexadecimal digits. Returns -1 and reads nothing if there are fewer. */
int64_t regex_tree_take_hex(struct regex_source *source, size_t count);
/* Reads a repetition count, limited to 1,000,000. Returns false if no digit follows. */
bool regex_tree_take_number(struct regex_source *source, uint32_t *out);
/* The value of a digit of a base up to 16, or -1 if it is not a digit. */
static inline int regex_tree_digit_value(int byte, int base) {
    int value = byte >= '0' && byte <= '9'   ? byte - '0'
                : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                             : base;
    return value < base ? value : -1;
}

/* Parses into the scratch arena. For STATUS_INVALID and STATUS_UNSUPPORTED, `error` names the
 * construct and its byte. */
enum status regex_tree_parse(struct automaton_work *work, struct bytes pattern,
                             enum regex_syntax syntax, struct regex *out,
                             struct error *error) MUST_USE;

/* ---- the automaton: regex_dfa.c ---- */

/* The DFA of the texts that `node` matches as a whole. STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
enum status regex_dfa_make(struct automaton_work *work, const struct regex *regex, uint32_t node,
                           const struct automaton **out) MUST_USE;
