/* SPDX-License-Identifier: Apache-2.0
 * From lexemes to nodes, by Jinja's grammar. Statements are in jinja_parser.c, expressions in
 * jinja_expression.c; names have no places yet (jinja_scopes.c).
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

/* Fills the program's statements, words, texts and blocks. */
bool jinja_parser_run(struct jinja_machine *machine, const struct lexeme *lexemes,
                      struct jinja_program *program) MUST_USE;

/* A list of nodes that grows at its end. */
struct node_list {
    struct node *first, *last;
    uint32_t count;
};

struct node *jinja_parser_node(struct jinja_parser *parser, enum node_kind kind, uint32_t line);
void jinja_parser_append(struct node_list *list, struct node *node);
/* The number of a word in the program; word_count: it does not occur. */
uint32_t jinja_parser_number(const struct jinja_program *program, struct bytes text);
/* The number of a word, which is added, and its text with a hash. */
bool jinja_parser_word(struct jinja_parser *parser, struct bytes text, uint32_t *number_out,
                       struct value *out) MUST_USE;

bool jinja_parser_is(const struct jinja_parser *parser, enum lexeme_kind kind);
bool jinja_parser_is_name(const struct jinja_parser *parser, const char *name);
bool jinja_parser_skip(struct jinja_parser *parser, enum lexeme_kind kind);
bool jinja_parser_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_parser_expect(struct jinja_parser *parser, enum lexeme_kind kind,
                         const char *what) MUST_USE;
/* Fails with what the current lexeme is. `expected` NULL: nothing certain. Always false. */
#define jinja_parser_unexpected(parser, expected)                                                  \
    (jinja_parser_note_unexpected((parser), (expected)), false)
void jinja_parser_note_unexpected(struct jinja_parser *parser, const char *expected);

/* ---- expressions (jinja_expression.c) ---- */

enum tuple_rules {
    TUPLE_SIMPLE = 1,       /* names and literals alone */
    TUPLE_NO_CONDITION = 2, /* no `a if b` */
    TUPLE_PARENTHESES = 4,  /* () may be empty */
    TUPLE_NAMESPACE = 8     /* ns.name is a target */
};

/* The value of true, false, none and their like; false: the name is none of them. */
bool jinja_expression_constant(struct bytes name, struct value *out);
bool jinja_expression_tuple(struct jinja_parser *parser, unsigned rules,
                            struct node **out) MUST_USE;
bool jinja_expression_parse(struct jinja_parser *parser, bool conditions,
                            struct node **out) MUST_USE;
/* Filters behind `node` (NULL: behind nothing); `inline_start`: the first one has no `|`. */
bool jinja_expression_filters(struct jinja_parser *parser, struct node *node, bool inline_start,
                              struct node **out) MUST_USE;
/* A name, a tuple of them, or with `namespaces` ns.name. */
bool jinja_expression_target(struct jinja_parser *parser, unsigned rules,
                             struct node **out) MUST_USE;
