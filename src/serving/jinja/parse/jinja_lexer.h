/* SPDX-License-Identifier: Apache-2.0
 * The lexer: splits a template into lexemes by Jinja's rules for delimiters, white space around
 * tags (trim_blocks and lstrip_blocks are on), newlines and literals.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

enum lexeme_kind {
    LEXEME_END,
    LEXEME_DATA, /* text outside of tags */
    LEXEME_BLOCK_BEGIN,
    LEXEME_BLOCK_END,
    LEXEME_PRINT_BEGIN,
    LEXEME_PRINT_END,
    LEXEME_NAME,
    LEXEME_STRING, /* escapes are decoded */
    LEXEME_INTEGER,
    LEXEME_REAL,
    LEXEME_ADD,
    LEXEME_SUBTRACT,
    LEXEME_DIVIDE,
    LEXEME_FLOOR,
    LEXEME_MULTIPLY,
    LEXEME_MODULO,
    LEXEME_POWER,
    LEXEME_TILDE,
    LEXEME_BRACKET_LEFT,
    LEXEME_BRACKET_RIGHT,
    LEXEME_PARENTHESIS_LEFT,
    LEXEME_PARENTHESIS_RIGHT,
    LEXEME_BRACE_LEFT,
    LEXEME_BRACE_RIGHT,
    LEXEME_EQUAL,
    LEXEME_UNEQUAL,
    LEXEME_GREATER,
    LEXEME_GREATER_EQUAL,
    LEXEME_LESS,
    LEXEME_LESS_EQUAL,
    LEXEME_ASSIGN,
    LEXEME_DOT,
    LEXEME_COLON,
    LEXEME_PIPE,
    LEXEME_COMMA,
    LEXEME_SEMICOLON
};

struct lexeme {
    enum lexeme_kind kind;
    uint32_t line;
    union {
        struct bytes text; /* DATA, NAME, STRING: in the machine's memory */
        int64_t integer;
        double real;
    };
};

/* Splits the source; the last lexeme is LEXEME_END. On failure, the machine has the error and its
 * line. */
bool jinja_lexer_run(struct jinja_machine *machine, struct bytes source, struct lexeme **out,
                     size_t *count_out) MUST_USE;
