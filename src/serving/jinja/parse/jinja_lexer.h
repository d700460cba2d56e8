/* SPDX-License-Identifier: Apache-2.0
 * A template's text as tokens, by Jinja's rules for delimiters, for white space around tags
 * (trim_blocks and lstrip_blocks are on), for newlines and for literals.
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
    LEXEME_STRING, /* text, escapes resolved */
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

/* The last lexeme is LEXEME_END. Fails through the machine; sets its `line`. */
bool jinja_lexer_run(struct jinja_machine *machine, struct bytes source, struct lexeme **out,
                     size_t *count_out) MUST_USE;
