/* SPDX-License-Identifier: Apache-2.0
 * Upper and lower case of texts, and what all characters of a text have in common, as Python's str
 * has them. What a character becomes has the character's origin.
 */
#ifndef SERVING_JINJA_LETTERS_H
#define SERVING_JINJA_LETTERS_H

#include "serving/jinja/jinja_machine.h"

enum letters_change {
    LETTERS_UPPER,
    LETTERS_LOWER,
    LETTERS_CAPITALIZE, /* the first character in title case, the others lower */
    LETTERS_TITLE,      /* so each word's */
    LETTERS_SWAP,
    LETTERS_FOLD
};

/* Adds the part [start, end) changed, as if it were the whole text. */
bool letters_add(struct text_builder *builder, const struct value_text *text, size_t start,
                 size_t end, enum letters_change change) MUST_USE;

/* The whole text changed; markup stays so. */
bool letters_change(struct jinja_machine *machine, const struct value_text *text,
                    enum letters_change change, struct value *out) MUST_USE;

enum letters_kind {
    LETTERS_ARE_ALNUM,
    LETTERS_ARE_ALPHA,
    LETTERS_ARE_ASCII,
    LETTERS_ARE_DECIMAL,
    LETTERS_ARE_DIGIT,
    LETTERS_ARE_IDENTIFIER,
    LETTERS_ARE_LOWER,
    LETTERS_ARE_NUMERIC,
    LETTERS_ARE_PRINTABLE,
    LETTERS_ARE_SPACE,
    LETTERS_ARE_TITLE,
    LETTERS_ARE_UPPER
};

/* str.isalnum and its like. */
bool letters_are(const struct value_text *text, enum letters_kind kind);

#endif
