/* SPDX-License-Identifier: Apache-2.0
 * The parser: builds the tree from lexemes by Jinja's grammar. jinja_parser.c parses statements,
 * jinja_expression.c expressions. jinja_scopes.c resolves the names afterwards.
 */
#pragma once

#include "serving/jinja/parse/jinja_lexer.h"
#include "serving/jinja/parse/jinja_tree.h"

struct jinja_parser {
    struct jinja_machine *machine;
    struct jinja_program *program;
    const struct lexeme *at;
    uint32_t depth;
};

/* Fills in the statements, words and texts of the program. */
bool jinja_parser_run(struct jinja_machine *machine, const struct lexeme *lexemes,
                      struct jinja_program *program) MUST_USE;

/* A linked list of nodes with an append operation. */
struct node_list {
    struct node *first, *last;
    uint32_t count;
};

struct node *jinja_parser_node(struct jinja_parser *parser, enum node_kind kind, uint32_t line);
void jinja_parser_append(struct node_list *list, struct node *node);
/* The number of a word in the program, or word_count if the program does not have it. */
uint32_t jinja_parser_number(const struct jinja_program *program, struct bytes text);
/* Adds a word unless the program has it. Returns its number, and its text with the hash set. */
bool jinja_parser_word(struct jinja_parser *parser, struct bytes text, uint32_t *number_out,
                       struct value *out) MUST_USE;

bool jinja_parser_is(const struct jinja_parser *parser, enum lexeme_kind kind);
bool jinja_parser_is_name(const struct jinja_parser *parser, const char *name);
bool jinja_parser_skip(struct jinja_parser *parser, enum lexeme_kind kind);
bool jinja_parser_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_parser_expect(struct jinja_parser *parser, enum lexeme_kind kind,
                         const char *what) MUST_USE;
/* Reports the current lexeme as a syntax error; `expected` may be NULL. Always false. */
#define jinja_parser_unexpected(parser, expected)                                                  \
    (jinja_parser_note_unexpected((parser), (expected)), false)
void jinja_parser_note_unexpected(struct jinja_parser *parser, const char *expected);

/* ---- expressions (jinja_expression.c) ---- */

enum tuple_rules {
    TUPLE_SIMPLE = 1,       /* only names and literals */
    TUPLE_NO_CONDITION = 2, /* no `a if b` */
    TUPLE_PARENTHESES = 4,  /* () may be empty */
    TUPLE_NAMESPACE = 8     /* ns.name is a target */
};

/* The value of the constants true, false and none, in either case. False for other names. */
bool jinja_expression_constant(struct bytes name, struct value *out);
bool jinja_expression_tuple(struct jinja_parser *parser, unsigned rules,
                            struct node **out) MUST_USE;
bool jinja_expression_parse(struct jinja_parser *parser, bool conditions,
                            struct node **out) MUST_USE;
/* Parses the filters after `node` (NULL for the text of a block). With `inline_start`, the first
 * filter has no `|`. */
bool jinja_expression_filters(struct jinja_parser *parser, struct node *node, bool inline_start,
                              struct node **out) MUST_USE;
/* Parses an assignment target: a name, a tuple of names, or ns.name with TUPLE_NAMESPACE. */
bool jinja_expression_target(struct jinja_parser *parser, unsigned rules,
                             struct node **out) MUST_USE;
